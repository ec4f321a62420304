"""The backend for Django's task interface: `TASKS = {"default": {"BACKEND": "durable.tasks.DurableBackend"}}`.

A task is enqueued as a single activity whose name is the task's path. `docs/django-tasks.md` describes it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable.tasks.backend import DurableBackend as DurableBackend

__all__ = ["DurableBackend"]


def __getattr__(name: str) -> Any:
    # Late: Django before 6.0 has no task interface, and this package has to be importable there without one.
    if name == "DurableBackend":
        return importlib.import_module("durable.tasks.backend").DurableBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
