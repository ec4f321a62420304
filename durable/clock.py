"""The one reader of time.

Times that decide something (due, lease) are the database server's on PostgreSQL and this host's on SQLite, where there
is only one host. They are written and compared inside statements, as `Now()` in the ORM or `now_sql()` in the store's
SQL. `freeze` and `move` are for tests: while frozen, every reader in this process sees the frozen moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.models.fields import MomentField, sqlite_text

_frozen: datetime | None = None


def is_frozen() -> bool:
    """Whether a test has frozen the clock."""
    return _frozen is not None


def freeze(at: datetime) -> None:
    """Stops the clock at an aware moment."""
    global _frozen
    if at.tzinfo is None:
        raise ValueError(f"The clock is frozen to aware moments only, not to {at!r}. Give it a tzinfo.")
    _frozen = at.astimezone(UTC)


def unfreeze() -> None:
    """Lets the clock run again."""
    global _frozen
    _frozen = None


def move(by: timedelta) -> datetime:
    """Moves a frozen clock forward and returns the new time."""
    if _frozen is None:
        raise ValueError("Only a frozen clock can be moved. Call freeze() first.")
    freeze(_frozen + by)
    return _frozen


@contextmanager
def frozen(at: datetime) -> Iterator[None]:
    """Freezes the clock for a block; afterwards it is as it was before."""
    global _frozen
    before = _frozen
    freeze(at)
    try:
        yield
    finally:
        _frozen = before


def host_now() -> datetime:
    """This host's time (or the frozen one). For people and for SQLite; never for a decision on PostgreSQL."""
    return _frozen if _frozen is not None else datetime.now(UTC)


def database_now(connection: BaseDatabaseWrapper) -> datetime:
    """The database's time as an aware UTC value. One statement on PostgreSQL, none on SQLite or while frozen."""
    if connection.vendor != "postgresql" or _frozen is not None:
        return host_now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp() AT TIME ZONE 'UTC'")
        moment: datetime = cursor.fetchone()[0]
    return moment.replace(tzinfo=UTC)


def now_sql(connection: BaseDatabaseWrapper, plus: timedelta = timedelta()) -> tuple[str, list[Any]]:
    """An SQL expression for now (plus a span), and its parameters."""
    if connection.vendor != "postgresql":
        return "%s", [sqlite_text(host_now() + plus)]
    if _frozen is not None:
        return "%s::timestamptz", [_frozen + plus]
    if plus:
        return "(statement_timestamp() + %s::interval)", [plus]
    return "statement_timestamp()", []


def lease_sql(connection: BaseDatabaseWrapper, lease_for: timedelta) -> tuple[str, list[Any]]:
    """An SQL expression for the end of a lease that is granted by the statement which writes it, and its parameters.

    Not counted from the statement's beginning: a statement may wait for a lock before it writes, and the lease would
    have expired already.
    """
    if connection.vendor != "postgresql" or _frozen is not None:
        return now_sql(connection, lease_for)
    return "(clock_timestamp() + %s::interval)", [lease_for]


class Now(models.Func):
    """The database's time, plus a span, for ORM queries."""

    output_field = MomentField()
    arity = 0

    def __init__(self, plus: timedelta = timedelta()) -> None:
        super().__init__()
        self.plus = plus

    def as_sql(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, list[Any]]:  # type: ignore[override]
        return now_sql(connection, self.plus)
