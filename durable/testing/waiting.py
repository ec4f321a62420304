"""Why a workflow does not continue, in words."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from durable.errors import NonDeterminism, WorkflowBlocked
from durable.flow.looks import look
from durable.kernel.definitions.registry import registry
from durable.kernel.history import effective
from durable.kernel.history.events import Event, EventType
from durable.outcomes import OutboxStatus, Snapshot, WorkflowStatus
from durable.store.texts import failures
from durable.testing import histories, replaying

if TYPE_CHECKING:
    from durable.store.operators.reads import PendingRow


def blocked(snapshot: Snapshot) -> WorkflowBlocked:
    """The error for which a workflow was blocked, as its history records it."""
    marks = [e for e in histories.events_of(snapshot.id) if e.type is EventType.WORKFLOW_BLOCKED]
    data = failures.read_block(marks[-1].data, snapshot.id) if marks else {}
    if {"position", "recorded", "asked"} <= set(data):
        return NonDeterminism(position=data["position"], recorded=data["recorded"], asked=data["asked"])
    return WorkflowBlocked(snapshot.blocked_reason, data)


def words(workflow_id: uuid.UUID, *, skipped: timedelta | None) -> tuple[str, ...]:
    """What a workflow waits for: signals, activities, times. `skipped` is the longest span that a test would skip."""
    snapshot = look.snapshot(workflow_id)
    if snapshot.status is WorkflowStatus.PAUSED:
        return ("somebody to resume it: it is paused",)
    texts = [_of_row(row) for row in look.pending(workflow_id)]
    events = histories.events_of(workflow_id)
    if not snapshot.single:
        texts += _of_code(snapshot, events, skipped)
    return tuple(texts) or ("something that nothing will bring: an Event, a Queue or a Future that no task sets",)


def _of_row(row: PendingRow) -> str:
    shown = f"activity {row.ordinal} ({row.activity})"
    match row.status:
        case OutboxStatus.DEAD:
            return f"{shown}, which is a dead letter ({row.cause}) that nobody redrives"
        case OutboxStatus.CLAIMED:
            return f"{shown}, which {row.worker or 'nobody'} holds"
        case _:
            return f"{shown}, which is due at {row.due.isoformat()}{_error(row)}"


def _error(row: PendingRow) -> str:
    return "" if row.last_error is None else f" after {row.last_error.type}: {row.last_error.message}"


def _of_code(snapshot: Snapshot, events: list[Event], skipped: timedelta | None) -> Iterator[str]:
    definition, run = registry.workflow(snapshot.type), effective.run_at_end(events)
    if not effective.of_history(events, run=run).has_begun:
        yield "its start, which is not due yet"
        return
    with replaying.unfed(definition, workflow_id=snapshot.id, run=run, key=snapshot.key) as execution:
        execution.replay(events)
        for name in execution.mailbox.awaited():
            yield f"the signal {name!r}"
        timer = execution.next_timer()
        if timer is not None and skipped is not None:
            yield f"{timer.due.isoformat()}, which is more than {skipped} away"
