"""Appends to and reads histories. Events are never changed here."""

from __future__ import annotations

import itertools
import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.errors import NewerEngine
from durable.kernel.history.events import Event, EventType
from durable.kernel.history.known import beyond_event
from durable.kernel.payloads import wire
from durable.models.fields import moment_from_database
from durable.store.connections import new_rows, sql
from durable.store.connections.new_rows import insert

_GIVEN = sql.RowSet(
    [
        ("workflow_id", "uuid"),
        ("seq", "int"),
        ("type", "text"),
        ("ordinal", "int"),
        ("data", "text"),
        ("recorded_at", "timestamptz"),
    ]
)
_APPEND = insert(
    "event",
    new_rows.event(
        workflow_id="workflow_id", seq="seq", type="type", ordinal="ordinal", data="data", recorded_at="recorded_at"
    ),
    "{given}",
)


Bytes = dict[uuid.UUID, int]
"""By how much histories have become longer."""


def append(connection: BaseDatabaseWrapper, events: Sequence[tuple[uuid.UUID, Event]]) -> Bytes:
    """Appends events, given as (workflow id, event) pairs, in one statement. The caller has locked the workflows, and
    adds what is returned to their `history_bytes`.
    """
    if not events:
        return {}
    statement, params, added = appending(connection, events)
    sql.execute(connection, statement, params)
    return added


def appending(
    connection: BaseDatabaseWrapper, events: Sequence[tuple[uuid.UUID, Event]]
) -> tuple[str, sql.Params, Bytes]:
    """The statement of `append`, its parameters, and what `append` returns."""
    rows = [(owner, e.seq, e.type.value, e.ordinal, wire.dump(e.data), e.recorded_at) for owner, e in events]
    added: Bytes = {}
    for row in rows:
        added[row[0]] = added.get(row[0], 0) + sql.size_of(row[4])
    return _APPEND.format(given=_GIVEN.source(connection)), _GIVEN.params(connection, rows), added


_COLUMNS = "e.workflow_id, e.seq, e.type, e.ordinal, e.data, {recorded_at}"


@dataclass(frozen=True, slots=True)
class NewerEvent:
    """An event that only a newer engine knows: which one, in words, and when it was recorded."""

    words: str
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class Histories:
    """What was read of several workflows, by id; each workflow is in one of these.

    `unreadable`: why an event cannot be read (edited by hand, say). `newer`: the latest event of a newer engine.
    Neither keeps the others from being read.
    """

    events: dict[uuid.UUID, list[Event]]
    unreadable: dict[uuid.UUID, str]
    newer: dict[uuid.UUID, NewerEvent]


def read_runs(connection: BaseDatabaseWrapper, workflow_ids: Iterable[uuid.UUID]) -> Histories:
    """The events of the current history of each workflow, in order, undone ones included. One statement."""
    condition, params = sql.among(connection, "w.id", workflow_ids)
    columns = _COLUMNS.format(recorded_at=sql.moment(connection, "e.recorded_at"))
    rows = sql.each(
        connection,
        f"SELECT {columns} FROM durable_workflow w "
        "JOIN durable_event e ON e.workflow_id = w.id AND e.seq >= w.history_seq "
        f"WHERE {condition} ORDER BY e.workflow_id, e.seq",
        params,
    )
    histories: dict[uuid.UUID, list[Event]] = defaultdict(list)
    unreadable: dict[uuid.UUID, str] = {}
    newer: dict[uuid.UUID, NewerEvent] = {}
    for row in rows:
        owner = sql.as_uuid(row[0])
        try:
            histories[owner].append(_event(row))
        except NewerEngine as error:
            newer[owner] = NewerEvent(error.reason, _moment(row[5]))
        except ValueError as error:
            unreadable.setdefault(owner, f"event {row[1]} cannot be read: {error}")
    whole = {owner: events for owner, events in histories.items() if owner not in unreadable and owner not in newer}
    return Histories(whole, unreadable, {owner: event for owner, event in newer.items() if owner not in unreadable})


def sizes(connection: BaseDatabaseWrapper, workflow_ids: Iterable[uuid.UUID]) -> Bytes:
    """The bytes of the current history of each workflow, whether or not they are counted in its row. One statement."""
    condition, params = sql.among(connection, "w.id", workflow_ids)
    rows = sql.fetch(
        connection,
        f"SELECT w.id, sum({sql.size(connection, 'e.data')}) FROM durable_workflow w "
        f"JOIN durable_event e ON e.workflow_id = w.id AND e.seq >= w.history_seq WHERE {condition} GROUP BY w.id",
        params,
    )
    return {sql.as_uuid(owner): int(size) for owner, size in rows}


def read(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, *, after: int = 0, limit: int = 100) -> list[Event]:
    """One page of a history: at most `limit` events after `after`, in order. Raises `NewerEngine`."""
    columns = _COLUMNS.format(recorded_at=sql.moment(connection, "e.recorded_at"))
    rows = sql.fetch(
        connection,
        f"SELECT {columns} FROM durable_event e WHERE e.workflow_id = %s AND e.seq > %s "
        f"ORDER BY e.seq LIMIT {int(limit)}",
        [sql.param(connection, workflow_id), after],
    )
    return [_event(row) for row in rows]


def fitting(
    connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, *, after: int, limit: int, characters: int
) -> tuple[int, bool]:
    """How many of the events after `after` fit into a number of characters of data, `limit` at most, and whether more
    follow. The first one always counts. Reads no data.
    """
    rows = sql.fetch(
        connection,
        "SELECT LENGTH(e.data) FROM durable_event e WHERE e.workflow_id = %s AND e.seq > %s "
        f"ORDER BY e.seq LIMIT {int(limit) + 1}",
        [sql.param(connection, workflow_id), after],
    )
    totals = itertools.accumulate(cast(int, length) for (length,) in rows)
    number = sum(1 for at, total in enumerate(totals) if at < limit and (at == 0 or total <= characters))
    return number, number < len(rows)


def last_of(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, type: EventType) -> Event | None:
    """The last event of a type, if there is one."""
    columns = _COLUMNS.format(recorded_at=sql.moment(connection, "e.recorded_at"))
    rows = sql.fetch(
        connection,
        f"SELECT {columns} FROM durable_event e WHERE e.workflow_id = %s AND e.type = %s ORDER BY e.seq DESC LIMIT 1",
        [sql.param(connection, workflow_id), type.value],
    )
    return _event(rows[0]) if rows else None


def _event(row: tuple[object, ...]) -> Event:
    _, seq, kind, ordinal, data, recorded_at = row
    loaded = json.loads(cast(str, data))
    if not isinstance(loaded, dict):
        raise ValueError(f"its data is no JSON object, but {loaded!r:.100}")  # noqa: TRY004 - of the row's content
    beyond = beyond_event(cast(str, kind), loaded)
    if beyond:
        raise NewerEngine(f"Event {seq} has {beyond}, which this version of durable does not know.")
    return Event(
        seq=cast(int, seq),
        type=EventType(cast(str, kind)),
        data=loaded,
        recorded_at=_moment(recorded_at),
        ordinal=cast("int | None", ordinal),
    )


def _moment(value: object) -> datetime:
    moment = moment_from_database(value)
    assert moment is not None
    return moment


_OUTCOMES = ("activity_completed", "activity_failed", "activity_cancelled")


def records_outcome(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, *, since: int, ordinal: int) -> int:
    """How many terminal outcomes of an activity the history holds from `since` on, where its current run begins."""
    rows = sql.fetch(
        connection,
        "SELECT count(*) FROM durable_event WHERE workflow_id = %s AND seq >= %s AND ordinal = %s "
        "AND type IN (%s, %s, %s)",
        [sql.param(connection, workflow_id), since, ordinal, *_OUTCOMES],
    )
    return cast(int, rows[0][0])
