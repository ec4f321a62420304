"""The plant's settings for workers that tests kill, freeze and watch: everything above debug goes to stderr."""

from __future__ import annotations

import os

from tests.worker.plant_settings import *  # noqa: F403
from tests.worker.plant_settings import DATABASES, DURABLE, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.chaos.yard"]
if "PLANT_KEEPS_CONNECTIONS" in os.environ:
    DATABASES["default"] |= {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False}
DURABLE = DURABLE | {"CONCURRENCY": 8, "NOTIFY": "PLANT_NOTIFY" in os.environ}
DEBUG = "PLANT_DEBUG" in os.environ
SILENCED_SYSTEM_CHECKS = ["durable.W005"]  # the plant has impure workflows on purpose
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"level": "INFO", "handlers": ["stderr"]},
}
