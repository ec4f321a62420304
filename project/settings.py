"""Settings of the example project: the demo's shop on an embedded SQLite database.

`settings_production` beside this file is what a deployment of it would use.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog
from structlog.tracebacks import ExceptionDictTransformer

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "insecure: good for the demo on this machine, and for nothing else"
DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_structlog",
    "django_q",
    "durable",
    "project.shop",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",  # the admin in the language that the browser asks for
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
]
ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
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
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("DEMO_DATABASE", Path.cwd() / "demo.sqlite3"),
        # What `manage.py check` asks of an SQLite database that more than one process writes to.
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 5,  # not longer than a lease, see below
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
    }
}
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DURABLE: dict[str, Any] = {
    # The demo kills workers; its audience should not wait a minute until that is found out.
    "LEASE_FOR": timedelta(seconds=5),
}
Q_CLUSTER = {"name": "default", "orm": "default", "workers": 2, "timeout": 60, "retry": 120}
if "DEMO_CLUSTER" in os.environ:  # `manage.py demo --cluster` has the parcels packed by a cluster of django-q2
    # A cluster that is killed takes along the messages in its memory; nobody should wait for these either.
    DURABLE["QUEUES"] = {"parcels": {"transport": "django_q", "cluster": "default", "begin_for": timedelta(seconds=10)}}

# The app speaks through the standard library's logging; how that looks is the project's business, hence this part. The
# tracebacks go without the values of local variables: payloads are among them, which readers of logs may not see.
_SHARED_PROCESSORS: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        *_SHARED_PROCESSORS,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.StackInfoRenderer(),
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
    cache_logger_on_first_use=True,
)
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "console": {
            "()": structlog.stdlib.ProcessorFormatter,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
            ],
            "foreign_pre_chain": _SHARED_PROCESSORS,
        },
        "json": {
            "()": structlog.stdlib.ProcessorFormatter,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
                structlog.processors.JSONRenderer(),
            ],
            "foreign_pre_chain": _SHARED_PROCESSORS,
        },
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": os.environ.get("LOG_FORMAT", "console")}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("LOG_LEVEL", "WARNING")},
    "loggers": {"django.server": {"handlers": ["stderr"], "level": "WARNING", "propagate": False}},
}
