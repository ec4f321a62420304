"""NOTIFY: word to workers on PostgreSQL that something is due, ahead of their next look. Loses nothing when lost."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.store.connections import sql

CHANNEL = "durable_due"
EVERY_QUEUE = ""
"""What is told when the queue is not known. No queue is called so."""


def tell(connection: BaseDatabaseWrapper, queues: Iterable[str]) -> None:
    """Tell listeners of these queues at the commit. One statement."""
    names = sorted(queues)
    calls = ", ".join(["pg_notify(%s, %s)"] * len(names))
    sql.execute(connection, f"SELECT {calls}", [part for queue in names for part in (CHANNEL, queue)])
