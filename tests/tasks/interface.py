"""The task interface of the Django under test, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django import tasks
    from django.tasks import TaskResultStatus, signals
    from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist, TaskResultMismatch

    PACKAGE = "django.tasks"
else:
    import django_tasks as tasks
    from django_tasks import TaskResultStatus, exceptions, signals
    from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch

    InvalidTask = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
    InvalidTaskBackend = getattr(exceptions, "InvalidTaskBackend", None) or exceptions.InvalidTaskBackendError
    PACKAGE = "django_tasks"

task: Any = tasks.task
"""Untyped: tests also make tasks, and call them, as nobody should."""
task_backends: Any = tasks.task_backends
default_task_backend: Any = tasks.default_task_backend
task_enqueued, task_started, task_finished = signals.task_enqueued, signals.task_started, signals.task_finished

__all__ = [
    "PACKAGE",
    "InvalidTask",
    "InvalidTaskBackend",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "default_task_backend",
    "task",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
