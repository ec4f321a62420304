"""Settings of the test suite.

`DURABLE_TEST_DATABASE` chooses the database under test: `sqlite` (default; a file, WAL, IMMEDIATE) or `postgresql` (a
server of the run's own, see `tests.postgresql`). The process that reads this module first makes the run's folder or
server and leaves its address in the environment, so that xdist's workers, and processes that tests start, share it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from tests import folders

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "for-tests-only"
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "tests.urls"
MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}  # asked for from Django 6.1 on
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_q",
    "durable",
    "tests.ledger",
    "project.shop",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def run_directory() -> Path:
    """The run's temporary folder; the process that made it removes it."""
    if given := os.environ.get("DURABLE_TEST_DIR"):
        return Path(given)
    made = folders.own("tests", parent=Path(tempfile.gettempdir()))
    os.environ["DURABLE_TEST_DIR"] = str(made)
    return made


def sqlite(name: str) -> dict[str, Any]:
    """A file-backed database: one in memory is not shared between threads, and a shared cache has locks of its own."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("DURABLE_TEST_NAME", run_directory() / f"{name}.sqlite3"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": "PRAGMA journal_mode=WAL"},
        "TEST": {"NAME": str(run_directory() / f"test_{name}.sqlite3")},
    }


def postgresql(name: str) -> dict[str, Any]:
    """A database on the run's own server."""
    if "DURABLE_TEST_PG_SOCKET" not in os.environ:
        from tests.postgresql import start

        os.environ["DURABLE_TEST_PG_SOCKET"] = start().socket_directory
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ.get("DURABLE_TEST_NAME", name),
        "USER": "postgres",
        "HOST": os.environ["DURABLE_TEST_PG_SOCKET"],
    }


MAKERS = {"sqlite": sqlite, "postgresql": postgresql}
VENDOR = os.environ.get("DURABLE_TEST_DATABASE", "sqlite")
if VENDOR not in MAKERS:
    raise ValueError(f"DURABLE_TEST_DATABASE is {VENDOR!r}; it may be {' or '.join(MAKERS)}.")
DATABASES = {"default": MAKERS[VENDOR]("durable")}

Q_CLUSTER = {
    "name": "default",
    "orm": "default",
    "workers": 2,
    "timeout": 60,
    "retry": 120,
    "poll": 0.02,
    "guard_cycle": 0.1,
    "scheduler": False,
    "log_level": "WARNING",
}
"""A django-q2 cluster whose broker is the database under test; tests start one only where they say so."""
