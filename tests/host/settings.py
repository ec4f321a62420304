"""The kinds of settings that real projects have, all at once. `HOST_USE_TZ=0` makes its moments naive."""

from __future__ import annotations

import os
from datetime import timedelta

import django

from tests.settings import *  # noqa: F403 - a settings module
from tests.settings import BASE_DIR, MAKERS, TEMPLATES, VENDOR, run_directory

USE_TZ = os.environ.get("HOST_USE_TZ", "1") == "1"
TIME_ZONE = "Pacific/Auckland"
LANGUAGE_CODE = "de"
ROOT_URLCONF = "tests.host.urls"
AUTH_USER_MODEL = "desk.User"
INSTALLED_APPS = [
    "tests.host.desk",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "durable",
]
TEMPLATES = [{**TEMPLATES[0], "DIRS": []}]
PLACE = f"host_{'aware' if USE_TZ else 'naive'}_{os.environ.get('HOST_PART', 'alone')}"
DATABASES = {"default": {**MAKERS[VENDOR](PLACE), "ATOMIC_REQUESTS": True}}

STATIC_URL = "/assets/"
STATIC_ROOT = run_directory() / f"{PLACE}-assets"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"},
}

POLICY = {
    "default-src": ["'none'"],
    "script-src": ["'self'"],
    "style-src": ["'self'"],
    "img-src": ["'self'"],
    "connect-src": ["'self'"],
    "form-action": ["'self'"],
    "base-uri": ["'none'"],
    "frame-ancestors": ["'none'"],
}
SECURE_CSP = POLICY
CSP_MIDDLEWARE = (
    "django.middleware.csp.ContentSecurityPolicyMiddleware"
    if django.VERSION >= (6, 0)
    else "tests.host.desk.middleware.ContentSecurityPolicy"
)
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    CSP_MIDDLEWARE,
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "tests.host.desk.middleware.Atomic",
]
NOT_ATOMIC_BELOW: tuple[str, ...] = ("/admin/durable/",)
"""Where the atomic middleware stays away, as `docs/dead-letters.md` asks for."""

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"rows": {"class": "tests.host.desk.lines.RowHandler"}, "console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["rows", "console"], "level": "DEBUG"},
}
JAM = str(run_directory() / f"{PLACE}-jam")
"""While there is a file of this name, the printer kills whoever prints."""

DURABLE = {
    "LEASE_FOR": timedelta(seconds=2),
    "DELIVERY_ATTEMPTS": 2,
    "DELIVERY_BACKOFF": (timedelta(milliseconds=1), 1.0, timedelta(milliseconds=1)),
    "CONCURRENCY": 4,
}
PROJECT_DIR = BASE_DIR
