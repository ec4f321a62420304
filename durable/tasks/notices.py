"""The interface's signals: `task_started` on the thread of the task, `task_finished` after the commit of its end."""

from __future__ import annotations

import uuid
from typing import Any

from durable.kernel.context import activity_context
from durable.signals import activity_dead_lettered, send_here, workflow_closed
from durable.tasks import finding
from durable.tasks.handlers import TaskActivity, announce_by
from durable.tasks.interface import InvalidTaskBackend, Task, TaskResult, task_backends, task_finished, task_started

_UID = "durable.tasks"


_default: type | None = None


def listen(default: type) -> None:
    """From now on starts and ends of tasks are announced in this process; `default` is the sender for those whose
    backend the settings no longer name. Idempotent.
    """
    global _default
    _default = default
    announce_by(started)
    workflow_closed.connect(_closed, dispatch_uid=_UID)
    activity_dead_lettered.connect(_dead_lettered, dispatch_uid=_UID)


def started(task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskResult[..., Any]:
    """Sends `task_started` for the delivery that runs here, on this thread; returns its result."""
    from durable.tasks import results  # it reads rows, and this module is imported before there are models

    claim = activity_context.claimed.get()
    activity = finding.activity_at(claim.activity) or TaskActivity(task)
    result = results.running(claim, activity, args, kwargs)
    _send(task_started, "task_started", result, claim.workflow_id)
    return result


def _closed(sender: Any, *, workflow_id: uuid.UUID, **values: Any) -> None:
    if isinstance(sender, TaskActivity):
        _finished(sender, workflow_id)


def _dead_lettered(sender: Any, *, workflow_id: uuid.UUID, single: bool, delivered: bool, **values: Any) -> None:
    # One that is delivered closes its workflow as well, and is announced then.
    if isinstance(sender, TaskActivity) and single and not delivered:
        _finished(sender, workflow_id)


def _finished(activity: TaskActivity, workflow_id: uuid.UUID) -> None:
    from durable.flow.looks import single as look
    from durable.tasks import results

    single = look.single(workflow_id)
    # The end of a dead letter was announced when it became one. If staff have redriven it already, it is not over.
    if single is None or (single.ended is not None and results.was_dead_letter(single)):
        return
    result = results.of(single, activity)
    if result.is_finished:
        _send(task_finished, "task_finished", result, workflow_id)


def _send(signal: Any, name: str, result: TaskResult[..., Any], workflow_id: uuid.UUID) -> None:
    try:
        sender: type | None = type(task_backends[result.backend])
    except InvalidTaskBackend:
        sender = _default
    send_here(signal, sender, {"task_result": result}, name=name, workflow_id=workflow_id)
