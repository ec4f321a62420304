"""Outbox rows that were left open: by ended workflows, and by workers whose item is gone. Reads only."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.store.connections import sql


def open_of_terminal(
    connection: BaseDatabaseWrapper, *, limit: int, but: Collection[uuid.UUID] = ()
) -> list[uuid.UUID]:
    """Terminal workflows that still have pending, claimed or dead rows, but for some: at most `limit` rows deep."""
    left_out, params = ("false", []) if not but else sql.among(connection, "r.workflow_id", sorted(but))
    rows = sql.fetch(
        connection,
        # Looked up row by row: with a join, PostgreSQL would read all workflows that ever existed.
        f"SELECT DISTINCT workflow_id FROM (SELECT r.workflow_id FROM ({_OPEN}) AS r "
        "WHERE (SELECT w.status FROM durable_workflow w WHERE w.id = r.workflow_id) NOT IN ('running', 'paused') "
        f"AND NOT {left_out} LIMIT {int(limit)}) AS found",
        params,
    )
    return [sql.as_uuid(row[0]) for row in rows]


def open_among(connection: BaseDatabaseWrapper, workflow_ids: Iterable[uuid.UUID]) -> list[uuid.UUID]:
    """Looks which of these workflows have pending, claimed or dead rows."""
    condition, params = sql.among(connection, "workflow_id", workflow_ids)
    rows = sql.fetch(
        connection,
        "SELECT DISTINCT workflow_id FROM durable_outboxrow "
        f"WHERE status IN ('pending', 'claimed', 'dead') AND {condition}",
        params,
    )
    return [sql.as_uuid(row[0]) for row in rows]


# Each part matches the condition of a partial index, so that closed rows, maybe millions, are not read.
_OPEN = " UNION ALL ".join(
    f"SELECT workflow_id FROM durable_outboxrow WHERE {condition}"
    for condition in (
        "status = 'pending' AND NOT paused AND NOT suspect AND NOT waiting",
        "status = 'pending' AND NOT paused AND suspect AND NOT waiting",
        "status = 'pending' AND paused",
        "status = 'pending' AND waiting",
        "status = 'claimed'",
        "status = 'dead'",
    )
)


def claimed_without_item(connection: BaseDatabaseWrapper, *, after: int, limit: int) -> list[tuple[int, uuid.UUID]]:
    """Claimed rows without a work item, in id order after `after`."""
    rows = sql.fetch(
        connection,
        # The signs keep both databases from walking the primary key, over all that was ever done: what is out is few.
        "SELECT r.id, r.workflow_id FROM durable_outboxrow r WHERE r.status = 'claimed' AND +r.id > %s "
        "AND NOT EXISTS (SELECT 1 FROM durable_workitem i WHERE i.outbox_row_id = r.id) "
        f"ORDER BY +r.id LIMIT {int(limit)}",
        [after],
    )
    return [(row[0], sql.as_uuid(row[1])) for row in rows]
