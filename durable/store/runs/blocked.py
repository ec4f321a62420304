"""Blocked workflows that are tried again without an operator: by another version of the code, or to end."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.store.connections import sql


def by_other_code(connection: BaseDatabaseWrapper, version: str, *, limit: int, after: uuid.UUID) -> list[uuid.UUID]:
    """Blocked live workflows that this version of the code has not tried yet, in id order after `after`."""
    rows = sql.fetch(
        connection,
        "SELECT id FROM durable_workflow WHERE blocked_reason <> '' AND blocked_version NOT IN (%s, '') "
        f"AND status IN ('running', 'paused') AND id > %s ORDER BY id LIMIT {int(limit)}",
        [version, sql.param(connection, after)],
    )
    return [sql.as_uuid(row[0]) for row in rows]


def by_code_that_has_left(
    connection: BaseDatabaseWrapper, version: str, *, limit: int, after: uuid.UUID, within: timedelta
) -> list[uuid.UUID]:
    """As `by_other_code`, of those that were blocked by a version that no worker with a heartbeat `within` has."""
    since, params = clock.now_sql(connection, -within)
    rows = sql.fetch(
        connection,
        "SELECT id FROM durable_workflow WHERE blocked_reason <> '' AND blocked_version NOT IN (%s, '') "
        f"AND blocked_version NOT IN (SELECT version FROM durable_worker WHERE beat_at >= {since}) "
        f"AND status IN ('running', 'paused') AND id > %s ORDER BY id LIMIT {int(limit)}",
        [version, *params, sql.param(connection, after)],
    )
    return [sql.as_uuid(row[0]) for row in rows]


def offer_again(connection: BaseDatabaseWrapper, ids: Sequence[uuid.UUID]) -> None:
    """Lets the next turn try these (locked) blocked workflows once more, without removing the mark."""
    if ids:
        now, params = clock.now_sql(connection)
        condition, more = sql.among(connection, "id", ids)
        sql.execute(
            connection,
            f"UPDATE durable_workflow SET blocked_version = '', wake_at = {now} "
            "WHERE blocked_reason <> '' AND blocked_version <> '' AND status IN ('running', 'paused') "
            f"AND {condition}",
            [*params, *more],
        )
