"""Inserting workflows: one statement on PostgreSQL, one per table on SQLite."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.payloads import wire
from durable.models.fields import sqlite_text
from durable.store.connections import new_rows, sql
from durable.store.connections.new_rows import Value, column, insert, named


@dataclass(frozen=True, slots=True)
class ParentCall:
    """The call of a parent that starts a child, and what the parent's end does to it."""

    parent: uuid.UUID
    run: int
    ordinal: int
    close: str


@dataclass(frozen=True, slots=True)
class NewWorkflow:
    """A workflow to insert. `payload` is its encoded input, `started` the data of its first event."""

    id: uuid.UUID
    type: str
    payload: str = field(repr=False)
    started: dict[str, Any] = field(repr=False)
    key: str | None = None
    queue: str = "default"
    priority: int = 0
    timeout: timedelta | None = None
    start_at: datetime | None = None
    call: ParentCall | None = None


@dataclass(frozen=True, slots=True)
class NewActivity:
    """A single activity to insert as its own small workflow, with its outbox row."""

    id: uuid.UUID
    activity: str
    payload: str = field(repr=False)
    started: dict[str, Any] = field(repr=False)
    attempt_budget: int | None
    delivery_budget: int
    options: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    queue: str = "default"
    priority: int = 0
    start_at: datetime | None = None


class _Values(NamedTuple):
    """The values of one new workflow. `deadline_after` counts from its beginning, as the database stores it."""

    id: uuid.UUID
    type: str
    key: str | None
    payload: str
    queue: str
    priority: int
    deadline_after: Any
    start_at: datetime | None
    started: str
    options: str = "{}"
    attempt_budget: int | None = 0
    delivery_budget: int = 0
    parent_id: uuid.UUID | None = None
    parent_run: int | None = None
    parent_ordinal: int | None = None
    parent_close: str = ""


_KINDS = {
    "parent_id": "uuid",
    "parent_run": "int",
    "parent_ordinal": "int",
    "id": "uuid",
    "priority": "int",
    "deadline_after": "bigint",
    "start_at": "timestamptz",
    "attempt_budget": "int",
    "delivery_budget": "int",
}
_GIVEN = sql.RowSet([(name, _KINDS.get(name, "text")) for name in _Values._fields])


@dataclass(frozen=True, slots=True)
class _Inserts:
    """The statements that insert a workflow, its started event, and its work: the start message or the outbox row."""

    workflow: str
    event: str
    work: str


class _Kind(StrEnum):
    """What is inserted: each has its statements."""

    WORKFLOW = "workflow"
    CHILD = "child"
    SINGLE = "single"


def _inserts(
    value: Value,
    *,
    kind: _Kind,
    now: str,
    begins_at: str,
    deadline_at: str,
    recorded_at: str,
    started_bytes: str,
    owner: str,
    source: str | None,
    inserted: str | None,
) -> _Inserts:
    """Of the values of `source`; event and work of those that were `inserted`, whose id is `owner` there."""
    single = kind is _Kind.SINGLE
    flag = "true" if single else "false"
    workflow = new_rows.workflow(
        value, single=flag, deadline_at=deadline_at, created_at=now, history_bytes=started_bytes
    )
    if kind is _Kind.CHILD:
        workflow = {**workflow, **new_rows.of_child(value)}
    event = new_rows.event(
        workflow_id=owner, seq="1", type="'workflow_started'", data=value("started"), recorded_at=recorded_at
    )
    if single:
        work = (
            "outboxrow",
            new_rows.outbox_row(
                value,
                workflow_id=owner,
                run="1",
                ordinal="1",
                activity=value("type"),
                visible_after=begins_at,
                created_at=now,
            ),
        )
    else:
        work = (
            "message",
            new_rows.message(
                workflow_id=owner, run="1", kind="'start'", payload="''", visible_at=begins_at, created_at=now
            ),
        )
    return _Inserts(insert("workflow", workflow, source), insert("event", event, inserted), insert(*work, inserted))


def _postgresql(kind: _Kind) -> str:
    # One statement, so that readers see all of it or nothing, and the caller pays one round trip.
    made = _inserts(
        column,
        kind=kind,
        now="{now}",
        begins_at="begins_at",
        deadline_at="begins_at + deadline_after * interval '1 microsecond'",
        recorded_at="date_trunc('milliseconds', begins_at)",
        started_bytes="octet_length(started)",
        owner="id",
        source="input",
        inserted="workflow JOIN input USING (id)",
    )
    return f"""
        WITH input AS MATERIALIZED (
            SELECT given.*, greatest({{now}}, coalesce(start_at, {{now}})) AS begins_at FROM {{given}}
        ), workflow AS ({made.workflow} ON CONFLICT DO NOTHING RETURNING id), event AS ({made.event}),
        work AS ({made.work})
        SELECT id FROM workflow
        """


def _postgresql_one(kind: _Kind) -> str:
    # The same for one: without the row set around it, it is planned and run in little more than half of the time.
    made = _inserts(
        named,
        kind=kind,
        now="{now}",
        begins_at="{begins_at}",
        deadline_at="{begins_at} + %(deadline_after)s * interval '1 microsecond'",
        recorded_at="date_trunc('milliseconds', {begins_at})",
        started_bytes="octet_length(%(started)s::text)",
        owner="id",
        source=None,
        inserted="workflow",
    )
    return f"""
        WITH workflow AS ({made.workflow} ON CONFLICT DO NOTHING RETURNING id), event AS ({made.event}),
        work AS ({made.work})
        SELECT id FROM workflow
        """


def _sqlite(kind: _Kind) -> _Inserts:
    made = _inserts(
        column,
        kind=kind,
        now="%s",
        begins_at="start_at",
        deadline_at="deadline_after",
        recorded_at="substr(start_at, 1, 23) || '000'",
        started_bytes="length(CAST(started AS BLOB))",
        owner="id",
        source="{given} WHERE true",
        inserted="{given}",
    )
    return replace(made, workflow=f"{made.workflow} ON CONFLICT DO NOTHING RETURNING id")


def _sqlite_one(kind: _Kind) -> _Inserts:
    # The same for one, as above. Named, since Django turns a dict's names into SQLite's several times faster than `%s`.
    made = _inserts(
        named,
        kind=kind,
        now="%(now)s",
        begins_at="%(start_at)s",
        deadline_at="%(deadline_after)s",
        recorded_at="substr(%(start_at)s, 1, 23) || '000'",
        started_bytes="length(CAST(%(started)s AS BLOB))",
        owner="%(id)s",
        source=None,
        inserted=None,
    )
    return replace(made, workflow=f"{made.workflow} ON CONFLICT DO NOTHING")


_POSTGRESQL = {kind: _postgresql(kind) for kind in _Kind}
_POSTGRESQL_ONE = {kind: _postgresql_one(kind) for kind in _Kind}
_SQLITE = {kind: _sqlite(kind) for kind in _Kind}
_SQLITE_ONE = {kind: _sqlite_one(kind) for kind in _Kind}


def insert_workflows(connection: BaseDatabaseWrapper, new: Sequence[NewWorkflow]) -> set[uuid.UUID]:
    """Inserts workflows, started events and start messages; returns the ids that were inserted.

    A missing id means that a live workflow of the type has the key. Keys are taken in sorted order, so that two
    callers with overlapping sets wait for each other instead of deadlocking.
    """
    rows = [
        _Values(n.id, n.type, n.key, n.payload, n.queue, n.priority, n.timeout, n.start_at, wire.dump(n.started))
        for n in new
    ]
    return _insert(connection, rows, kind=_Kind.WORKFLOW)


def insert_children(connection: BaseDatabaseWrapper, new: Sequence[NewWorkflow]) -> set[uuid.UUID]:
    """The same for children, which name the call of their parent."""
    rows = [
        _Values(
            id=n.id,
            type=n.type,
            key=n.key,
            payload=n.payload,
            queue=n.queue,
            priority=n.priority,
            deadline_after=n.timeout,
            start_at=n.start_at,
            started=wire.dump(n.started),
            parent_id=n.call.parent,
            parent_run=n.call.run,
            parent_ordinal=n.call.ordinal,
            parent_close=n.call.close,
        )
        for n in new
        if n.call is not None
    ]
    return _insert(connection, rows, kind=_Kind.CHILD)


def insert_activities(connection: BaseDatabaseWrapper, new: Sequence[NewActivity]) -> set[uuid.UUID]:
    """Inserts single activities: workflow, started event and an outbox row that can be claimed from the commit on.
    Returns what `insert_workflows` returns.
    """
    rows = [
        _Values(
            id=n.id,
            type=n.activity,
            key=n.key,
            payload=n.payload,
            queue=n.queue,
            priority=n.priority,
            deadline_after=None,
            start_at=n.start_at,
            started=wire.dump(n.started),
            options=wire.dump(n.options),
            attempt_budget=n.attempt_budget,
            delivery_budget=n.delivery_budget,
        )
        for n in new
    ]
    return _insert(connection, rows, kind=_Kind.SINGLE)


def _insert(connection: BaseDatabaseWrapper, rows: list[_Values], *, kind: _Kind) -> set[uuid.UUID]:
    # Of children with one key the first call gets it: their ids say nothing about the order.
    rows.sort(key=lambda row: (row.type, row.key or "", row.parent_ordinal or 0, row.id.bytes))
    if sql.is_postgresql(connection):
        return _insert_postgresql(connection, rows, kind=kind)
    return _insert_sqlite(connection, rows, kind=kind)


def _insert_postgresql(connection: BaseDatabaseWrapper, rows: list[_Values], *, kind: _Kind) -> set[uuid.UUID]:
    micro = timedelta(microseconds=1)
    values = [
        row if row.deadline_after is None else row._replace(deadline_after=row.deadline_after // micro) for row in rows
    ]
    now = "statement_timestamp()"
    if clock.is_frozen():
        now = f"'{clock.host_now().isoformat()}'::timestamptz"
    if len(values) == 1:
        return _insert_one(connection, values[0], now=now, kind=kind)
    statement = _POSTGRESQL[kind].format(now=now, given=_GIVEN.source(connection))
    return {sql.as_uuid(row[0]) for row in sql.fetch(connection, statement, _GIVEN.params(connection, values))}


def _insert_one(connection: BaseDatabaseWrapper, values: _Values, *, now: str, kind: _Kind) -> set[uuid.UUID]:
    begins_at = now if values.start_at is None else f"greatest({now}, %(start_at)s)"
    statement = _POSTGRESQL_ONE[kind].format(now=now, begins_at=begins_at)
    with connection.cursor() as cursor:
        cursor.execute(statement, values._asdict())
        return {sql.as_uuid(row[0]) for row in cursor.fetchall()}


def _insert_sqlite(connection: BaseDatabaseWrapper, rows: list[_Values], *, kind: _Kind) -> set[uuid.UUID]:
    moment = clock.host_now()
    now = sqlite_text(moment)
    values = []
    for row in rows:
        begins_at = max(moment, row.start_at) if row.start_at else moment
        deadline = None if row.deadline_after is None else sqlite_text(begins_at + row.deadline_after)
        values.append(row._replace(deadline_after=deadline, start_at=begins_at))
    if len(values) == 1:
        return _insert_one_sqlite(connection, values[0], now=now, kind=kind)
    statements, source = _SQLITE[kind], _GIVEN.source(connection)
    params = _GIVEN.params(connection, values)
    inserted = {
        sql.as_uuid(row[0]) for row in sql.fetch(connection, statements.workflow.format(given=source), [now, *params])
    }
    if len(inserted) < len(values):
        values = [row for row in values if row.id in inserted]
        params = _GIVEN.params(connection, values)
    if values:
        sql.execute(connection, statements.event.format(given=source), params)
        sql.execute(connection, statements.work.format(given=source), [now, *params])
    return inserted


def _insert_one_sqlite(connection: BaseDatabaseWrapper, row: _Values, *, now: str, kind: _Kind) -> set[uuid.UUID]:
    statements = _SQLITE_ONE[kind]
    params = {name: sql.param(connection, value) for name, value in row._asdict().items()}
    params["now"] = now
    with connection.cursor() as cursor:
        cursor.execute(statements.workflow, params)
        if not cursor.rowcount:
            return set()
        cursor.execute(statements.event, params)
        cursor.execute(statements.work, params)
    return {row.id}
