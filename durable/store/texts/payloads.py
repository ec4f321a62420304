"""The places where payloads are stored, for re-encryption, which reads and replaces all of them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.store.connections import sql


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored text. `key` tells it from its neighbours in the place; `kind` is that of an event or a message, the
    name of a row's activity or the workflow's type.
    """

    key: int
    ordinal: int | None
    kind: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How a place is read and written. `given` stands for what is written; `key` is a whole number."""

    source: str
    key: str
    ordinal: str
    kind: str
    column: str
    table: str
    target: str


class Place(Enum):
    """Every column that holds payloads, in the order in which payloads move on: a result from its message into an
    event, a heartbeat from the delivery into the row. Processing them in this order misses none.
    """

    DELIVERY_HEARTBEAT = _Spelling(
        "durable_workitem t JOIN durable_outboxrow r ON r.id = t.outbox_row_id",
        "r.id", "r.ordinal", "r.activity", "heartbeat", "durable_workitem", "t.outbox_row_id = given.key",
    )  # fmt: skip
    ROW_HEARTBEAT = _Spelling(
        "durable_outboxrow t", "t.id", "t.ordinal", "t.activity", "last_heartbeat", "durable_outboxrow",
        "t.id = given.key",
    )  # fmt: skip
    ROW_INPUT = _Spelling(
        "durable_outboxrow t", "t.id", "t.ordinal", "t.activity", "input", "durable_outboxrow", "t.id = given.key"
    )
    MESSAGE = _Spelling(
        "durable_message t", "t.id", "t.ordinal", "t.kind", "payload", "durable_message", "t.id = given.key"
    )
    ATTEMPT = _Spelling(
        "durable_failedattempt t JOIN durable_outboxrow r ON r.id = t.outbox_row_id",
        "t.id", "r.ordinal", "r.activity", "error", "durable_failedattempt", "t.id = given.key",
    )  # fmt: skip
    EVENT = _Spelling("durable_event t", "t.seq", "t.ordinal", "t.type", "data", "durable_event", "t.seq = given.key")
    WORKFLOW_INPUT = _Spelling(
        "durable_workflow t", "1", "NULL", "t.type", "input", "durable_workflow", "given.key = 1"
    )
    WORKFLOW_RESULT = _Spelling(
        "durable_workflow t", "1", "NULL", "t.type", "result", "durable_workflow", "given.key = 1"
    )
    WORKFLOW_FAILURE = _Spelling(
        "durable_workflow t", "1", "NULL", "t.type", "failure", "durable_workflow", "given.key = 1"
    )
    WORKFLOW_BLOCK = _Spelling(
        "durable_workflow t", "1", "NULL", "t.type", "blocked_reason", "durable_workflow", "given.key = 1"
    )


_OF_WORKFLOWS = dict.fromkeys(
    (Place.WORKFLOW_INPUT, Place.WORKFLOW_RESULT, Place.WORKFLOW_FAILURE, Place.WORKFLOW_BLOCK), "t.id"
)
_OWNERS = {**_OF_WORKFLOWS, Place.DELIVERY_HEARTBEAT: "r.workflow_id", Place.ATTEMPT: "r.workflow_id"}
_OWN = {**_OF_WORKFLOWS, Place.ATTEMPT: "(SELECT r.workflow_id FROM durable_outboxrow r WHERE r.id = t.outbox_row_id)"}
_GIVEN = sql.RowSet([("key", "bigint"), ("old", "text"), ("new", "text")])


def workflows_after(connection: BaseDatabaseWrapper, after: uuid.UUID | None, *, limit: int) -> list[uuid.UUID]:
    """The ids of workflows, in order, after a given one. The order of ids is that of starts."""
    condition, params = ("", []) if after is None else ("WHERE id > %s ", [sql.param(connection, after)])
    rows = sql.fetch(connection, f"SELECT id FROM durable_workflow {condition}ORDER BY id LIMIT {int(limit)}", params)
    return [sql.as_uuid(row[0]) for row in rows]


def read(
    connection: BaseDatabaseWrapper, place: Place, workflow_id: uuid.UUID, *, after: int, limit: int, characters: int
) -> list[Stored]:
    """The next texts of a workflow in a place, by key: at most `limit`, and no more than `characters` of them, one at
    least. Two statements: the lengths first.
    """
    how = place.value
    column = f"t.{how.column}"
    where = f"FROM {how.source} WHERE {_OWNERS.get(place, 't.workflow_id')} = %s AND {how.key} > %s"
    where = f"{where} AND {column} IS NOT NULL"
    params = [sql.param(connection, workflow_id), after]
    lengths = sql.fetch(
        connection, f"SELECT {how.key} AS place, length({column}) {where} ORDER BY place LIMIT {int(limit)}", params
    )
    last, left = after, characters
    for key, length in lengths:
        left -= length
        if left < 0 and last != after:
            break
        last = key
    if last == after:
        return []
    rows = sql.fetch(
        connection,
        f"SELECT {how.key} AS place, {how.ordinal}, {how.kind}, {column} {where} AND {how.key} <= %s ORDER BY place",
        [*params, last],
    )
    return [Stored(*row) for row in rows]


def replace(
    connection: BaseDatabaseWrapper, place: Place, workflow_id: uuid.UUID, texts: Sequence[tuple[Stored, str]]
) -> int:
    """Replaces texts, if they have not changed. The workflow is locked by the caller. Returns how many were replaced.
    One statement, and three more for events, by which the history becomes longer or shorter.
    """
    if place is not Place.EVENT:
        return _replace(connection, place, workflow_id, texts)
    seqs = [stored.key for stored, _ in texts]
    before = _size_of_events(connection, workflow_id, seqs)
    replaced = _replace(connection, place, workflow_id, texts)
    sql.execute(
        connection,
        "UPDATE durable_workflow SET history_bytes = history_bytes + %s WHERE id = %s AND history_bytes > 0",
        [_size_of_events(connection, workflow_id, seqs) - before, sql.param(connection, workflow_id)],
    )
    return replaced


def _size_of_events(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, seqs: Sequence[int]) -> int:
    """The bytes of these events, of those of the current history: what `history_bytes` counts of them."""
    condition, params = sql.among(connection, "e.seq", seqs)
    rows = sql.fetch(
        connection,
        f"SELECT coalesce(sum({sql.size(connection, 'e.data')}), 0) FROM durable_workflow w "
        f"JOIN durable_event e ON e.workflow_id = w.id AND e.seq >= w.history_seq WHERE w.id = %s AND {condition}",
        [sql.param(connection, workflow_id), *params],
    )
    return int(rows[0][0])


def _replace(
    connection: BaseDatabaseWrapper, place: Place, workflow_id: uuid.UUID, texts: Sequence[tuple[Stored, str]]
) -> int:
    how = place.value
    own = f"AND {_OWN.get(place, 't.workflow_id')} = %s"
    return sql.execute(
        connection,
        f"UPDATE {how.table} AS t SET {how.column} = given.new FROM {_GIVEN.source(connection)} "
        f"WHERE {how.target} AND t.{how.column} = given.old {own}",
        [
            *_GIVEN.params(connection, [(stored.key, stored.text, new) for stored, new in texts]),
            sql.param(connection, workflow_id),
        ],
    )
