"""What is out at a transport."""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.store.connections import sql
from durable.store.operators.reads import COUNT_CAP

_PENDING = "durable_outboxrow WHERE status = 'pending' AND NOT paused AND NOT waiting"


def counts(connection: BaseDatabaseWrapper, queue: str) -> tuple[int, int, int]:
    """Of a queue: how many rows are due, how many deliveries are out and have not begun, and how many have. Each
    capped at `COUNT_CAP`.
    """
    now, params = clock.now_sql(connection)
    sources = (
        (
            f"{_PENDING} AND queue = %s AND visible_after <= {now}",
            [queue, *params],
        ),
        ("durable_workitem WHERE queue = %s AND begun_at IS NULL", [queue]),
        ("durable_workitem WHERE queue = %s AND begun_at IS NOT NULL", [queue]),
    )
    counted = [
        sql.fetch(connection, f"SELECT count(*) FROM (SELECT 1 FROM {source} LIMIT {COUNT_CAP}) AS s", values)[0][0]
        for source, values in sources
    ]
    return counted[0], counted[1], counted[2]
