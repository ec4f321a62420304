"""What metrics read besides `reads`: deliveries by queue, and dead letters by activity and cause."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.store.connections import sql
from durable.store.operators.reads import COUNT_CAP


@dataclass(frozen=True, slots=True)
class Group:
    """A number of rows that have the same values."""

    values: tuple[str, ...]
    count: int


def out_by_queue(connection: BaseDatabaseWrapper) -> list[Group]:
    """Deliveries that workers hold, by queue. At most `COUNT_CAP` are looked at, those that have been out for longest
    first.
    """
    return _groups(
        connection,
        "SELECT queue, count(*) FROM (SELECT queue FROM durable_outboxrow WHERE status = 'claimed' "
        f"ORDER BY claimed_at, id LIMIT {COUNT_CAP}) AS held GROUP BY queue",
    )


def dead_letters_by_cause(connection: BaseDatabaseWrapper) -> list[Group]:
    """Dead letters by activity and cause, of the latest `COUNT_CAP`."""
    return _groups(
        connection,
        "SELECT activity, cause, count(*) FROM (SELECT activity, cause FROM durable_outboxrow WHERE status = 'dead' "
        f"ORDER BY dead_lettered_at DESC, id DESC LIMIT {COUNT_CAP}) AS dead GROUP BY activity, cause",
    )


def _groups(connection: BaseDatabaseWrapper, statement: str) -> list[Group]:
    return [Group(tuple(values), count) for *values, count in sql.fetch(connection, statement, [])]
