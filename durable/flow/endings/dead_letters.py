"""Makes a claimed row a dead letter, with the marker that says whether the workflow got the failure. No `atomic` in
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.endings import closing
from durable.flow.transactions import reporting
from durable.kernel.definitions.options import delivers_dead_letters, holds_when_exhausted
from durable.kernel.history.events import EventType, MessageKind
from durable.kernel.payloads import wire
from durable.outcomes import Cause, Ending, Failed, Failure, WorkflowStatus
from durable.store.deliveries import outbox
from durable.store.deliveries.outbox import Bury, LockedRow
from durable.store.runs import messages
from durable.store.runs.messages import NewMessage
from durable.store.runs.workflows import LockedWorkflow
from durable.store.texts import failures
from durable.store.texts.failures import StoredFailure


@dataclass(frozen=True, slots=True)
class Death:
    """A claimed row whose budget is spent, under the lock of its live workflow."""

    workflow: LockedWorkflow
    row: LockedRow
    cause: Cause
    failures: int = 1
    attempts: int = 0
    heartbeat: str | None = field(default=None, repr=False)
    error: Failure | None = None
    raised: BaseException | None = None
    """The exception itself, if this process has it."""


def is_held(ending: Ending) -> bool:
    """Whether spent retries make a dead letter, by the activity's `on_exhausted`, instead of a failure.

    An error that is not retried is the handler's own decision, and goes to the workflow.
    """
    return isinstance(ending, Failed) and ending.spent and holds_when_exhausted(ending.claim.options)


def delivers(death: Death) -> bool:
    """Whether the row's policy delivers the failure to the workflow (`deliver`) or keeps it waiting for staff (`hold`).
    Spent application retries come here only under `on_exhausted="hold"`, which always holds.
    """
    return death.cause is not Cause.RETRIES_EXHAUSTED and delivers_dead_letters(death.row.options)


def bury(connection: BaseDatabaseWrapper, deaths: Sequence[Death], *, at: datetime) -> None:
    """Rows to `dead` with cause and time. Under *deliver* the failure goes to the workflow in the same transaction
    and the marker says so; under *hold* the workflow keeps waiting. No crash can come between the two.
    """
    for d in deaths:
        reporting.dead_lettered(
            d.workflow,
            d.row,
            cause=d.cause,
            attempts=d.row.attempts + d.attempts,
            error=d.error,
            raised=d.raised,
            delivered=delivers(d),
        )
    outbox.bury(
        connection,
        [
            Bury(
                id=d.row.id,
                cause=d.cause,
                delivered=int(delivers(d)),
                failures=d.failures,
                attempts=d.attempts,
                heartbeat=d.heartbeat,
                kind=failures.kind(d.error),
            )
            for d in deaths
        ],
    )
    delivered = [d for d in deaths if delivers(d)]
    messages.insert(
        connection,
        [
            NewMessage(
                workflow_id=d.workflow.id,
                run=d.row.run,
                kind=MessageKind.FAILED,
                ordinal=d.row.ordinal,
                payload=wire.dump({"failure": _failure(d).data, "attempts": d.row.attempts}),
            )
            for d in delivered
            if not d.workflow.single
        ],
    )
    closing.end_singles(
        connection,
        [
            (d.workflow, EventType.WORKFLOW_FAILED, WorkflowStatus.FAILED, None, _failure(d))
            for d in delivered
            if d.workflow.single
        ],
        at=at,
    )
    # This closes their run, so none of its rows stays a dead letter.
    outbox.cancel(connection, [d.row.id for d in delivered if d.workflow.single])


def _failure(death: Death) -> StoredFailure:
    message = f"{death.row.activity} could not be delivered: {death.cause.value.replace('_', ' ')}"
    if death.error is not None:
        message = f"{message} ({death.error.type}: {death.error.message})"
    trace = death.error.traceback if death.error is not None else ""
    return failures.stored(Failure("DeliveryFailed", message, trace), death.workflow.id, death.row.ordinal)
