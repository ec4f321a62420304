"""How the store talks to two databases: parameters, row sets, and times.

Where they differ, PostgreSQL's and SQLite's statements are next to each other. Row sets travel as arrays
(`unnest`) on PostgreSQL and as one JSON text (`json_each`) or a prepared statement run per row on SQLite, so the number
of statements does not depend on the number of rows.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.kernel.payloads import wire
from durable.models.fields import sqlite_text

Params = list[Any]


def is_postgresql(connection: BaseDatabaseWrapper) -> bool:
    """Which of the two it is."""
    return connection.vendor == "postgresql"


def has_one_writer(connection: BaseDatabaseWrapper) -> bool:
    """Whether a write transaction stops all other writers until it ends, whatever they write."""
    return not is_postgresql(connection)


def param(connection: BaseDatabaseWrapper, value: Any) -> Any:
    """One value as the database's driver wants it."""
    if is_postgresql(connection):
        return value
    if isinstance(value, uuid.UUID):
        return value.hex
    if isinstance(value, datetime):
        return sqlite_text(value)
    return value


def _plain_array(values: Iterable[Any]) -> str:
    # Not `str`: an enumeration of whole numbers has a text of its own.
    return "{" + ",".join(["NULL" if value is None else int.__repr__(value) for value in values]) + "}"


def _uuid_array(values: Iterable[Any]) -> str:
    return "{" + ",".join(["NULL" if value is None else value.hex for value in values]) + "}"


def _moment_array(values: Iterable[Any]) -> str:
    return "{" + ",".join(["NULL" if value is None else f'"{value.isoformat()}"' for value in values]) + "}"


def _text_array(values: Iterable[Any]) -> str:
    quoted = [
        "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values
    ]
    return "{" + ",".join(quoted) + "}"


# PostgreSQL's own array syntax. The driver would look up the conversion for each single value, which was the
# costliest part of an acknowledgement.
_ARRAYS: dict[str, Callable[[Iterable[Any]], str]] = {
    "int": _plain_array,
    "bigint": _plain_array,
    "uuid": _uuid_array,
    "timestamptz": _moment_array,
    "text": _text_array,
}
_KINDS = {int: "bigint", uuid.UUID: "uuid", str: "text"}

# And SQLite's format of single values, a column at a time; the other kinds are JSON's own.
_SPELLED: dict[str, Callable[[Sequence[Any]], Sequence[Any]]] = {
    "uuid": lambda values: [None if value is None else value.hex for value in values],
    "timestamptz": lambda values: [None if value is None else sqlite_text(value) for value in values],
}
_to_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def among(connection: BaseDatabaseWrapper, column: str, values: Iterable[Any]) -> tuple[str, Params]:
    """The condition that `column` (uuid, integer or text) is one of the values; one parameter, whatever their
    number.
    """
    listed = list(values)
    if is_postgresql(connection):
        kind = _KINDS.get(type(listed[0])) if listed else None
        if kind is None:
            return f"{column} = ANY(%s)", [listed]
        return f"{column} = ANY(%s::{kind}[])", [_ARRAYS[kind](listed)]
    if listed and type(listed[0]) is uuid.UUID:  # most are: written at once, without a call for each
        encoded = '["' + '","'.join([value.hex for value in listed]) + '"]'
    else:
        encoded = json.dumps([param(connection, value) for value in listed])
    return f"{column} IN (SELECT value FROM json_each(%s))", [encoded]


def except_for(connection: BaseDatabaseWrapper, column: str, values: Sequence[str]) -> tuple[str, Params]:
    """The end of a condition: and `column` is none of the values. Empty if there are none."""
    if not values:
        return "", []
    condition, params = among(connection, column, values)
    return f" AND NOT ({condition})", params


def of_queues(
    connection: BaseDatabaseWrapper, column: str, queues: Sequence[str] | None, but: Sequence[str]
) -> tuple[str, Params]:
    """The condition that `column` is one of the queues; None: any but those in `but`."""
    if queues is not None:
        return among(connection, column, queues)
    left_out, params = except_for(connection, column, but)
    return f"true{left_out}", params


def moment(connection: BaseDatabaseWrapper, column: str) -> str:
    """A time in a select list, so that it arrives as UTC whatever the session's zone is."""
    return f"({column} AT TIME ZONE 'UTC')" if is_postgresql(connection) else column


def seconds_since(connection: BaseDatabaseWrapper, column: str, now: str) -> str:
    """Seconds from a moment to another one, as a float in a select list."""
    if is_postgresql(connection):
        return f"EXTRACT(EPOCH FROM {now} - {column})::float8"
    return f"(julianday({now}) - julianday({column})) * 86400.0"


def size(connection: BaseDatabaseWrapper, column: str) -> str:
    """The bytes of a text, without reading more of it than its head on PostgreSQL."""
    return f"octet_length({column})" if is_postgresql(connection) else f"length(CAST({column} AS BLOB))"


def size_of(text: str) -> int:
    """The same of a text that is at hand."""
    return len(text) if text.isascii() else len(text.encode())


def locking(connection: BaseDatabaseWrapper, strength: str) -> str:
    """The end of a SELECT that locks its rows (`NO KEY UPDATE`, `UPDATE SKIP LOCKED`, …). SQLite has one lock for all
    writers, which the transaction holds already.
    """
    return f" FOR {strength}" if is_postgresql(connection) else ""


_FEW = 20

LOCK_WAIT = "1s"
"""How long a statement of ours waits for another session's lock."""


SHORT_LOCK_WAIT = "20ms"
"""The same, where many may be locked and others wait for their turn meanwhile."""


_wait: ContextVar[str] = ContextVar("durable_lock_wait", default="")


@contextmanager
def waiting(wait: str) -> Iterator[None]:
    """Limits the lock waits of the transactions in the block to `wait`, in PostgreSQL's syntax."""
    before = _wait.set(wait)
    try:
        yield
    finally:
        _wait.reset(before)


def chosen_wait() -> str:
    """The limit set by `waiting`; empty if there is none."""
    return _wait.get()


def bounding(connection: BaseDatabaseWrapper, wait: str = "") -> str:
    """A column that bounds lock waits from here to the end of the transaction, for a first statement that waits for no
    lock itself: a statement less than setting it beforehand. On SQLite the wait is at BEGIN.
    """
    wait = wait or chosen_wait() or LOCK_WAIT
    return f"(SELECT set_config('lock_timeout', '{wait}', true))" if is_postgresql(connection) else "NULL"


def fetch(connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Runs one statement and returns its rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def each(connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
    """The rows of one statement, a few at a time: for long ones, of which what is made takes as much memory again."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        while rows := cursor.fetchmany(_FEW):
            while rows:
                yield rows.pop(0)


def execute(connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any] = ()) -> int:
    """Runs one statement and returns the number of rows that it wrote."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        count: int = cursor.rowcount
    return count


def as_uuid(value: Any) -> uuid.UUID:
    """A uuid as a cursor gave it."""
    return _parsed(value) if type(value) is str else value


@lru_cache(maxsize=8192)  # the same workflows are named again and again, by statement after statement
def _parsed(text: str) -> uuid.UUID:
    return uuid.UUID(text)


class RowSet:
    """Rows of values with named, typed columns that a statement can read from.

    `source` is a FROM item called `given`. On PostgreSQL it is one `unnest` of arrays; on SQLite one `json_each` of a
    JSON array of arrays. Types are PostgreSQL's names.
    """

    def __init__(self, columns: Sequence[tuple[str, str]]) -> None:
        self._columns = list(columns)
        self._arrays = [_ARRAYS[kind] for _, kind in self._columns]
        self._spelled = [(at, _SPELLED[kind]) for at, (_, kind) in enumerate(self._columns) if kind in _SPELLED]
        names = ", ".join(name for name, _ in self._columns)
        arrays = ", ".join(f"%s::{kind}[]" for _, kind in self._columns)
        self._postgresql = f"unnest({arrays}) AS given({names})"
        fields = ", ".join(f"json_extract(value, '$[{at}]') AS {name}" for at, (name, _) in enumerate(self._columns))
        # The limit without effect keeps SQLite from folding this into the statement around it, where it would walk
        # the table and look for each row in the JSON, instead of the other way round.
        self._sqlite = f"(SELECT {fields} FROM json_each(%s) LIMIT -1) AS given"

    def source(self, connection: BaseDatabaseWrapper) -> str:
        """The FROM item."""
        return self._postgresql if is_postgresql(connection) else self._sqlite

    def params(self, connection: BaseDatabaseWrapper, rows: Sequence[Sequence[Any]]) -> Params:
        """The parameters that carry the rows into `source`."""
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self._columns)
        if is_postgresql(connection):
            return [array(column) for array, column in zip(self._arrays, columns, strict=True)]
        for at, spelled in self._spelled:
            columns[at] = tuple(spelled(columns[at]))
        return [_to_json(list(zip(*columns, strict=True)))]


def loads(text: str) -> Any:
    """Plain JSON that a cursor gave as text."""
    return wire.load(text)
