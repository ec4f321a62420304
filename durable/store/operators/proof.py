"""Checks that the rows match the histories. Reads everything, in bounded pieces; writes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.history.events import EventType
from durable.outcomes import WorkflowStatus
from durable.store.connections import sql

DECIDES = {
    EventType.WORKFLOW_STARTED: WorkflowStatus.RUNNING,
    EventType.WORKFLOW_REOPENED: WorkflowStatus.RUNNING,
    EventType.WORKFLOW_RESUMED: WorkflowStatus.RUNNING,
    EventType.WORKFLOW_PAUSED: WorkflowStatus.PAUSED,
    EventType.WORKFLOW_COMPLETED: WorkflowStatus.COMPLETED,
    EventType.WORKFLOW_FAILED: WorkflowStatus.FAILED,
    EventType.WORKFLOW_CANCELLED: WorkflowStatus.CANCELLED,
    EventType.WORKFLOW_TIMED_OUT: WorkflowStatus.TIMED_OUT,
}
"""The last event of one of these types determines the status."""


LEFT_DUE_FOR = timedelta(minutes=1)
"""A message may become visible long after it was written: with the commit of the transaction that sent it."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A row that contradicts the history. `subject` names the row."""

    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Proven:
    """The findings of one piece, and the id from which the next one continues; `None` after the last."""

    contradictions: Sequence[Contradiction]
    last: uuid.UUID | None


def workflows(connection: BaseDatabaseWrapper, *, after: uuid.UUID, limit: int) -> Proven:
    """Compares each of the next `limit` workflows after `after` with its history, in one statement's snapshot.

    An ended workflow may have parked messages, which are kept as unread. One that has been due for longer than
    `LEFT_DUE_FOR` is a fault; until then it may just have been committed, and wait for the turn that will park it.
    """
    since, since_params = clock.now_sql(connection, -LEFT_DUE_FOR)
    kinds = ", ".join(f"'{kind.value}'" for kind in DECIDES)
    rows = sql.fetch(
        connection,
        "SELECT w.id, w.status, w.last_seq, w.history_seq, w.run_seq, "
        "(SELECT e.type FROM durable_event e WHERE e.workflow_id = w.id AND e.seq = w.history_seq), "
        "(SELECT e.type FROM durable_event e WHERE e.workflow_id = w.id AND e.seq = w.run_seq), "
        "(SELECT count(*) FROM durable_event e WHERE e.workflow_id = w.id), "
        "(SELECT max(e.seq) FROM durable_event e WHERE e.workflow_id = w.id), "
        f"(SELECT e.type FROM durable_event e WHERE e.workflow_id = w.id AND e.type IN ({kinds}) "
        "ORDER BY e.seq DESC LIMIT 1), "
        "(SELECT count(*) FROM durable_outboxrow r WHERE r.workflow_id = w.id AND r.status IN ('pending', 'claimed')), "
        "CASE WHEN w.closed_at IS NULL THEN 0 ELSE (SELECT count(*) FROM durable_message m "
        f"WHERE m.workflow_id = w.id AND NOT m.parked AND m.visible_at < {since}) END "
        f"FROM durable_workflow w WHERE w.id > %s ORDER BY w.id LIMIT {int(limit)}",
        [*since_params, sql.param(connection, after)],
    )
    contradictions: list[Contradiction] = []
    for workflow_id, status, last_seq, *boundaries, events, highest, kind, open_rows, due in rows:
        subject = f"Workflow {sql.as_uuid(workflow_id)}"
        if kind is None:
            contradictions.append(Contradiction(subject, f"it is {status}, and its history says nothing of a status."))
        elif DECIDES[EventType(kind)] != status:
            contradictions.append(Contradiction(subject, f"it is {status}, but its history ends with {kind}."))
        if not events == highest == last_seq:
            text = f"it counts {last_seq} events; its history holds {events}, up to number {highest}."
            contradictions.append(Contradiction(subject, text))
        contradictions += [Contradiction(subject, text) for text in _of_boundaries(*boundaries)]
        if open_rows and WorkflowStatus(status).is_terminal:
            contradictions.append(
                Contradiction(subject, f"it is {status}, and activities of it are still open: {open_rows}.")
            )
        if due and WorkflowStatus(status).is_terminal:
            text = (
                f"it is {status}, and messages to it are still due: {due}. A worker's next turn keeps them as unread."
            )
            contradictions.append(Contradiction(subject, text))
    return Proven(contradictions, sql.as_uuid(rows[-1][0]) if len(rows) == limit else None)


def _of_boundaries(history_seq: int, run_seq: int, first: str | None, begins: str | None) -> Iterator[str]:
    """What is wrong with where the current history and the current run begin."""
    if first != EventType.WORKFLOW_STARTED:
        yield f"its history begins with event {history_seq}, which is {first or 'not there'}."
    if begins not in (EventType.WORKFLOW_STARTED, EventType.WORKFLOW_REOPENED):
        yield f"its run begins with event {run_seq}, which is {begins or 'not there'}."
    if run_seq < history_seq:
        yield f"its run begins with event {run_seq}, before its history does, with event {history_seq}."


def orphans(connection: BaseDatabaseWrapper, *, limit: int) -> list[Contradiction]:
    """Outbox rows that are open, messages and work items whose owner is gone. At most `limit` of each."""
    contradictions = []
    for what, condition, owner in _OWNED:
        key = "outbox_row_id" if what == "workitem" else "id"
        owner_key = "outbox_row_id" if owner == "outboxrow" else "workflow_id"
        rows = sql.fetch(
            connection,
            f"SELECT r.{key} FROM durable_{what} r WHERE {condition} "
            f"AND NOT EXISTS (SELECT 1 FROM durable_{owner} o WHERE o.id = r.{owner_key}) "
            f"ORDER BY r.{key} LIMIT {int(limit)}",
        )
        contradictions += [
            Contradiction(f"{_WORDS[what]} {row[0]}", f"its {_WORDS[owner].lower()} is gone.") for row in rows
        ]
    return contradictions


_OWNED = (
    ("outboxrow", "r.status IN ('pending', 'claimed')", "workflow"),
    ("message", "true", "workflow"),
    ("workitem", "true", "outboxrow"),
)
_WORDS = {"outboxrow": "Outbox row", "message": "Message", "workitem": "Work item", "workflow": "Workflow"}
