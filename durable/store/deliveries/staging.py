"""Staging: activities that turns have scheduled become outbox rows, either pending or already
claimed by the process.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.payloads import wire
from durable.models.fields import moment_from_database
from durable.outcomes import Claim
from durable.store.connections import sql


@dataclass(frozen=True, slots=True)
class NewRow:
    """An activity to stage."""

    workflow_id: uuid.UUID
    run: int
    ordinal: int
    activity: str
    payload: str = field(repr=False)
    options: Mapping[str, Any]
    queue: str
    priority: int
    attempt_budget: int
    delivery_budget: int


_STAGED = sql.RowSet(
    [
        ("workflow_id", "uuid"),
        ("run", "int"),
        ("ordinal", "int"),
        ("activity", "text"),
        ("payload", "text"),
        ("options", "text"),
        ("queue", "text"),
        ("priority", "int"),
        ("attempt_budget", "int"),
        ("delivery_budget", "int"),
    ]
)
_INSERT = """
INSERT INTO durable_outboxrow (workflow_id, run, ordinal, activity, input, options, namespace, queue, status, paused,
    suspect, priority, visible_after, created_at, claimed_at, deliveries, delivery_failures, delivery_budget, attempts,
    attempt_budget, failure_delivered, cause, redrive_count)
SELECT workflow_id, run, ordinal, activity, payload, options, '', queue, '{status}', false, false, priority, {now},
    {now}, {claimed_at}, {deliveries}, 0, delivery_budget, 0, attempt_budget, false, '', 0
FROM {given}
"""
_ITEM_COLUMNS = (
    "outbox_row_id, workflow_id, lock_token, locked_until, worker, attempts, attempt_budget, delivery_failures, "
    "delivery_budget, single"
)


def stage(connection: BaseDatabaseWrapper, new: Sequence[NewRow]) -> None:
    """Insert pending rows, due now. One statement; their workflows are locked by the caller."""
    if new:
        now, params = clock.now_sql(connection)
        statement = _INSERT.format(
            status="pending", now=now, claimed_at="NULL", deliveries=0, given=_STAGED.source(connection)
        )
        sql.execute(connection, statement, [*params, *params, *_STAGED.params(connection, _rows(new))])


def stage_claimed(
    connection: BaseDatabaseWrapper, new: Sequence[NewRow], *, token: uuid.UUID, worker: str, lease_for: timedelta
) -> list[Claim]:
    """Insert rows that are deliveries of this worker from the beginning: counted, each with its work item. One
    statement on PostgreSQL, two on SQLite. Answers as `claims.make` does, in the order given.
    """
    if not new:
        return []
    insert = _claimed_postgresql if sql.is_postgresql(connection) else _claimed_sqlite
    rows = insert(connection, new, token, worker, lease_for)
    inserted = {(sql.as_uuid(owner), run, ordinal): (row_id, at) for row_id, owner, run, ordinal, at in rows}
    return [_claim(row, *inserted[row.workflow_id, row.run, row.ordinal], token, worker) for row in new]


def _claimed_postgresql(
    connection: BaseDatabaseWrapper, new: Sequence[NewRow], token: uuid.UUID, worker: str, lease_for: timedelta
) -> list[tuple[Any, ...]]:
    now, params = clock.now_sql(connection)
    until, until_params = clock.lease_sql(connection, lease_for)
    insert = _INSERT.format(status="claimed", now=now, claimed_at=now, deliveries=1, given=_STAGED.source(connection))
    return sql.fetch(
        connection,
        f"""
        WITH claimed AS ({insert} RETURNING *), items AS (
            INSERT INTO durable_workitem ({_ITEM_COLUMNS})
            SELECT id, workflow_id, %s, {until}, %s, 0, attempt_budget, 0, delivery_budget, false FROM claimed
        )
        SELECT id, workflow_id, run, ordinal, {sql.moment(connection, "created_at")} FROM claimed
        """,
        [*params, *params, *params, *_STAGED.params(connection, _rows(new)), token, *until_params, worker],
    )


def _claimed_sqlite(
    connection: BaseDatabaseWrapper, new: Sequence[NewRow], token: uuid.UUID, worker: str, lease_for: timedelta
) -> list[tuple[Any, ...]]:
    now, params = clock.now_sql(connection)
    until, until_params = clock.lease_sql(connection, lease_for)
    insert = _INSERT.format(status="claimed", now=now, claimed_at=now, deliveries=1, given=_STAGED.source(connection))
    rows = sql.fetch(
        connection,
        f"{insert} RETURNING id, workflow_id, run, ordinal, created_at",
        [*params, *params, *params, *_STAGED.params(connection, _rows(new))],
    )
    condition, ids = sql.among(connection, "id", [row[0] for row in rows])
    sql.execute(
        connection,
        f"INSERT INTO durable_workitem ({_ITEM_COLUMNS}) "
        f"SELECT id, workflow_id, %s, {until}, %s, 0, attempt_budget, 0, delivery_budget, false "
        f"FROM durable_outboxrow WHERE {condition}",
        [token.hex, *until_params, worker, *ids],
    )
    return rows


def _rows(new: Sequence[NewRow]) -> list[tuple[Any, ...]]:
    return [
        (
            n.workflow_id,
            n.run,
            n.ordinal,
            n.activity,
            n.payload,
            wire.dump(n.options),
            n.queue,
            n.priority,
            n.attempt_budget,
            n.delivery_budget,
        )
        for n in new
    ]


def _claim(row: NewRow, row_id: int, created_at: Any, token: uuid.UUID, worker: str) -> Claim:
    moment = moment_from_database(created_at)
    assert moment is not None
    return Claim(
        row_id=row_id,
        token=token,
        workflow_id=row.workflow_id,
        run=row.run,
        ordinal=row.ordinal,
        activity=row.activity,
        payload=row.payload,
        options=row.options,
        delivery=1,
        delivery_failures=0,
        delivery_budget=row.delivery_budget,
        attempts=0,
        attempt_budget=row.attempt_budget,
        last_heartbeat=None,
        created_at=moment,
        worker=worker,
    )
