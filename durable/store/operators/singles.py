"""The whole life of a single activity: its row, its workflow, and its attempts. Writes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.models import FailedAttempt, OutboxRow
from durable.outcomes import Cause, Failure, OutboxStatus, WorkflowStatus
from durable.store.operators.reads import closing_reason
from durable.store.texts import failures


@dataclass(frozen=True, slots=True)
class FailedDelivery:
    """A delivery that failed, before its handler ran, in it, or after it. `number` counts deliveries."""

    number: int
    worker: str
    started_at: datetime | None
    cause: Cause
    error: Failure | None


@dataclass(frozen=True, slots=True)
class Single:
    """A single activity as it stands. `claimed_at` and `worker` are those of its latest delivery, unless that was given
    back; `failed` are its failed deliveries, in order; `reason` is that of a cancellation.
    """

    id: uuid.UUID
    activity: str
    ended: WorkflowStatus | None
    row: OutboxStatus
    payload: str = field(repr=False)
    result: str | None = field(repr=False)
    reason: str
    options: Mapping[str, Any]
    queue: str
    priority: int
    deliveries: int
    worker: str
    created_at: datetime
    claimed_at: datetime | None
    dead_lettered_at: datetime | None
    closed_at: datetime | None
    was_delivered: bool
    failed: tuple[FailedDelivery, ...]


_OF_ROW = {
    "activity": "activity",
    "payload": "input",
    "options": "options",
    "queue": "queue",
    "priority": "priority",
    "deliveries": "deliveries",
    "worker": "worker",
    "claimed_at": "claimed_at",
    "dead_lettered_at": "dead_lettered_at",
    "was_delivered": "failure_delivered",
    "result": "workflow__result",
    "created_at": "workflow__created_at",
    "closed_at": "workflow__closed_at",
}


def single(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID) -> Single | None:
    """A single activity by the id of its workflow. None: there is none of that id."""
    row = (
        OutboxRow.objects.using(connection.alias)
        .filter(workflow_id=workflow_id, run=1, ordinal=1, workflow__single=True)
        .values("pk", "status", "workflow__status", "workflow__last_seq", *_OF_ROW.values())
        .first()
    )
    if row is None:
        return None
    ended = WorkflowStatus(row["workflow__status"])
    cancelled = ended is WorkflowStatus.CANCELLED
    values = {name: row[column] for name, column in _OF_ROW.items()}
    return Single(
        id=workflow_id,
        ended=ended if ended.is_terminal else None,
        row=OutboxStatus(row["status"]),
        reason=closing_reason(connection, workflow_id, row["workflow__last_seq"]) if cancelled else "",
        failed=_failed(connection, row["pk"], workflow_id) if row["deliveries"] else (),
        **values,
    )


def _failed(connection: BaseDatabaseWrapper, row_id: int, workflow_id: uuid.UUID) -> tuple[FailedDelivery, ...]:
    rows = FailedAttempt.objects.using(connection.alias).filter(outbox_row_id=row_id).order_by("number", "id")
    return tuple(
        FailedDelivery(
            number=row["number"],
            worker=row["worker"],
            started_at=row["started_at"],
            cause=Cause(row["cause"]),
            error=None if row["error"] is None else failures.read(_natives(row["error"]), workflow_id, 1),
        )
        for row in rows.values("number", "worker", "started_at", "cause", "error")
    )


def _natives(column: Any) -> Mapping[str, Any]:
    """What the column of JSON texts gives; the type checker takes it for text."""
    natives: Mapping[str, Any] = column
    return natives
