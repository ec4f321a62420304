"""The plant's settings with a host that uses the database before the workers are forked."""

from __future__ import annotations

from tests.worker.plant_settings import *  # noqa: F403
from tests.worker.plant_settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.worker.early"]
