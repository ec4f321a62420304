"""The demo's site, in the language that the environment names."""

from __future__ import annotations

import os

from project.settings import *  # noqa: F403

LANGUAGE_CODE = os.environ.get("DURABLE_SCREENSHOTS_LANGUAGE", "en")
DEBUG = False
ALLOWED_HOSTS = ["*"]
