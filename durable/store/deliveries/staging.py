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
from durable.store.connections import new_rows, sql
from durable.store.connections.new_rows import column, insert


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
    attempt_budget: int | None
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
_INSERT = insert(
    "outboxrow",
    new_rows.outbox_row(
        column,
        workflow_id="workflow_id",
        run="run",
        ordinal="ordinal",
        activity="activity",
        visible_after="{now}",
        created_at="{now}",
        status="'{status}'",
        claimed_at="{claimed_at}",
        deliveries="{deliveries}",
        worker="{worker}",
    ),
    "{given}",
)


def stage(connection: BaseDatabaseWrapper, new: Sequence[NewRow]) -> None:
    """Inserts pending rows, due now. One statement; their workflows are locked by the caller."""
    if new:
        now, params = clock.now_sql(connection)
        statement = _INSERT.format(
            status="pending", now=now, claimed_at="NULL", deliveries=0, worker="''", given=_STAGED.source(connection)
        )
        sql.execute(connection, statement, [*params, *params, *_STAGED.params(connection, _rows(new))])


def stage_claimed(
    connection: BaseDatabaseWrapper, new: Sequence[NewRow], *, token: uuid.UUID, worker: str, lease_for: timedelta
) -> list[Claim]:
    """Inserts rows that are deliveries of this worker from the beginning: counted, each with its work item. One
    statement on PostgreSQL, two on SQLite. Answers as `claims.make` does, in the order given.
    """
    if not new:
        return []
    stage_rows = _claimed_postgresql if sql.is_postgresql(connection) else _claimed_sqlite
    rows = stage_rows(connection, new, token, worker, lease_for)
    inserted = {(sql.as_uuid(owner), run, ordinal): (row_id, at) for row_id, owner, run, ordinal, at in rows}
    return [_claim(row, *inserted[row.workflow_id, row.run, row.ordinal], token, worker) for row in new]


def _claimed_postgresql(
    connection: BaseDatabaseWrapper, new: Sequence[NewRow], token: uuid.UUID, worker: str, lease_for: timedelta
) -> list[tuple[Any, ...]]:
    now, params = clock.now_sql(connection)
    until, until_params = clock.lease_sql(connection, lease_for)
    claimed = _INSERT.format(
        status="claimed", now=now, claimed_at=now, deliveries=1, worker="%s", given=_STAGED.source(connection)
    )
    item = new_rows.work_item(row="claimed", single="false", locked_until=until)
    return sql.fetch(
        connection,
        f"""
        WITH claimed AS ({claimed} RETURNING *), items AS ({insert("workitem", item, "claimed")})
        SELECT id, workflow_id, run, ordinal, {sql.moment(connection, "created_at")} FROM claimed
        """,
        [*params, *params, *params, worker, *_STAGED.params(connection, _rows(new)), token, *until_params, worker],
    )


def _claimed_sqlite(
    connection: BaseDatabaseWrapper, new: Sequence[NewRow], token: uuid.UUID, worker: str, lease_for: timedelta
) -> list[tuple[Any, ...]]:
    now, params = clock.now_sql(connection)
    until, until_params = clock.lease_sql(connection, lease_for)
    claimed = _INSERT.format(
        status="claimed", now=now, claimed_at=now, deliveries=1, worker="%s", given=_STAGED.source(connection)
    )
    rows = sql.fetch(
        connection,
        f"{claimed} RETURNING id, workflow_id, run, ordinal, created_at",
        [*params, *params, *params, worker, *_STAGED.params(connection, _rows(new))],
    )
    condition, ids = sql.among(connection, "r.id", [row[0] for row in rows])
    item = new_rows.work_item(row="r", single="false", locked_until=until)
    sql.execute(
        connection,
        insert("workitem", item, f"durable_outboxrow r WHERE {condition}"),
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
