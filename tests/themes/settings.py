"""The suite's settings with the theme that `DURABLE_TEST_THEME` names, installed as its documentation says."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403 - a settings module
from tests.settings import INSTALLED_APPS as PLAIN
from tests.settings import MAKERS, VENDOR

THEME = os.environ["DURABLE_TEST_THEME"]
INSTALLED_APPS = [*(() if THEME == "django" else (THEME,)), *PLAIN]
ROOT_URLCONF = "tests.themes.urls"
# Themes may run at the same time, so each has a database of its own.
DATABASES = {"default": MAKERS[VENDOR](f"theme_{THEME}")}
JAZZMIN_SETTINGS = {"use_google_fonts_cdn": False}  # tests talk to this machine only
