"""The activity of a task: its function, called as Django's interface says, between `task_started` and its result."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from asgiref.sync import sync_to_async

from durable.kernel.definitions.definition import ActivityDefinition
from durable.tasks.chosen import ONE_ATTEMPT
from durable.tasks.interface import Task, TaskContext, TaskResult, normalize_json

Announce: TypeAlias = "Callable[[Task[..., Any], tuple[Any, ...], dict[str, Any]], TaskResult[..., Any]]"
"""Says that a task begins with these arguments, and returns its result."""

_announce: Announce | None = None


def announce_by(announce: Announce) -> None:
    """From now on handlers say by this that they begin."""
    global _announce
    _announce = announce


class TaskActivity(ActivityDefinition[..., Any]):
    """The activity of a task. Takes any arguments, as JSON natives: a call that does not fit fails when it runs, as
    Django's interface says.
    """

    def __init__(self, task: Task[..., Any]) -> None:
        super().__init__(_handler(task), name=task.module_path, retry=ONE_ATTEMPT, queue=task.queue_name)
        self.task = task


def _handler(task: Task[..., Any]) -> Callable[..., Any]:
    function: Callable[..., Any] = task.func

    def handler(*args: Any, **kwargs: Any) -> Any:
        leading = _started(task, args, kwargs)
        return normalize_json(function(*leading, *args, **kwargs))

    async def async_handler(*args: Any, **kwargs: Any) -> Any:
        # Receivers of the signal may use the ORM, so they get a thread of their own.
        leading = await sync_to_async(_started)(task, args, kwargs)
        return normalize_json(await function(*leading, *args, **kwargs))

    made: Any = async_handler if inspect.iscoroutinefunction(function) else handler
    for name in (*functools.WRAPPER_ASSIGNMENTS,):
        if name not in ("__annotations__", "__annotate__", "__type_params__"):
            setattr(made, name, getattr(function, name))
    return made  # type: ignore[no-any-return]


def _started(task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[TaskContext[..., Any], ...]:
    """Says that the task runs; returns its context, if it takes one."""
    assert _announce is not None, "The backend has not been made."
    result = _announce(task, args, kwargs)
    return (TaskContext(task_result=result),) if task.takes_context else ()
