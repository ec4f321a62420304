"""Closing a run: the pieces shared by every verb that ends a workflow. No `atomic` in here."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.endings import family
from durable.flow.endings.family import Ended
from durable.flow.transactions import reporting
from durable.kernel.history.events import Event, EventType, MessageKind
from durable.kernel.history.known import beyond_message
from durable.outcomes import WorkflowStatus
from durable.store.deliveries import outbox, together, work_items
from durable.store.runs import messages
from durable.store.runs.workflows import LockedWorkflow, Progress
from durable.store.texts.failures import StoredFailure


def settle(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> int:
    """Cancels the open rows and dead letters of (locked) workflows whose run closes, and deletes their work items.

    Returns the number of rows. A worker that is still running one learns this at its next renewal.
    """
    if not workflow_ids:
        return 0
    rows = outbox.lock_open_of(connection, workflow_ids)
    if rows:
        items = work_items.lock_of_rows(connection, rows)
        work_items.delete(connection, [item.delivery for item in items.values()])
        outbox.cancel(connection, list(rows))
    return len(rows)


UNREAD_LISTED = 1_000
"""How many unread messages a closing event lists; it counts the rest."""

_NAME = re.compile(r'\s*\{\s*"name"\s*:\s*(?=")')
_decode = json.JSONDecoder().raw_decode


def consume_messages(
    connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID], *, read: Iterable[int] = ()
) -> dict[uuid.UUID, dict[str, Any]]:
    """Deletes the messages that a turn has `read`. For (locked) closing workflows, permanently parks unread signals and
    cancel requests, and returns by workflow how the closing event lists them.

    Signals are listed with their name, cancel requests with their reason, in the order in which they would have been
    read; payloads stay in the messages. Results of activities are of no use to anybody, and are deleted.
    """
    unread: dict[uuid.UUID, dict[str, Any]] = {}
    for owner, kind, head in messages.consume(connection, read=list(read), closing=workflow_ids):
        listed = unread.setdefault(owner, {"unread": []})
        if len(listed["unread"]) < UNREAD_LISTED:
            listed["unread"].append({"kind": kind, **_said(kind, head)})
        else:
            listed["unread_more"] = listed.get("unread_more", 0) + 1
    return unread


def _said(kind: str, head: str) -> dict[str, Any]:
    """A signal's name, or a request's reason. A damaged message must not keep its workflow from ending, and of a kind
    that is not known here nothing is quoted: a payload may be in it.
    """
    if beyond_message(kind):
        return {}
    try:
        if kind == MessageKind.SIGNAL and (begins := _NAME.match(head)):
            return {"name": _decode(head, begins.end())[0]}
        said = json.loads(head) if kind != MessageKind.SIGNAL else None
    except ValueError:
        said = None
    return said if isinstance(said, dict) else {"unreadable": True}


def end(
    connection: BaseDatabaseWrapper,
    workflow: LockedWorkflow,
    *,
    event: EventType,
    status: WorkflowStatus,
    at: datetime,
    data: Mapping[str, Any],
    result: str | None = None,
    failure: StoredFailure | None = None,
    before: Sequence[Event] = (),
) -> None:
    """Ends one (locked, live) workflow from outside its code: events, status, settlement, unread messages, and what its
    parent and its children are told.

    `before` are events that precede the closing event; they already have the next sequence numbers.
    """
    settle(connection, [workflow.id])
    event_data = {**data, **consume_messages(connection, [workflow.id]).get(workflow.id, {})}
    seq = workflow.last_seq + len(before) + 1
    facts = [*before, Event(seq=seq, type=event, data=event_data, recorded_at=at)]
    reported = None if failure is None else failure.failure
    reporting.closed(workflow, status, failure=reported, reason=str(data.get("reason") or ""))
    together.record(
        connection,
        [(workflow.id, fact) for fact in facts],
        [
            Progress(
                id=workflow.id, status=status, last_seq=seq, wake_at=None, result=result, failure=failure, closed_at=at
            )
        ],
    )
    family.tell(connection, [Ended(workflow, status, result, failure, str(data.get("reason") or ""))])


def end_singles(
    connection: BaseDatabaseWrapper,
    endings: Sequence[tuple[LockedWorkflow, EventType, WorkflowStatus, str | None, StoredFailure | None]],
    *,
    at: datetime,
) -> None:
    """Ends (locked, live) single activities whose row has just been closed: (workflow, event, status, result, failure).

    A constant number of statements, whatever their number: a single activity has no other rows and no messages to
    settle.
    """
    if not endings:
        return
    facts: list[tuple[uuid.UUID, Event]] = []
    progress: list[Progress] = []
    for workflow, event, status, result, failure in endings:
        data: dict[str, Any] = {}
        if result is not None:
            data = {"result": result}
        elif failure is not None:
            data = {"failure": failure.data}
        reporting.closed(workflow, status, failure=None if failure is None else failure.failure)
        seq = workflow.last_seq + 1
        facts.append((workflow.id, Event(seq=seq, type=event, data=data, recorded_at=at)))
        progress.append(
            Progress(
                id=workflow.id, status=status, last_seq=seq, wake_at=None, result=result, failure=failure, closed_at=at
            )
        )
    together.record(connection, facts, progress)
