"""NOTIFY: tells workers on PostgreSQL that something is due, before their next look. If it is lost, polling finds the
work.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.store.connections import sql

CHANNEL = "durable_due"
EVERY_QUEUE = ""
"""The name sent when the queue is not known. No queue can have this name."""


def tell(connection: BaseDatabaseWrapper, queues: Iterable[str]) -> None:
    """Tells listeners of these queues at the commit. One statement."""
    names = sorted(queues)
    calls = ", ".join(["pg_notify(%s, %s)"] * len(names))
    sql.execute(connection, f"SELECT {calls}", [part for queue in names for part in (CHANNEL, queue)])
