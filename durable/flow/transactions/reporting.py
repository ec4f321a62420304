"""Log lines and signals about a change, sent in the transaction that makes it, and emitted after its commit.

Each failure is one line at ERROR. That of an activity is logged when the activity fails; a workflow that ends only
because of that logs a WARNING, as does a parent that ends because of its child. No `atomic` in here.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from durable import signals
from durable.errors import ActivityError, ChildFailed, ChildTimedOut, WorkflowTimedOut
from durable.errors.showing import is_a
from durable.kernel.texts import tracebacks
from durable.logs import get_logger, says_texts
from durable.outcomes import Cause, Claim, Failed, Failure, KeyHeld, RetryLater, Started, WorkflowStatus
from durable.store.deliveries.outbox import LockedRow
from durable.store.runs.starts import NewActivity, NewWorkflow
from durable.store.runs.workflows import LockedWorkflow

logger = get_logger("durable.flow")


def started(new: Sequence[NewWorkflow | NewActivity], outcomes: Sequence[Started | KeyHeld]) -> None:
    """Workflows and single activities were inserted."""
    if not signals.workflow_started.receivers:
        return
    for row, outcome in zip(new, outcomes, strict=True):
        if isinstance(outcome, Started):
            single = isinstance(row, NewActivity)
            type = row.activity if isinstance(row, NewActivity) else row.type
            signals.of_workflow(
                signals.workflow_started,
                type,
                workflow_id=row.id,
                key=row.key,
                single=single,
                queue=row.queue,
            )


def attempt_failed(ending: RetryLater) -> None:
    """An attempt failed, and there will be another."""
    logger.warning(
        "activity.attempt_failed",
        **of_claim(ending.claim),
        of=ending.claim.attempt_budget,
        cause=ending.cause.value,
        **_of_failure(ending.failure),
        next_try_in_seconds=round(ending.delay_us / 1_000_000, 3),
    )


def activity_failed(ending: Failed) -> None:
    """An activity has failed for good, by its own decision or in its last attempt; its workflow gets the failure."""
    claim, failure = ending.claim, ending.failure
    logger.error(
        "activity.failed",
        **of_claim(claim),
        of=claim.attempt_budget,
        why="its attempts are spent" if ending.spent else "its error is not retried",
        cause=ending.cause.value,
        **_of_failure(failure),
        exc_info=_error_or(ending.error, claim.activity, claim.ordinal, failure),
    )
    signals.of_activity(
        signals.activity_failed,
        claim.activity,
        workflow_id=claim.workflow_id,
        run=claim.run,
        ordinal=claim.ordinal,
        single=claim.single,
        attempt=claim.attempt,
        attempts=claim.attempt_budget,
        cause=ending.cause.value,
        error_type=failure.type,
        error_message=failure.message,
    )


def delivery_failed(row: LockedRow, cause: Cause, *, worker: str, error: Failure | None, delay: timedelta) -> None:
    """A delivery ended without an outcome, and there will be another."""
    logger.warning(
        "activity.delivery_failed",
        workflow=str(row.workflow_id),
        run=row.run,
        ordinal=row.ordinal,
        activity=row.activity,
        delivery=row.deliveries,
        failures=row.delivery_failures + 1,
        of=row.delivery_budget,
        worker=worker,
        cause=cause.value,
        **_of_failure(error),
        next_try_in_seconds=round(delay.total_seconds(), 3),
    )


def dead_lettered(
    workflow: LockedWorkflow,
    row: LockedRow,
    *,
    cause: Cause,
    attempts: int,
    error: Failure | None,
    raised: BaseException | None,
    delivered: bool,
) -> None:
    """An activity is a dead letter: it waits for staff, or its workflow has got the failure (`delivered`). `raised` is
    the exception itself, if this process has it.
    """
    failure = error or Failure("DeliveryFailed", cause.value.replace("_", " "))
    logger.error(
        "activity.dead_lettered",
        workflow=str(workflow.id),
        run=row.run,
        ordinal=row.ordinal,
        activity=row.activity,
        cause=cause.value,
        delivered=delivered,
        deliveries=row.deliveries,
        attempts=attempts,
        **_of_failure(error),
        exc_info=_error_or(raised, row.activity, row.ordinal, failure),
    )
    signals.of_activity(
        signals.activity_dead_lettered,
        row.activity,
        workflow_id=workflow.id,
        type=workflow.type,
        key=workflow.key,
        run=row.run,
        ordinal=row.ordinal,
        single=workflow.single,
        cause=cause.value,
        delivered=delivered,
        deliveries=row.deliveries,
        attempts=attempts,
        error_type=failure.type,
        error_message=failure.message,
    )


def closed(
    workflow: LockedWorkflow,
    status: WorkflowStatus,
    *,
    failure: Failure | None = None,
    reason: str = "",
    error: BaseException | None = None,
) -> None:
    """A workflow has ended. Failures are logged, except those of single activities, which were logged
    for the activity.
    """
    ended_by = failure or Failure("", "")
    if not workflow.single:
        _log_end(workflow, status, ended_by, error)
    signals.of_workflow(
        signals.workflow_closed,
        workflow.type,
        workflow_id=workflow.id,
        key=workflow.key,
        single=workflow.single,
        status=status.value,
        error_type=ended_by.type,
        error_message=ended_by.message,
        reason=reason,
    )


def _log_end(workflow: LockedWorkflow, status: WorkflowStatus, failure: Failure, error: BaseException | None) -> None:
    if status not in (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT):
        return
    fields = {"workflow": str(workflow.id), "run": workflow.run, "type": workflow.type, "key": workflow.key}
    match status:
        case WorkflowStatus.FAILED if error is not None and (by := _reported_by(error)):
            logger.warning("workflow.failed", **fields, **_of_failure(failure), by=by)
        case WorkflowStatus.FAILED:
            logger.error("workflow.failed", **fields, **_of_failure(failure), by="its code", exc_info=error)
        case WorkflowStatus.TIMED_OUT:
            logger.error("workflow.timed_out", **fields, exc_info=WorkflowTimedOut(workflow.id))


def blocked(workflow: LockedWorkflow, reason: str, error: BaseException | None = None) -> None:
    """A workflow is blocked. If it was blocked before and was only tried again, this is just logged."""
    logger.error(
        "workflow.blocked",
        workflow=str(workflow.id),
        run=workflow.run,
        type=workflow.type,
        key=workflow.key,
        **({"reason": reason} if says_texts() else {}),
        exc_info=error,
    )
    if not workflow.blocked_reason:
        signals.of_workflow(
            signals.workflow_blocked,
            workflow.type,
            workflow_id=workflow.id,
            key=workflow.key,
            single=workflow.single,
            reason=reason,
        )


def _reported_by(error: BaseException) -> str:
    """What has failed and was reported, if nothing else is the cause of this error: an activity or a child. It is one,
    a group of them, or was raised from one. Empty if there is another cause.
    """
    by = ""
    waiting = [error]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if is_a(part, ActivityError):
            by = "its activity"
        elif is_a(part, ChildFailed, ChildTimedOut):
            by = by or "its child"
        elif is_a(part, BaseExceptionGroup):
            waiting += tracebacks.members(part)
        elif (cause := tracebacks.cause(part)) is not None:
            waiting.append(cause)
        else:
            return ""
    return by


def _error_or(raised: BaseException | None, activity: str, ordinal: int, failure: Failure) -> BaseException:
    """The exception, or a stand-in if another process, or nobody, has raised one. It is not rendered here, since that
    runs the user's code, which could use this transaction.
    """
    return (
        raised
        if raised is not None
        else ActivityError(
            activity=activity, ordinal=ordinal, type=failure.type, message=failure.message, traceback=failure.traceback
        )
    )


def _of_failure(failure: Failure | None) -> dict[str, str]:
    if failure is None:
        return {}
    return {"error_type": failure.type, **({"error": failure.message} if says_texts() else {})}


def of_claim(claim: Claim) -> dict[str, Any]:
    """The fields of every line about a delivery."""
    return {
        "workflow": str(claim.workflow_id),
        "run": claim.run,
        "ordinal": claim.ordinal,
        "activity": claim.activity,
        "attempt": claim.attempt,
        "delivery": claim.delivery,
        "worker": claim.worker,
    }


def redriven(workflow_id: uuid.UUID, **values: Any) -> None:
    """Staff gave a dead letter back."""
    signals.of_activity(signals.dead_letter_redriven, workflow_id=workflow_id, **values)


def discarded(workflow_id: uuid.UUID, **values: Any) -> None:
    """Staff closed a dead letter."""
    signals.of_activity(signals.dead_letter_discarded, workflow_id=workflow_id, **values)
