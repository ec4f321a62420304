"""Columns whose meaning does not depend on the project's settings."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.db import models
from django.db.models.lookups import Exact

from durable.kernel.payloads import wire

_WIDTH = len("2026-01-02 03:04:05.000006")


def sqlite_text(moment: datetime) -> str:
    """A time as SQLite stores it: UTC, fixed width, so that text order is time order."""
    if moment.tzinfo is None:
        raise ValueError(f"Engine columns hold aware moments only, not {moment!r}.")
    return (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).isoformat(" ", "microseconds")[:_WIDTH]


def moment_from_database(value: Any) -> datetime | None:
    """What a cursor gave for a moment (text, naive UTC, or aware) as an aware UTC value."""
    if value is None:
        return None
    if isinstance(value, str):
        return _parsed(value)
    moment: datetime = value
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


@lru_cache(maxsize=512)  # the rows of one statement share their moments
def _parsed(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class MomentField(models.DateTimeField):  # type: ignore[type-arg]  # not subscriptable at run time
    """An aware UTC moment, whatever `USE_TZ` says.

    PostgreSQL: `timestamptz`, selected `AT TIME ZONE 'UTC'`, since Django would otherwise read it in the session's
    zone when `USE_TZ` is off. SQLite: text of fixed width in UTC.
    """

    def get_internal_type(self) -> str:
        return "MomentField"

    def db_type(self, connection: Any) -> str:
        return "timestamp with time zone" if connection.vendor == "postgresql" else "varchar(26)"

    def rel_db_type(self, connection: Any) -> str:
        return self.db_type(connection)

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        if compiler.connection.vendor == "postgresql":
            return f"({sql} AT TIME ZONE 'UTC')", params
        return sql, params

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> datetime | None:
        return moment_from_database(value)

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if not prepared:
            value = self.get_prep_value(value)
        if isinstance(value, datetime) and connection.vendor != "postgresql":
            return sqlite_text(value)
        return value


class MarkField(models.BooleanField):  # type: ignore[type-arg]  # as above
    """A mark that rows carry or do not, compared as `mark` and `NOT mark`, as the store's statements spell it.

    On SQLite a partial index serves only what is spelled like its condition. Django spells comparisons with True and
    False in another way since 6.1, and a database keeps the indexes of the Django that made it.
    """


@MarkField.register_lookup
class Spelled(Exact):
    """`mark=True` and `mark=False` in the one spelling."""

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        sql, params = self.process_lhs(compiler, connection)
        return (sql if self.rhs else f"NOT {sql}"), params


class JsonTextField(models.TextField):  # type: ignore[type-arg]  # as above
    """Plain JSON kept as text: the same bytes on both databases, never looked into by SQL."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else json.loads(value)

    def to_python(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else wire.dump(value)

    def value_to_string(self, obj: Any) -> str:
        return wire.dump(self.value_from_object(obj))
