"""The whole state of the engine, and other people's locks on it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import connection, transaction

from durable import clock
from durable.kernel.history.events import MessageKind
from durable.kernel.payloads import wire
from durable.models import Event, FailedAttempt, Message, OutboxRow, StaffAction, Workflow, WorkItem
from durable.outcomes import Claim
from durable.store.runs import messages, workflows
from tests.waiting import PATIENCE, Gate, in_thread

_TABLES: list[tuple[Any, tuple[str, ...]]] = [
    (Workflow, ("id",)),
    (Event, ("workflow_id", "seq")),
    (OutboxRow, ("id",)),
    (WorkItem, ("outbox_row_id",)),
    (Message, ("id",)),
    (FailedAttempt, ("id",)),
    (StaffAction, ("id",)),
]

_POSTGRESQL_LOCK = "SELECT 1 FROM {table} WHERE {column} = %s FOR UPDATE"


def everything() -> dict[str, list[dict[str, Any]]]:
    """Every row of every table of the engine."""
    return {model.__name__: list(model.objects.order_by(*order).values()) for model, order in _TABLES}


def expire(*claims: Claim) -> None:
    """Let the leases of these deliveries have run out a while ago."""
    past = clock.database_now(connection) - timedelta(minutes=10)
    changed = WorkItem.objects.filter(outbox_row_id__in=[c.row_id for c in claims]).update(locked_until=past)
    assert changed == len(claims)


def make_due(row_id: int) -> None:
    """Let a row that waits for its next delivery be due now."""
    past = clock.database_now(connection) - timedelta(seconds=1)
    assert OutboxRow.objects.filter(id=row_id, status="pending").update(visible_after=past) == 1


def messages_of(workflow_id: uuid.UUID) -> list[tuple[str, int | None, Any]]:
    """What waits for a workflow: (kind, ordinal, payload), in order."""
    found = Message.objects.filter(workflow_id=workflow_id).order_by("id").values_list("kind", "ordinal", "payload")
    return [(kind, ordinal, _plain(kind, payload)) for kind, ordinal, payload in found]


def _plain(kind: str, payload: str) -> Any:
    return payload if kind in (MessageKind.COMPLETED, MessageKind.START) else wire.load(payload)


def kept(workflow_id: uuid.UUID) -> list[tuple[str, Any, bool]]:
    """What lies there for a workflow: (kind, what it says, parked), in reading order."""
    found = Message.objects.filter(workflow_id=workflow_id).order_by("visible_at", "id")
    return [(m.kind, json.loads(m.payload).get("name"), m.parked) for m in found]


def listed(workflow_id: uuid.UUID) -> list[dict[str, Any]]:
    """What its closing event lists as unread."""
    events = Event.objects.filter(workflow_id=workflow_id).order_by("-seq")
    return list(events[0].data.get("unread", []))


def pause(workflow_id: uuid.UUID) -> None:
    """What pausing leaves behind, without its verb: the status, the marks on the rows, the messages parked."""
    Workflow.objects.filter(id=workflow_id).update(status="paused")
    OutboxRow.objects.filter(workflow_id=workflow_id).update(paused=True)
    messages.park(connection, [workflow_id])


@contextmanager
def locked_elsewhere(table: str, column: str, key: Any) -> Iterator[None]:
    """On PostgreSQL: another connection holds the lock of one row for the length of the block."""
    gate = Gate(f"lock on {table}")

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_POSTGRESQL_LOCK.format(table=table, column=column), [key])
            assert cursor.fetchone() is not None
            gate.pass_through()

    held = in_thread(hold)
    gate.wait_for_arrival()
    try:
        yield
    finally:
        gate.open()
        held.result(PATIENCE)


@contextmanager
def undone() -> Iterator[None]:
    """A caller's transaction, or savepoint, that is rolled back at its end."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def only_postgresql() -> bool:
    """Row locks exist."""
    return connection.vendor == "postgresql"


def is_live(workflow_id: uuid.UUID) -> bool:
    """Whether the workflow is in none of the hard terminals."""
    return workflows.look(connection, [workflow_id])[workflow_id].is_live


def run(sql: str) -> None:
    """One statement, by itself."""
    with connection.cursor() as cursor:
        cursor.execute(sql)


def raise_state(state: str) -> None:
    """On PostgreSQL: a real error of the server, with this SQLSTATE."""
    run(f"DO $$ BEGIN RAISE EXCEPTION 'as if' USING ERRCODE = '{state}'; END $$")
