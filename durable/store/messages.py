"""What waits for workflows' next turns."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.events import MessageKind
from durable.models.fields import moment_from_database
from durable.store import sql


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to insert, due at once."""

    workflow_id: uuid.UUID
    lease: int
    kind: MessageKind
    payload: str
    ordinal: int | None = None


@dataclass(frozen=True, slots=True)
class DueMessage:
    """A message as a turn reads it."""

    id: int
    workflow_id: uuid.UUID
    lease: int
    kind: MessageKind
    ordinal: int | None
    payload: str
    due: datetime
    created_at: datetime


BEGUN = "NOT (m.kind = 'start')"
START = "m.kind = 'start'"
"""Which messages, of `durable_message m`. On SQLite an index serves only what is spelled like its condition."""

_GIVEN = sql.RowSet(
    [("workflow_id", "uuid"), ("lease", "int"), ("kind", "text"), ("ordinal", "int"), ("payload", "text")]
)


def insert(connection: BaseDatabaseWrapper, new: Sequence[NewMessage]) -> None:
    """Insert messages that are due now. One statement."""
    if not new:
        return
    now, now_params = clock.now_sql(connection)
    rows = [(m.workflow_id, m.lease, m.kind.value, m.ordinal, m.payload) for m in new]
    sql.execute(
        connection,
        "INSERT INTO durable_message (workflow_id, lease, kind, ordinal, payload, visible_at, created_at, parked) "
        f"SELECT workflow_id, lease, kind, ordinal, payload, {now}, {now}, false FROM {_GIVEN.source(connection)}",
        [*now_params, *now_params, *_GIVEN.params(connection, rows)],
    )


def insert_for_live(
    connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, kind: MessageKind, payload: str, *, dedup: str | None
) -> int:
    """Insert a message if the workflow is live and has code that will read it, which a single activity has not.
    Answers how many went in.

    One statement: the look at the status and the insert can not be pulled apart. It is never parked here, also not for
    a paused workflow: that is for the turn, which holds the workflow's lock. Parked by a caller whose transaction goes
    on, it would come to light behind a resume that did not see it, and wait for ever. A message with a `dedup` that the
    workflow has already received is not inserted again.
    """
    now, now_params = clock.now_sql(connection)
    text = "::text" if sql.is_postgresql(connection) else ""
    return sql.execute(
        connection,
        "INSERT INTO durable_message (workflow_id, lease, kind, payload, visible_at, created_at, parked, dedup) "
        f"SELECT id, lease, %s{text}, %s{text}, {now}, {now}, false, %s{text} "
        "FROM durable_workflow WHERE id = %s AND status IN ('running', 'paused') AND NOT single "
        "ON CONFLICT DO NOTHING",
        [kind.value, payload, *now_params, *now_params, dedup, sql.param(connection, workflow_id)],
    )


def due_of(
    connection: BaseDatabaseWrapper, workflow_ids: Iterable[uuid.UUID]
) -> tuple[dict[uuid.UUID, list[DueMessage]], dict[uuid.UUID, str]]:
    """The due messages of locked, live workflows, each list ordered by (due, id), and a start message even before it is
    due: it says that the workflow has not begun. Parked ones are included: the caller asks for workflows that it is
    about to turn. One statement, to be run after the one that took the locks.

    Workflows with a message that can not be read (edited by hand, or written by a newer version of the engine) come in
    the second answer, with the reason: it must not keep the others from their turns.
    """
    found: dict[uuid.UUID, list[DueMessage]] = {}
    unreadable: dict[uuid.UUID, str] = {}
    workflow_ids = list(workflow_ids)
    if not workflow_ids:
        return found, unreadable
    now, params = clock.now_sql(connection)
    condition, more = sql.among(connection, "workflow_id", workflow_ids)
    rows = sql.fetch(
        connection,
        "SELECT id, workflow_id, lease, kind, ordinal, payload, "
        f"{sql.moment(connection, 'visible_at')}, {sql.moment(connection, 'created_at')} "
        f"FROM durable_message WHERE (visible_at <= {now} OR kind = 'start') AND {condition} "
        "ORDER BY workflow_id, visible_at, id",
        [*params, *more],
    )
    for row in rows:
        owner = sql.as_uuid(row[1])
        try:
            found.setdefault(owner, []).append(_due_message(owner, row))
        except ValueError as error:
            unreadable.setdefault(owner, f"message {row[0]} can not be read: {error}")
    return found, unreadable


def _due_message(owner: uuid.UUID, row: tuple[Any, ...]) -> DueMessage:
    return DueMessage(
        id=row[0],
        workflow_id=owner,
        lease=row[2],
        kind=MessageKind(row[3]),
        ordinal=row[4],
        payload=row[5],
        due=_moment(row[6]),
        created_at=_moment(row[7]),
    )


def delete(connection: BaseDatabaseWrapper, ids: Sequence[int]) -> None:
    """Remove exactly these messages: the ones a turn has consumed. Their workflows are locked by the caller."""
    if ids:
        condition, params = sql.among(connection, "id", sorted(ids))
        sql.execute(connection, f"DELETE FROM durable_message WHERE {condition}", params)


def park(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> None:
    """Take every message of these (locked) workflows out of the due ones, until `unpark`."""
    if workflow_ids:
        condition, params = sql.among(connection, "workflow_id", workflow_ids)
        sql.execute(connection, f"UPDATE durable_message SET parked = true WHERE NOT parked AND {condition}", params)


def unpark(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> None:
    """Give the parked messages of these (locked) workflows back."""
    if workflow_ids:
        condition, params = sql.among(connection, "workflow_id", workflow_ids)
        sql.execute(connection, f"UPDATE durable_message SET parked = false WHERE parked AND {condition}", params)


_PUT_OFF = sql.RowSet([("id", "bigint"), ("until", "timestamptz")])


def put_off(connection: BaseDatabaseWrapper, later: Mapping[int, datetime]) -> None:
    """Make messages of (locked) workflows due later, each at its own moment. One statement."""
    if later:
        sql.execute(
            connection,
            f"UPDATE durable_message AS m SET visible_at = given.until FROM {_PUT_OFF.source(connection)} "
            "WHERE m.id = given.id",
            _PUT_OFF.params(connection, list(later.items())),
        )


_OF_THE_RUN = "kind IN ('start', 'completed', 'failed')"
"""Nobody's news once the workflow has ended. The others were accepted from somebody outside."""


def take(
    connection: BaseDatabaseWrapper, *, read: Sequence[int], closing: Sequence[uuid.UUID]
) -> list[tuple[uuid.UUID, str, str]]:
    """Remove the messages that were read. Of closing (locked) workflows, park for good what callers have said and
    nobody has read, and remove the rest; returns (workflow, kind, payload) of what is kept, in reading order.

    One statement on PostgreSQL, at most two on SQLite.
    """
    if not closing:
        delete(connection, read)
        return []
    owned, of_owned = sql.among(connection, "workflow_id", closing)
    removing, params = f"DELETE FROM durable_message WHERE ({owned} AND {_OF_THE_RUN})", list(of_owned)
    keeping, of_keeping = (
        f"UPDATE durable_message SET parked = true WHERE {owned} AND NOT {_OF_THE_RUN}",
        list(of_owned),
    )
    if read:
        taken, of_taken = sql.among(connection, "id", sorted(read))
        removing, params = f"{removing} OR {taken}", [*params, *of_taken]
        keeping, of_keeping = f"{keeping} AND NOT {taken}", [*of_keeping, *of_taken]
    keeping = f"{keeping} RETURNING visible_at, id, workflow_id, kind, payload"
    if sql.is_postgresql(connection):
        rows = sql.fetch(connection, f"WITH removed AS ({removing}) {keeping}", [*params, *of_keeping])
    else:
        sql.execute(connection, removing, params)
        rows = sql.fetch(connection, keeping, of_keeping)
    return [(sql.as_uuid(row[2]), row[3], row[4]) for row in sorted(rows, key=lambda row: row[:2])]


def keep_late(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> list[tuple[uuid.UUID, str]]:
    """Park what came to these (locked) workflows after they had ended: sent in a transaction that was open meanwhile.
    Returns (workflow, kind) of each. One statement; what was parked before is not looked at: starts and the others that
    are not parked have an index each.
    """
    if not workflow_ids:
        return []
    condition, params = sql.among(connection, "m.workflow_id", workflow_ids)
    due = " UNION ALL ".join(
        f"SELECT m.id FROM durable_message m WHERE NOT m.parked AND {which} AND {condition}" for which in (BEGUN, START)
    )
    rows = sql.fetch(
        connection,
        f"UPDATE durable_message SET parked = true WHERE id IN ({due}) RETURNING workflow_id, kind",
        [*params, *params],
    )
    return [(sql.as_uuid(row[0]), row[1]) for row in rows]


def _moment(value: Any) -> datetime:
    moment = moment_from_database(value)
    assert moment is not None
    return moment
