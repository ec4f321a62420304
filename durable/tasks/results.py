"""A single activity as the `TaskResult` of its task."""

from __future__ import annotations

import builtins
import dataclasses
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from django.conf import settings as django_settings
from django.db import Error as DatabaseFault
from django.utils import timezone

from durable import clock
from durable.conf import settings
from durable.errors import ActivityError, DurableError, WorkflowCancelled
from durable.errors.showing import dotted_name
from durable.flow.looks import single as look
from durable.flow.looks.single import FailedDelivery, Single
from durable.kernel.codec import decode_arguments
from durable.kernel.payloads import birthplace
from durable.outcomes import Cause, Claim, Failure, OutboxStatus, WorkflowStatus
from durable.tasks import finding
from durable.tasks.handlers import TaskActivity
from durable.tasks.interface import InvalidTask, Task, TaskError, TaskResult, TaskResultStatus

OPTION: Final = "task"
"""Under this key a row's options hold what the call chose: backend, queue, priority, and the time of `run_after`."""

_NEVER_BEGUN: Final = frozenset({Cause.UNKNOWN_HANDLER, Cause.UNDECODABLE_INPUT, Cause.TRANSPORT_DOWN})


def as_option(backend: str, task: Task[..., Any]) -> dict[str, Any]:
    """What a row stores of the task as it is enqueued."""
    run_after = task.run_after
    return {
        "backend": backend,
        "queue": task.queue_name,
        "priority": int(task.priority),
        **({} if run_after is None else {"run_after": run_after.isoformat()}),
    }


def result_of(workflow_id: uuid.UUID) -> TaskResult[..., Any] | None:
    """The result of a task by its id. None: there is none of that id. Raises `InvalidTask` if there is no such task any
    more, and `PayloadError` if its arguments or its return value cannot be decoded.
    """
    single = look.single(workflow_id)
    if single is None:
        return None
    activity = finding.activity_at(single.activity)
    if activity is not None:
        return of(single, activity)
    if OPTION not in single.options:
        return None
    raise InvalidTask(
        f"The result {workflow_id} is of the task {single.activity!r}, which is gone, or in a module that this process "
        "has not imported and may not import for a row."
    )


def of(single: Single, activity: TaskActivity) -> TaskResult[..., Any]:
    """What the interface shows of a single activity."""
    args, kwargs = decode_arguments(activity, single.payload, codec=settings.codec(), workflow_id=single.id)
    status = status_of(single)
    begun = _begun(single)
    started = [at for _, at in begun if at is not None]
    made = TaskResult(
        task=_as_enqueued(activity.task, single.options.get(OPTION, {})),
        id=str(single.id),
        status=status,
        enqueued_at=_shown(single.created_at),
        started_at=_shown(min(started, default=None)),
        last_attempted_at=_shown(max(started, default=None)),
        finished_at=_shown(single.closed_at or single.dead_lettered_at) if _is_over(status) else None,
        args=list(args),
        kwargs=kwargs,
        backend=single.options.get(OPTION, {}).get("backend", activity.task.backend),
        errors=[*(_error(failed, single.activity) for failed in single.failed), *_end_of(single)],
        worker_ids=[worker for worker, _ in begun],
    )
    if single.ended is WorkflowStatus.COMPLETED and single.result is not None:
        born = birthplace.result(single.id, 1)
        value = settings.codec().decode(single.result, Any, path="result", birthplace=born)
        object.__setattr__(made, "_return_value", value)
    return made


def running(
    claim: Claim, activity: TaskActivity, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TaskResult[..., Any]:
    """The result of a task whose handler begins now. Reads the database only for what came before this delivery; where
    it cannot be reached, that is left out, since the attempt must not fail for it.
    """
    if claim.delivery > 1:
        with suppress(DatabaseFault):
            single = look.single(claim.workflow_id)
            if single is not None and single.row is OutboxStatus.CLAIMED:
                return of(single, activity)
    option, now = claim.options.get(OPTION, {}), _shown(clock.host_now())
    return TaskResult(
        task=_as_enqueued(activity.task, option),
        id=str(claim.workflow_id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=_shown(claim.created_at),
        started_at=now,
        last_attempted_at=now,
        finished_at=None,
        args=list(args),
        kwargs=kwargs,
        backend=option.get("backend", activity.task.backend),
        errors=[],
        worker_ids=[claim.worker] * claim.attempt,
    )


def status_of(single: Single) -> TaskResultStatus:
    """Where the task is. A dead letter has failed, until somebody redrives it."""
    match single.ended, single.row:
        case WorkflowStatus.COMPLETED, _:
            return TaskResultStatus.SUCCESSFUL
        case None, OutboxStatus.PENDING:
            return TaskResultStatus.READY
        case None, OutboxStatus.CLAIMED:
            return TaskResultStatus.RUNNING
        case _:
            return TaskResultStatus.FAILED


def was_dead_letter(single: Single) -> bool:
    """Whether an activity that has ended was closed as a dead letter that had waited for staff."""
    if single.dead_lettered_at is None or single.was_delivered or single.row is not OutboxStatus.CANCELLED:
        return False
    # A redrive takes the claim away, and a later one is made after the dead letter's time.
    return single.claimed_at is not None and single.claimed_at <= single.dead_lettered_at


def _is_over(status: TaskResultStatus) -> bool:
    return status in (TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL)


def _begun(single: Single) -> list[tuple[str, datetime | None]]:
    """The deliveries that reached a handler: worker, and when it began, if that is known."""
    begun = [
        (failed.worker, failed.started_at or (single.claimed_at if failed.number == single.deliveries else None))
        for failed in single.failed
        if failed.cause not in _NEVER_BEGUN
    ]
    if single.claimed_at is not None and all(failed.number != single.deliveries for failed in single.failed):
        begun.append((single.worker, single.claimed_at))
    return begun


def _as_enqueued(task: Task[..., Any], option: Mapping[str, Any]) -> Task[..., Any]:
    """The task with what the call chose. Not by `using`: that would refuse a queue, or a backend, which the settings no
    longer name.
    """
    run_after = option.get("run_after")
    chosen = {
        "backend": option.get("backend", task.backend),
        "queue_name": option.get("queue", task.queue_name),
        "priority": option.get("priority", task.priority),
        "run_after": None if run_after is None else datetime.fromisoformat(run_after),
    }
    made: Task[..., Any] = object.__new__(type(task))
    for field in dataclasses.fields(task):
        object.__setattr__(made, field.name, chosen.get(field.name, getattr(task, field.name)))
    return made


def _error(failed: FailedDelivery, activity: str) -> TaskError:
    failure = failed.error
    if failure is None:
        cause = failed.cause.value.replace("_", " ")
        lost = ActivityError(activity=activity, ordinal=1, type="DeliveryFailed", message=cause)
        return _as_error(lost)
    text = failure.traceback or f"{failure.type}: {failure.message}"
    return TaskError(exception_class_path=_class_path(failure), traceback=f"{text.rstrip()}\n")


def _class_path(failure: Failure) -> str:
    """Where the class can be imported from: stored names go without the module of built-in classes."""
    if "." in failure.type:
        return failure.type
    return f"builtins.{failure.type}" if hasattr(builtins, failure.type) else dotted_name(ActivityError)


def _end_of(single: Single) -> list[TaskError]:
    """A cancellation, which is no attempt's error."""
    cancelled = single.ended is WorkflowStatus.CANCELLED
    return [_as_error(WorkflowCancelled(single.id, reason=single.reason))] if cancelled else []


def _as_error(error: DurableError) -> TaskError:
    path = dotted_name(type(error))
    return TaskError(exception_class_path=path, traceback=f"{path}: {error}\n")


def _shown(at: datetime | None) -> datetime | None:
    """A time as the project has times: naive, in its zone, where `USE_TZ` is off."""
    return at if at is None or django_settings.USE_TZ else timezone.make_naive(at)
