"""A project that differs where it hurts: users of its own, an admin site of its own, no time zones, few middlewares."""

from __future__ import annotations

from tests.settings import *  # noqa: F403 - a settings module
from tests.settings import MAKERS, MIDDLEWARE, VENDOR

INSTALLED_APPS = [
    "tests.admin.people",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "durable",
]
AUTH_USER_MODEL = "people.Person"
ROOT_URLCONF = "tests.admin.custom_user_urls"
USE_TZ = False
TIME_ZONE = "Asia/Tokyo"
MIDDLEWARE = [*MIDDLEWARE]
DATABASES = {"default": MAKERS[VENDOR]("custom_user")}
