"""Whether there is a task interface: Django has one from 6.0 on, and before the package `django_tasks` is one."""

from __future__ import annotations

import importlib.util
from typing import Final

import django

MISSING: Final = (
    "durable.tasks.DurableBackend needs Django's task interface, which Django has from 6.0 on. "
    "Install the package django-tasks (pip install 'durable-django[tasks]'), or Django 6.0 or later."
)


def is_available() -> bool:
    """Whether there is a task interface in this environment. Imports nothing of it."""
    return django.VERSION >= (6, 0) or importlib.util.find_spec("django_tasks") is not None
