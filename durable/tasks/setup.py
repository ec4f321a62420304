"""What happens at the start of a process whose `TASKS` names the backend; and what is said where that cannot work.

Imports nothing of the task interface, unless `TASKS` names a backend of ours.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Final

import django
from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.utils.module_loading import autodiscover_modules, import_string

from durable.tasks.available import is_available

_OURS: Final = "durable.tasks."


def start() -> None:
    """Makes the backends of ours, and imports the modules in which tasks are defined: those called `tasks` of the
    installed apps, and those that the backends name. Does nothing where `TASKS` names no backend of ours.
    """
    if not is_available():
        return
    aliases = list(_aliases_of_ours())
    if not aliases:
        return
    # Late: there may be no interface, and where TASKS names no backend of ours it is not needed.
    from durable.tasks.interface import task_backends

    backends: list[Any] = [task_backends[alias] for alias in aliases]
    autodiscover_modules("tasks")
    for backend in backends:
        for module in backend.chosen.modules:
            importlib.import_module(module)


def _aliases_of_ours() -> Iterator[str]:
    for alias, path in _paths():
        if path.startswith("django."):
            continue
        try:
            named = import_string(path)
        except ImportError:
            continue  # Django says so where the backend is used, and in its checks
        if isinstance(named, type) and getattr(named, "is_durable", False):
            yield alias


def _paths() -> Iterator[tuple[str, str]]:
    chosen = getattr(settings, "TASKS", None)
    if isinstance(chosen, dict):
        for alias, params in chosen.items():
            path = params.get("BACKEND") if isinstance(params, dict) else None
            if isinstance(path, str):
                yield alias, path


def check_interface(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E013: `TASKS` names the backend where there is no task interface."""
    if is_available():
        return []
    return [
        Error(
            f"TASKS[{alias!r}]['BACKEND'] is {path!r}, but Django {django.get_version()} has no task interface.",
            hint="Install the package django-tasks (pip install 'durable-django[tasks]'), or Django 6.0 or later.",
            id="durable.E013",
        )
        for alias, path in _paths()
        if path.startswith(_OURS)
    ]
