"""The claim: due pending rows become deliveries under a token."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.logs import get_logger, words
from durable.models.fields import moment_from_database
from durable.outcomes import Claim
from durable.store.connections import new_rows, sql
from durable.store.connections.new_rows import insert

logger = get_logger("durable.store")

_RETURNING = (
    "id, workflow_id, run, ordinal, activity, input, options, deliveries, delivery_failures, delivery_budget, "
    "attempts, attempt_budget, last_heartbeat, suspect, "
)


def anything_due(
    connection: BaseDatabaseWrapper, *, queues: tuple[str, ...] | None, suspects: bool, but: tuple[str, ...] = ()
) -> int:
    """Looks, without a lock, whether there is a row that `lock_due` could lock: 1 or 0."""
    statement, params = _due(connection, queues, but, suspects=suspects, limit=1, ending="")
    return len(sql.fetch(connection, statement, params))


MOST_QUEUES = 50
"""Of more queues a claim looks at all rows."""


def pending_queues(connection: BaseDatabaseWrapper, *, but: Collection[str]) -> tuple[str, ...] | None:
    """The queues that have pending rows, without those in `but`: each found by one step in the index, however much
    waits in the others. None if there are too many to be asked one by one.
    """
    pending = "durable_outboxrow WHERE status = 'pending' AND NOT paused AND NOT suspect AND NOT waiting"
    # An aggregate would read the whole index on PostgreSQL.
    following = f"SELECT queue FROM {pending} AND queue > q.name ORDER BY queue LIMIT 1"
    rows = sql.fetch(
        connection,
        f"WITH RECURSIVE q(name) AS (SELECT (SELECT queue FROM {pending} ORDER BY queue LIMIT 1) "
        f"UNION ALL SELECT ({following}) FROM q WHERE q.name IS NOT NULL) "
        f"SELECT name FROM q WHERE name IS NOT NULL LIMIT {MOST_QUEUES + len(but) + 1}",
    )
    queues = tuple(name for (name,) in rows if name not in but)
    return queues if len(queues) <= MOST_QUEUES else None


def lock_due(
    connection: BaseDatabaseWrapper,
    *,
    limit: int,
    queues: tuple[str, ...] | None,
    suspects: bool,
    but: tuple[str, ...] = (),
) -> list[int]:
    """Locks due pending rows that no other session has locked, in claim order: higher priority, then earlier due, then
    id. `but` are queues to leave out where `queues` names none.

    Suspects and the others are separate sets: a suspect is delivered alone. The limit is a literal in the statement,
    since a parameter would be planned again each time or, worse, generically. Bounds the transaction's lock waits.
    """
    ending = sql.locking(connection, "NO KEY UPDATE SKIP LOCKED")
    statement, params = _due(connection, queues, but, suspects=suspects, limit=limit, ending=ending)
    return [row[0] for row in sql.fetch(connection, statement, params)]


def _due(
    connection: BaseDatabaseWrapper,
    queues: tuple[str, ...] | None,
    but: tuple[str, ...],
    *,
    suspects: bool,
    limit: int,
    ending: str,
) -> tuple[str, list[Any]]:
    """The statement that finds due rows, in claim order.

    Each of several queues is searched separately, in the order of its own index, so that a queue without due rows costs
    next to nothing, whatever waits in the others. More rows may be locked than are returned; the commit releases them.
    """
    now, params = clock.now_sql(connection)
    order = "visible_after, id" if suspects else "priority DESC, visible_after, id"
    # The terms of the partial indexes, word for word: SQLite recognises nothing else.
    which = "suspect" if suspects else "NOT suspect"
    condition = f"visible_after <= {now} AND status = 'pending' AND NOT paused AND {which} AND NOT waiting"
    rest = f"FROM durable_outboxrow WHERE {condition}{{queued}} ORDER BY {order} LIMIT {int(limit)}{ending}"
    columns = f"id, {sql.bounding(connection)}"
    if queues is None:
        left_out, names = sql.except_for(connection, "queue", but)
        return f"SELECT {columns} {rest.format(queued=left_out)}", [*params, *names]
    if len(queues) == 1:
        return f"SELECT {columns} {rest.format(queued=' AND queue = %s')}", [*params, *queues]
    each = f"SELECT * FROM (SELECT id, priority, visible_after {rest.format(queued=' AND queue = %s')}) AS of_queue"
    arms = " UNION ALL ".join([each] * len(queues))
    statement = f"SELECT {columns} FROM ({arms}) AS due ORDER BY {order} LIMIT {int(limit)}"
    return statement, [value for queue in queues for value in (*params, queue)]


def make(
    connection: BaseDatabaseWrapper,
    row_ids: list[int],
    *,
    token: uuid.UUID,
    worker: str,
    lease_for: timedelta,
    to_send: bool = False,
) -> list[Claim]:
    """Turns (locked) due rows into deliveries: counted, and each with its work item. One statement on PostgreSQL, two
    on SQLite. The item of a delivery that is to be sent names its queue, and has not begun.

    The token is new for this call; together with the row it identifies exactly one delivery.
    """
    make_rows = _make_postgresql if sql.is_postgresql(connection) else _make_sqlite
    rows = make_rows(connection, row_ids, token=token, worker=worker, lease_for=lease_for, to_send=to_send)
    claims = {claim.row_id: claim for claim in _readable(rows, token, worker)}
    return [claims[row_id] for row_id in row_ids if row_id in claims]


def _make_postgresql(
    connection: BaseDatabaseWrapper,
    row_ids: list[int],
    *,
    token: uuid.UUID,
    worker: str,
    lease_for: timedelta,
    to_send: bool,
) -> list[tuple[Any, ...]]:
    now, now_params = clock.now_sql(connection)
    until, until_params = clock.lease_sql(connection, lease_for)
    item = new_rows.work_item(row="t", single="w.single", locked_until=until, to_send=to_send)
    return sql.fetch(
        connection,
        f"""
        WITH claimed AS (
            UPDATE durable_outboxrow
            SET status = 'claimed', claimed_at = {now}, worker = %s, deliveries = deliveries + 1
            WHERE id = ANY(%s) AND status = 'pending' AND NOT paused
            RETURNING *
        ), items AS (
            {insert("workitem", item, "claimed t JOIN durable_workflow w ON w.id = t.workflow_id")}
            RETURNING outbox_row_id, single
        )
        SELECT {_RETURNING} {sql.moment(connection, "created_at")}, single
        FROM claimed JOIN items ON outbox_row_id = id
        """,
        [*now_params, worker, row_ids, token, *until_params, worker],
    )


def _make_sqlite(
    connection: BaseDatabaseWrapper,
    row_ids: list[int],
    *,
    token: uuid.UUID,
    worker: str,
    lease_for: timedelta,
    to_send: bool,
) -> list[tuple[Any, ...]]:
    now, now_params = clock.now_sql(connection)
    until, until_params = clock.lease_sql(connection, lease_for)
    condition, ids = sql.among(connection, "id", row_ids)
    rows = sql.fetch(
        connection,
        f"UPDATE durable_outboxrow SET status = 'claimed', claimed_at = {now}, worker = %s, "
        f"deliveries = deliveries + 1 WHERE {condition} AND status = 'pending' AND NOT paused "
        f"RETURNING {_RETURNING} created_at",
        [*now_params, worker, *ids],
    )
    condition, ids = sql.among(connection, "r.id", [row[0] for row in rows])
    item = new_rows.work_item(row="r", single="w.single", locked_until=until, to_send=to_send)
    source = f"durable_outboxrow r JOIN durable_workflow w ON w.id = r.workflow_id WHERE {condition}"
    # Not asked for in the RETURNING above: SQLite would read the whole table of workflows there, for each row.
    singles = sql.fetch(
        connection,
        f"{insert('workitem', item, source)} RETURNING outbox_row_id, single",
        [token.hex, *until_params, worker, *ids],
    )
    single = dict(singles)
    return [(*row, single[row[0]]) for row in rows if row[0] in single]


def made_under(connection: BaseDatabaseWrapper, token: uuid.UUID, worker: str) -> list[Claim]:
    """The deliveries that an earlier try with unknown commit has made under this token."""
    rows = sql.fetch(
        connection,
        f"SELECT {', '.join('r.' + name for name in _RETURNING.rstrip(', ').split(', '))}, "
        f"{sql.moment(connection, 'r.created_at')}, i.single "
        "FROM durable_workitem i JOIN durable_outboxrow r ON r.id = i.outbox_row_id "
        "WHERE i.lock_token = %s ORDER BY r.id",
        [sql.param(connection, token)],
    )
    return _readable(rows, token, worker)


def _readable(rows: list[tuple[Any, ...]], token: uuid.UUID, worker: str) -> list[Claim]:
    """The deliveries of readable rows. An unreadable row is never run, and must not stop the others: its lease expires,
    and reconciling deals with it.
    """
    claims = []
    for row in rows:
        try:
            claims.append(_claim(row, token, worker))
        except ValueError as error:
            logger.error("claim.row_unreadable", row=row[0], workflow=str(row[1]), activity=row[4], error=words(error))
    return claims


def _claim(row: tuple[Any, ...], token: uuid.UUID, worker: str) -> Claim:
    created_at = moment_from_database(row[14])
    assert created_at is not None
    return Claim(
        row_id=row[0],
        token=token,
        workflow_id=sql.as_uuid(row[1]),
        run=row[2],
        ordinal=row[3],
        activity=row[4],
        payload=row[5],
        options={} if row[6] == "{}" else json.loads(row[6]),
        delivery=row[7],
        delivery_failures=row[8],
        delivery_budget=row[9],
        attempts=row[10],
        attempt_budget=row[11],
        last_heartbeat=row[12],
        suspect=bool(row[13]),
        created_at=created_at,
        worker=worker,
        single=bool(row[15]),
    )
