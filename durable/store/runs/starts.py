"""Inserting workflows: one statement on PostgreSQL, one per table on SQLite."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.payloads import wire
from durable.models.fields import sqlite_text
from durable.store.connections import sql


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


@dataclass(frozen=True, slots=True)
class NewActivity:
    """A single activity to insert as its own small workflow, with its outbox row."""

    id: uuid.UUID
    activity: str
    payload: str = field(repr=False)
    started: dict[str, Any] = field(repr=False)
    attempt_budget: int
    delivery_budget: int
    options: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    queue: str = "default"
    priority: int = 0
    start_at: datetime | None = None


_GIVEN = sql.RowSet(
    [
        ("id", "uuid"),
        ("type", "text"),
        ("key", "text"),
        ("payload", "text"),
        ("queue", "text"),
        ("priority", "int"),
        ("deadline_after", "bigint"),
        ("start_at", "timestamptz"),
        ("started", "text"),
        ("options", "text"),
        ("attempt_budget", "int"),
        ("delivery_budget", "int"),
    ]
)

_COLUMNS = (
    "id, type, key, single, status, run, run_seq, input, queue, priority, custom_status, last_seq, timers, "
    "blocked_reason, blocked_version, poison_turns, deadline_at, created_at, history_bytes"
)
_ROW_COLUMNS = (
    "workflow_id, run, ordinal, activity, input, options, namespace, queue, status, paused, suspect, priority, "
    "visible_after, created_at, deliveries, delivery_failures, delivery_budget, attempts, attempt_budget, "
    "failure_delivered, cause, redrive_count"
)

# One statement, so that readers see all of it or nothing, and the caller pays one round trip.
_POSTGRESQL = f"""
WITH input AS MATERIALIZED (
    SELECT given.*, greatest({{now}}, coalesce(start_at, {{now}})) AS begins_at FROM {{given}}
), workflow AS (
    INSERT INTO durable_workflow ({_COLUMNS})
    SELECT id, type, key, {{single}}, 'running', 1, 1, payload, queue, priority, '', 1, '[]', '', '', 0,
           begins_at + deadline_after * interval '1 microsecond', {{now}}, octet_length(started)
    FROM input
    ON CONFLICT DO NOTHING
    RETURNING id
), event AS (
    INSERT INTO durable_event (workflow_id, seq, type, ordinal, data, recorded_at)
    SELECT id, 1, 'workflow_started', NULL, started, date_trunc('milliseconds', begins_at)
    FROM workflow JOIN input USING (id)
), {{work}}
SELECT id FROM workflow
"""

_POSTGRESQL_MESSAGE = """message AS (
    INSERT INTO durable_message (workflow_id, run, kind, ordinal, payload, visible_at, created_at, parked)
    SELECT id, 1, 'start', NULL, '', begins_at, {now}, false FROM workflow JOIN input USING (id)
)"""

_POSTGRESQL_ROW = f"""staged AS (
    INSERT INTO durable_outboxrow ({_ROW_COLUMNS})
    SELECT id, 1, 1, type, payload, options, '', queue, 'pending', false, false, priority,
           begins_at, {{now}}, 0, 0, delivery_budget, 0, attempt_budget, false, '', 0
    FROM workflow JOIN input USING (id)
)"""

# The same for one: without the row set around it, it is planned and run in little more than half of the time.
_POSTGRESQL_ONE = f"""
WITH workflow AS (
    INSERT INTO durable_workflow ({_COLUMNS})
    VALUES (%(id)s, %(type)s, %(key)s, {{single}}, 'running', 1, 1, %(payload)s, %(queue)s, %(priority)s, '', 1, '[]',
            '', '', 0, {{begins_at}} + %(deadline_after)s * interval '1 microsecond', {{now}},
            octet_length(%(started)s::text))
    ON CONFLICT DO NOTHING
    RETURNING id
), event AS (
    INSERT INTO durable_event (workflow_id, seq, type, ordinal, data, recorded_at)
    SELECT id, 1, 'workflow_started', NULL, %(started)s, date_trunc('milliseconds', {{begins_at}}) FROM workflow
), {{work}}
SELECT id FROM workflow
"""

_POSTGRESQL_ONE_MESSAGE = """message AS (
    INSERT INTO durable_message (workflow_id, run, kind, ordinal, payload, visible_at, created_at, parked)
    SELECT id, 1, 'start', NULL, '', {begins_at}, {now}, false FROM workflow
)"""

_POSTGRESQL_ONE_ROW = f"""staged AS (
    INSERT INTO durable_outboxrow ({_ROW_COLUMNS})
    SELECT id, 1, 1, %(type)s, %(payload)s, %(options)s, '', %(queue)s, 'pending', false, false, %(priority)s,
           {{begins_at}}, {{now}}, 0, 0, %(delivery_budget)s, 0, %(attempt_budget)s, false, '', 0
    FROM workflow
)"""

_SQLITE_WORKFLOW = f"""
INSERT INTO durable_workflow ({_COLUMNS})
SELECT id, type, key, {{single}}, 'running', 1, 1, payload, queue, priority, '', 1, '[]', '', '', 0, deadline_after, %s,
       length(CAST(started AS BLOB))
FROM {{given}} WHERE true
ON CONFLICT DO NOTHING
RETURNING id
"""
_SQLITE_EVENT = """
INSERT INTO durable_event (workflow_id, seq, type, ordinal, data, recorded_at)
SELECT id, 1, 'workflow_started', NULL, started, substr(coalesce(start_at, %s), 1, 23) || '000' FROM {given}
"""
_SQLITE_MESSAGE = """
INSERT INTO durable_message (workflow_id, run, kind, ordinal, payload, visible_at, created_at, parked)
SELECT id, 1, 'start', NULL, '', coalesce(start_at, %s), %s, 0 FROM {given}
"""
_SQLITE_ROW = f"""
INSERT INTO durable_outboxrow ({_ROW_COLUMNS})
SELECT id, 1, 1, type, payload, options, '', queue, 'pending', 0, 0, priority,
       coalesce(start_at, %s), %s, 0, 0, delivery_budget, 0, attempt_budget, 0, '', 0
FROM {{given}}
"""

# The same for one, as above. Named, since Django turns a dict's names into SQLite's several times faster than `%s`.
_SQLITE_ONE_WORKFLOW = f"""
INSERT INTO durable_workflow ({_COLUMNS})
VALUES (%(id)s, %(type)s, %(key)s, %(single)s, 'running', 1, 1, %(payload)s, %(queue)s, %(priority)s, '', 1, '[]',
        '', '', 0, %(deadline_after)s, %(now)s, length(CAST(%(started)s AS BLOB)))
ON CONFLICT DO NOTHING
"""
_SQLITE_ONE_EVENT = """
INSERT INTO durable_event (workflow_id, seq, type, ordinal, data, recorded_at)
VALUES (%(id)s, 1, 'workflow_started', NULL, %(started)s, substr(%(start_at)s, 1, 23) || '000')
"""
_SQLITE_ONE_MESSAGE = """
INSERT INTO durable_message (workflow_id, run, kind, ordinal, payload, visible_at, created_at, parked)
VALUES (%(id)s, 1, 'start', NULL, '', %(start_at)s, %(now)s, 0)
"""
_SQLITE_ONE_ROW = f"""
INSERT INTO durable_outboxrow ({_ROW_COLUMNS})
VALUES (%(id)s, 1, 1, %(type)s, %(payload)s, %(options)s, '', %(queue)s, 'pending', 0, 0, %(priority)s,
        %(start_at)s, %(now)s, 0, 0, %(delivery_budget)s, 0, %(attempt_budget)s, 0, '', 0)
"""


def insert_workflows(connection: BaseDatabaseWrapper, new: Sequence[NewWorkflow]) -> set[uuid.UUID]:
    """Inserts workflows, started events and start messages; returns the ids that were inserted.

    A missing id means that a live workflow of the type has the key. Keys are taken in sorted order, so that two
    callers with overlapping sets wait for each other instead of deadlocking.
    """
    rows = [
        (n.id, n.type, n.key, n.payload, n.queue, n.priority, n.timeout, n.start_at, wire.dump(n.started), "{}", 0, 0)
        for n in new
    ]
    return _insert(connection, rows, single=False)


def insert_activities(connection: BaseDatabaseWrapper, new: Sequence[NewActivity]) -> set[uuid.UUID]:
    """Inserts single activities: workflow, started event and an outbox row that can be claimed from the commit on.
    Returns what `insert_workflows` returns.
    """
    rows = [
        (
            n.id,
            n.activity,
            n.key,
            n.payload,
            n.queue,
            n.priority,
            None,
            n.start_at,
            wire.dump(n.started),
            wire.dump(n.options),
            n.attempt_budget,
            n.delivery_budget,
        )
        for n in new
    ]
    return _insert(connection, rows, single=True)


def _insert(connection: BaseDatabaseWrapper, rows: list[tuple[Any, ...]], *, single: bool) -> set[uuid.UUID]:
    rows.sort(key=lambda row: (row[1], row[2] or "", row[0].bytes))
    if sql.is_postgresql(connection):
        return _insert_postgresql(connection, rows, single=single)
    return _insert_sqlite(connection, rows, single=single)


def _insert_postgresql(connection: BaseDatabaseWrapper, rows: list[tuple[Any, ...]], *, single: bool) -> set[uuid.UUID]:
    micro = timedelta(microseconds=1)
    values = [(*row[:6], None if row[6] is None else row[6] // micro, *row[7:]) for row in rows]
    now = "statement_timestamp()"
    if clock.is_frozen():
        now = f"'{clock.host_now().isoformat()}'::timestamptz"
    if len(values) == 1:
        return _insert_one(connection, _GIVEN.named(values[0]), now=now, single=single)
    work = (_POSTGRESQL_ROW if single else _POSTGRESQL_MESSAGE).format(now=now)
    statement = _POSTGRESQL.format(
        now=now, given=_GIVEN.source(connection), single="true" if single else "false", work=work
    )
    return {sql.as_uuid(row[0]) for row in sql.fetch(connection, statement, _GIVEN.params(connection, values))}


def _insert_one(connection: BaseDatabaseWrapper, values: dict[str, Any], *, now: str, single: bool) -> set[uuid.UUID]:
    begins_at = now if values["start_at"] is None else f"greatest({now}, %(start_at)s)"
    work = (_POSTGRESQL_ONE_ROW if single else _POSTGRESQL_ONE_MESSAGE).format(now=now, begins_at=begins_at)
    statement = _POSTGRESQL_ONE.format(now=now, begins_at=begins_at, single="true" if single else "false", work=work)
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return {sql.as_uuid(row[0]) for row in cursor.fetchall()}


def _insert_sqlite(connection: BaseDatabaseWrapper, rows: list[tuple[Any, ...]], *, single: bool) -> set[uuid.UUID]:
    moment = clock.host_now()
    now = sqlite_text(moment)
    values = []
    for row in rows:
        begins_at = max(moment, row[7]) if row[7] else moment
        deadline = None if row[6] is None else sqlite_text(begins_at + row[6])
        values.append((*row[:6], deadline, begins_at, *row[8:]))
    if len(values) == 1:
        return _insert_one_sqlite(connection, values[0], now=now, single=single)
    source = _GIVEN.source(connection)
    params = _GIVEN.params(connection, values)
    inserted = {
        sql.as_uuid(row[0])
        for row in sql.fetch(connection, _SQLITE_WORKFLOW.format(given=source, single=int(single)), [now, *params])
    }
    if len(inserted) < len(values):
        values = [row for row in values if row[0] in inserted]
        params = _GIVEN.params(connection, values)
    if values:
        sql.execute(connection, _SQLITE_EVENT.format(given=source), [now, *params])
        work = _SQLITE_ROW if single else _SQLITE_MESSAGE
        sql.execute(connection, work.format(given=source), [now, now, *params])
    return inserted


def _insert_one_sqlite(
    connection: BaseDatabaseWrapper, row: tuple[Any, ...], *, now: str, single: bool
) -> set[uuid.UUID]:
    spelled = {name: sql.param(connection, value) for name, value in _GIVEN.named(row).items()}
    params = {**spelled, "single": int(single), "now": now}
    with connection.cursor() as cursor:
        cursor.execute(_SQLITE_ONE_WORKFLOW, params)
        if not cursor.rowcount:
            return set()
        cursor.execute(_SQLITE_ONE_EVENT, params)
        cursor.execute(_SQLITE_ONE_ROW if single else _SQLITE_ONE_MESSAGE, params)
    return {row[0]}
