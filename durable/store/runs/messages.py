"""Messages, the input of workflows' next turns."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.history.events import MessageKind
from durable.kernel.limits import MAX_REASON_LENGTH, MAX_SIGNAL_NAME_LENGTH
from durable.store.connections import new_rows, sql
from durable.store.connections.new_rows import insert as insert_rows


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to insert, due at once."""

    workflow_id: uuid.UUID
    run: int
    kind: MessageKind
    payload: str = field(repr=False)
    ordinal: int | None = None


BEGUN = "NOT (m.kind = 'start')"
START = "m.kind = 'start'"
"""Conditions on `durable_message m`. SQLite uses an index only if the condition has the same form."""

_EVENTS = "{w}last_seq - {w}history_seq + 1"
"""How many events the current history of a workflow has."""

_GIVEN = sql.RowSet(
    [("workflow_id", "uuid"), ("run", "int"), ("kind", "text"), ("ordinal", "int"), ("payload", "text")]
)


def insert(connection: BaseDatabaseWrapper, new: Sequence[NewMessage]) -> None:
    """Inserts messages that are due now. One statement."""
    if not new:
        return
    now, now_params = clock.now_sql(connection)
    rows = [(m.workflow_id, m.run, m.kind.value, m.ordinal, m.payload) for m in new]
    row = new_rows.message(
        workflow_id="workflow_id",
        run="run",
        kind="kind",
        ordinal="ordinal",
        payload="payload",
        visible_at=now,
        created_at=now,
    )
    sql.execute(
        connection,
        insert_rows("message", row, _GIVEN.source(connection)),
        [*now_params, *now_params, *_GIVEN.params(connection, rows)],
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may wait unread for one workflow, in signals and in bytes, and how long its history may be to accept one
    more.
    """

    signals: int
    size: int
    history_events: int
    history_bytes: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What waits unread for a workflow, counted up to the limits, and whether its history has room."""

    signals: int
    size: int
    history_has_room: bool

    def has_room(self, within: Limits) -> bool:
        """Whether one more signal is accepted."""
        return self.history_has_room and self.signals < within.signals and self.size < within.size


def insert_for_live(
    connection: BaseDatabaseWrapper,
    workflow_id: uuid.UUID,
    kind: MessageKind,
    payload: str,
    *,
    dedup: str | None,
    within: Limits | None = None,
    counted: bool = False,
) -> int:
    """Inserts a message if the workflow is live and has code that will read it, unlike a single activity. Returns how
    many were inserted.

    One statement, so that nothing can come between the check and the insert. Messages are never parked here, even for a
    paused workflow: only the turn does that, under the workflow's lock. If a caller parked one and committed after a
    resume that did not see it, it would wait for ever. A message whose `dedup` the workflow has already received is not
    inserted again. `within` limits what waits; without a lock, so concurrent senders may exceed it a little. `counted`:
    the caller has just called `standing`, and there is room.
    """
    now, now_params = clock.now_sql(connection)
    room, room_params = "", []
    if within is not None:
        room, room_params = (
            f" AND {_EVENTS.format(w='w.')} < %s AND w.history_bytes < %s",
            [within.history_events, within.history_bytes],
        )
        if not counted:
            unread = _unread(connection, within, "w.id")
            room += f" AND (SELECT count(*) < %s AND coalesce(sum(size), 0) < %s FROM ({unread}) AS waiting)"
            room_params += [within.signals, within.size]
    text = "::text" if sql.is_postgresql(connection) else ""
    row = new_rows.message(
        workflow_id="id",
        run="run",
        kind=f"%s{text}",
        payload=f"%s{text}",
        visible_at=now,
        created_at=now,
        dedup=f"%s{text}",
    )
    live = f"durable_workflow w WHERE id = %s AND status IN ('running', 'paused') AND NOT single{room}"
    return sql.execute(
        connection,
        f"{insert_rows('message', row, live)} ON CONFLICT DO NOTHING",
        [kind.value, payload, *now_params, *now_params, dedup, sql.param(connection, workflow_id), *room_params],
    )


def _unread(connection: BaseDatabaseWrapper, within: Limits, owner: str) -> str:
    return (
        f"SELECT {sql.size(connection, 'm.payload')} AS size FROM durable_message m "
        f"WHERE m.workflow_id = {owner} AND m.kind = 'signal' ORDER BY m.visible_at, m.id LIMIT {within.signals}"
    )


def standing(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, within: Limits) -> Standing | None:
    """What `insert_for_live` checks; None if there is no such workflow. One statement."""
    key = sql.param(connection, workflow_id)
    rows = sql.fetch(
        connection,
        "SELECT history.room, waiting.signals, waiting.size "
        f"FROM (SELECT {_EVENTS.format(w='')} < %s AND history_bytes < %s AS room "
        "FROM durable_workflow WHERE id = %s) AS history "
        "CROSS JOIN (SELECT count(*) AS signals, coalesce(sum(size), 0) AS size "
        f"FROM ({_unread(connection, within, '%s')}) AS unread) AS waiting",
        [within.history_events, within.history_bytes, key, key],
    )
    return Standing(rows[0][1], int(rows[0][2]), bool(rows[0][0])) if rows else None


def is_waiting(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, dedup: str) -> bool:
    """Whether a message with this `dedup` waits for the workflow."""
    return bool(
        sql.fetch(
            connection,
            "SELECT 1 FROM durable_message WHERE workflow_id = %s AND dedup = %s",
            [sql.param(connection, workflow_id), dedup],
        )
    )


def delete(connection: BaseDatabaseWrapper, ids: Sequence[int]) -> None:
    """Removes exactly these messages: the ones a turn has consumed. Their workflows are locked by the caller."""
    if ids:
        condition, params = sql.among(connection, "id", sorted(ids))
        sql.execute(connection, f"DELETE FROM durable_message WHERE {condition}", params)


def park(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> None:
    """Parks the messages of these (locked) workflows, until `unpark`. Not an order to terminate, which may have come
    after the turn has looked for one: the next turn carries it out without the workflow's code.
    """
    if workflow_ids:
        condition, params = sql.among(connection, "workflow_id", workflow_ids)
        sql.execute(
            connection,
            f"UPDATE durable_message SET parked = true WHERE NOT parked AND kind <> 'terminate' AND {condition}",
            params,
        )


def park_signals(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> None:
    """Parks the signals of these (locked) workflows; a turn that has room for them reads them."""
    if workflow_ids:
        condition, params = sql.among(connection, "workflow_id", workflow_ids)
        sql.execute(
            connection,
            f"UPDATE durable_message SET parked = true WHERE NOT parked AND kind = 'signal' AND {condition}",
            params,
        )


def asked_to_cancel(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Those of the workflows for which a request to cancel has come that is not parked."""
    condition, params = sql.among(connection, "workflow_id", workflow_ids)
    rows = sql.fetch(
        connection,
        f"SELECT DISTINCT workflow_id FROM durable_message WHERE kind = 'cancel' AND NOT parked AND {condition}",
        params,
    )
    return {sql.as_uuid(row[0]) for row in rows}


def orders_to_terminate(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, str]:
    """The payload of an order to terminate, for each of these workflows that has got one. One statement."""
    if not workflow_ids:
        return {}
    condition, params = sql.among(connection, "workflow_id", workflow_ids)
    rows = sql.fetch(
        connection,
        f"SELECT workflow_id, payload FROM durable_message WHERE kind = 'terminate' AND {condition} ORDER BY id DESC",
        params,
    )
    return {sql.as_uuid(owner): payload for owner, payload in rows}


def unpark(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> None:
    """Makes the parked messages of these (locked) workflows due again."""
    if workflow_ids:
        condition, params = sql.among(connection, "workflow_id", workflow_ids)
        sql.execute(connection, f"UPDATE durable_message SET parked = false WHERE parked AND {condition}", params)


_PUT_OFF = sql.RowSet([("id", "bigint"), ("until", "timestamptz")])


def put_off(connection: BaseDatabaseWrapper, later: Mapping[int, datetime]) -> None:
    """Makes messages of (locked) workflows due later, each at its own time. One statement."""
    if later:
        sql.execute(
            connection,
            f"UPDATE durable_message AS m SET visible_at = given.until FROM {_PUT_OFF.source(connection)} "
            "WHERE m.id = given.id",
            _PUT_OFF.params(connection, list(later.items())),
        )


_OF_NO_USE = "kind IN ('start', 'completed', 'failed', 'child', 'terminate')"
"""Once the workflow has ended. The other kinds were accepted from callers."""


_NAME_HEAD = 6 * MAX_SIGNAL_NAME_LENGTH + 20
"""Characters in which a signal's name stands, each of it escaped: it comes first."""
_REASON_HEAD = 6 * MAX_REASON_LENGTH + 4_000


def consume(
    connection: BaseDatabaseWrapper, *, read: Sequence[int], closing: Sequence[uuid.UUID]
) -> list[tuple[uuid.UUID, str, str]]:
    """Deletes the messages that were read. For closing (locked) workflows, parks unread signals and requests to cancel
    for good, and deletes the rest; returns (workflow, kind, head) of those kept, in reading order. A head is the part
    of the payload with a signal's name, or with a request's reason, since there may be any number of them, of any size.

    One statement on PostgreSQL, at most two on SQLite.
    """
    if not closing:
        delete(connection, read)
        return []
    owned, of_owned = sql.among(connection, "workflow_id", closing)
    removing, params = f"DELETE FROM durable_message WHERE ({owned} AND {_OF_NO_USE})", list(of_owned)
    keeping, of_keeping = (
        f"UPDATE durable_message SET parked = true WHERE {owned} AND NOT {_OF_NO_USE}",
        list(of_owned),
    )
    if read:
        is_read, read_params = sql.among(connection, "id", sorted(read))
        removing, params = f"{removing} OR {is_read}", [*params, *read_params]
        keeping, of_keeping = f"{keeping} AND NOT {is_read}", [*of_keeping, *read_params]
    head = f"substr(payload, 1, CASE WHEN kind = 'signal' THEN {_NAME_HEAD} ELSE {_REASON_HEAD} END)"
    keeping = f"{keeping} RETURNING visible_at, id, workflow_id, kind, {head}"
    if sql.is_postgresql(connection):
        rows = sql.fetch(connection, f"WITH removed AS ({removing}) {keeping}", [*params, *of_keeping])
    else:
        sql.execute(connection, removing, params)
        rows = sql.fetch(connection, keeping, of_keeping)
    return [(sql.as_uuid(row[2]), row[3], row[4]) for row in sorted(rows, key=lambda row: row[:2])]


def keep_late(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> list[tuple[uuid.UUID, str]]:
    """Parks messages that came to these (locked) workflows after their end, from transactions that were open meanwhile,
    and removes those of children and of parents. Returns (workflow, kind) of those kept. Two statements; what was
    parked before is not looked at: starts and the others that are not parked have an index each.
    """
    if not workflow_ids:
        return []
    condition, params = sql.among(connection, "m.workflow_id", workflow_ids)
    due = " UNION ALL ".join(
        f"SELECT m.id FROM durable_message m WHERE NOT m.parked AND {which} AND {condition}" for which in (BEGUN, START)
    )
    sql.execute(
        connection,
        f"DELETE FROM durable_message WHERE kind IN ('child', 'terminate') AND id IN ({due})",
        [*params, *params],
    )
    rows = sql.fetch(
        connection,
        f"UPDATE durable_message SET parked = true WHERE id IN ({due}) RETURNING workflow_id, kind",
        [*params, *params],
    )
    return [(sql.as_uuid(row[0]), row[1]) for row in rows]
