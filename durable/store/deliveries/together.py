"""Pairs of changes that are always made together: in one statement on PostgreSQL, because each statement costs a round
trip, and in two on SQLite.

The caller has locked all rows that exist before, and neither part reads what the other writes.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.kernel.history.events import Event
from durable.outcomes import OutboxStatus
from durable.store.connections import sql
from durable.store.deliveries import outbox, work_items
from durable.store.deliveries.work_items import DeliveryKey
from durable.store.runs import history, workflows
from durable.store.runs.workflows import Progress


def record(
    connection: BaseDatabaseWrapper, events: Sequence[tuple[uuid.UUID, Event]], progress: Sequence[Progress]
) -> None:
    """Appends events, and updates the rows of their live workflows."""
    if events and progress and sql.is_postgresql(connection):
        appended, of_events, added = history.appending(connection, events)
        advanced, of_workflows = workflows.advancing(connection, progress, added)
        sql.execute(connection, f"WITH facts AS ({appended}) {advanced}", [*of_events, *of_workflows])
    else:
        added = history.append(connection, events)
        workflows.advance(connection, progress, added)


def finish(
    connection: BaseDatabaseWrapper,
    deliveries: Collection[DeliveryKey],
    endings: Sequence[tuple[int, OutboxStatus, int, str | None]],
) -> None:
    """Removes the work items of these deliveries, and closes those of their rows that have ended. See `outbox.finish`.

    An item that carries another token stays, and its row stays open.
    """
    if deliveries and endings and sql.is_postgresql(connection):
        deleting, of_items = work_items.deleting(connection, deliveries)
        finishing, of_rows = outbox.finishing(connection, endings)
        statement = f"WITH gone AS ({deleting}) {finishing} AND r.id IN (SELECT outbox_row_id FROM gone)"
        sql.execute(connection, statement, [*of_items, *of_rows])
    else:
        gone = work_items.delete(connection, deliveries)
        outbox.finish(connection, [ending for ending in endings if ending[0] in gone])
