"""Outbox rows: locking, and the transitions that end a delivery or a row.

Elsewhere: inserts (`staging.py`, for single activities `store/runs/starts.py`), the claim (`claims.py`), and what staff
do to dead letters (`store/operators/redrives.py`).

Each transition is one guarded statement over rows that the caller has locked, in id order, with `lock`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.models.fields import moment_from_database
from durable.outcomes import Cause, OutboxStatus
from durable.store.connections import sql
from durable.store.texts.failures import NO_KIND, Kind


@dataclass(frozen=True, slots=True)
class LockedRow:
    """An outbox row as read under its lock."""

    id: int
    workflow_id: uuid.UUID
    run: int
    ordinal: int
    activity: str
    status: OutboxStatus
    options: Mapping[str, Any]
    deliveries: int
    delivery_failures: int
    delivery_budget: int
    attempts: int
    claimed_at: datetime | None
    suspect: bool = False


# By hand, as in `store/runs/workflows.py`.
_COLUMNS = (
    "id, workflow_id, run, ordinal, activity, status, options, deliveries, delivery_failures, delivery_budget, "
    "attempts, suspect, {claimed_at}"
)


def _select(
    connection: BaseDatabaseWrapper, condition: str, params: sql.Params, *, strength: str = "NO KEY UPDATE"
) -> dict[int, LockedRow]:
    locking = sql.locking(connection, strength)
    columns = _COLUMNS.format(claimed_at=sql.moment(connection, "claimed_at"))
    rows = sql.fetch(
        connection, f"SELECT {columns} FROM durable_outboxrow WHERE {condition} ORDER BY id{locking}", params
    )
    return {row[0]: _locked(row) for row in rows}


def _locked(row: tuple[Any, ...]) -> LockedRow:
    row_id, owner, run, ordinal, activity, status, options, deliveries, failures, budget, attempts = row[:11]
    suspect, claimed_at = row[11:]
    return LockedRow(
        id=row_id,
        workflow_id=sql.as_uuid(owner),
        run=run,
        ordinal=ordinal,
        activity=activity,
        status=OutboxStatus(status),
        options=sql.loads(options),
        deliveries=deliveries,
        delivery_failures=failures,
        delivery_budget=budget,
        attempts=attempts,
        claimed_at=moment_from_database(claimed_at),
        suspect=bool(suspect),
    )


def lock(connection: BaseDatabaseWrapper, ids: Iterable[int]) -> dict[int, LockedRow]:
    """Locks rows in id order, waiting for each."""
    ids = list(ids)
    if not ids:
        return {}
    condition, params = sql.among(connection, "id", ids)
    return _select(connection, condition, params)


def lock_free(connection: BaseDatabaseWrapper, ids: Iterable[int]) -> dict[int, LockedRow]:
    """Locks, in id order, the rows that no other session has locked."""
    ids = list(ids)
    if not ids:
        return {}
    condition, params = sql.among(connection, "id", ids)
    return _select(connection, condition, params, strength="NO KEY UPDATE SKIP LOCKED")


def lock_free_ids(connection: BaseDatabaseWrapper, ids: Iterable[int]) -> set[int]:
    """The same for a verb that needs no look at them. On SQLite there is nothing to do."""
    ids = list(ids)
    if not ids or not sql.is_postgresql(connection):
        return set(ids)
    condition, params = sql.among(connection, "id", ids)
    statement = f"SELECT id FROM durable_outboxrow WHERE {condition} ORDER BY id FOR NO KEY UPDATE SKIP LOCKED"
    return {row[0] for row in sql.fetch(connection, statement, params)}


def lock_ids(connection: BaseDatabaseWrapper, ids: Iterable[int]) -> None:
    """Locks rows in id order, for a verb that needs no look at them. On SQLite there is nothing to do."""
    _lock_ids(connection, ids, "id")


def lock_ids_and_bound_waits(connection: BaseDatabaseWrapper, ids: Iterable[int]) -> None:
    """The same as the first statement of a transaction of ours, whose lock waits it bounds."""
    _lock_ids(connection, ids, sql.bounding(connection))


def _lock_ids(connection: BaseDatabaseWrapper, ids: Iterable[int], columns: str) -> None:
    ids = list(ids)
    if ids and sql.is_postgresql(connection):
        condition, params = sql.among(connection, "id", ids)
        statement = f"SELECT {columns} FROM durable_outboxrow WHERE {condition} ORDER BY id FOR NO KEY UPDATE"
        sql.fetch(connection, statement, params)


def lock_open_of(connection: BaseDatabaseWrapper, workflow_ids: Iterable[uuid.UUID]) -> dict[int, LockedRow]:
    """Locks, in id order, all rows of these (locked) workflows that are pending, claimed, or dead letters."""
    condition, params = sql.among(connection, "workflow_id", workflow_ids)
    return _select(connection, f"status IN ('pending', 'claimed', 'dead') AND {condition}", params)


def lock_free_open_of(connection: BaseDatabaseWrapper, workflow_ids: Iterable[uuid.UUID]) -> list[int]:
    """Locks, in id order, the same rows if no other session has locked them; returns their ids."""
    condition, params = sql.among(connection, "workflow_id", workflow_ids)
    rows = sql.fetch(
        connection,
        f"SELECT id FROM durable_outboxrow WHERE status IN ('pending', 'claimed', 'dead') AND {condition} "
        f"ORDER BY id{sql.locking(connection, 'NO KEY UPDATE SKIP LOCKED')}",
        params,
    )
    return [row[0] for row in rows]


_FINISHED = sql.RowSet([("id", "bigint"), ("status", "text"), ("counts", "int"), ("heartbeat", "text")])


def finish(connection: BaseDatabaseWrapper, endings: Sequence[tuple[int, OutboxStatus, int, str | None]]) -> None:
    """Closes claimed rows as done or cancelled: (id, status, attempts to count, last heartbeat). One statement."""
    if endings:
        sql.execute(connection, *finishing(connection, endings))


def finishing(
    connection: BaseDatabaseWrapper, endings: Sequence[tuple[int, OutboxStatus, int, str | None]]
) -> tuple[str, sql.Params]:
    """The statement of `finish`, and its parameters."""
    rows = [(row_id, status.value, counts, heartbeat) for row_id, status, counts, heartbeat in endings]
    statement = (
        "UPDATE durable_outboxrow AS r SET status = given.status, attempts = r.attempts + given.counts, "
        "last_heartbeat = coalesce(given.heartbeat, r.last_heartbeat), suspect = false "
        f"FROM {_FINISHED.source(connection)} WHERE r.id = given.id AND r.status = 'claimed'"
    )
    return statement, _FINISHED.params(connection, rows)


@dataclass(frozen=True, slots=True)
class Return:
    """A claimed row that goes back to pending, due after `delay`."""

    id: int
    delay: timedelta
    attempts: int = 0
    failures: int = 0
    deliveries: int = 0
    suspect: int = 0
    cause: str = ""
    heartbeat: str | None = field(default=None, repr=False)


_RETURNED = sql.RowSet(
    [
        ("id", "bigint"),
        ("delay", "bigint"),
        ("attempts", "int"),
        ("failures", "int"),
        ("deliveries", "int"),
        ("suspect", "int"),
        ("cause", "text"),
        ("heartbeat", "text"),
        ("due", "text"),
    ]
)
_MICROSECOND = timedelta(microseconds=1)


def give_back(connection: BaseDatabaseWrapper, returns: Sequence[Return]) -> None:
    """Returns claimed rows to pending, each with its own delay and counts. One statement."""
    if not returns:
        return
    if sql.is_postgresql(connection):
        now, params = clock.now_sql(connection)
        due = f"{now} + given.delay * interval '1 microsecond'"
        moments: list[str | None] = [None] * len(returns)
    else:
        due, params = "given.due", []
        moments = [sql.param(connection, clock.host_now() + r.delay) for r in returns]
    rows = [
        (r.id, r.delay // _MICROSECOND, r.attempts, r.failures, r.deliveries, r.suspect, r.cause, r.heartbeat, moment)
        for r, moment in zip(returns, moments, strict=True)
    ]
    sql.execute(
        connection,
        f"UPDATE durable_outboxrow AS r SET status = 'pending', claimed_at = NULL, visible_after = {due}, "
        "attempts = r.attempts + given.attempts, delivery_failures = r.delivery_failures + given.failures, "
        "deliveries = r.deliveries + given.deliveries, suspect = (given.suspect = 1), "
        "cause = given.cause, last_heartbeat = coalesce(given.heartbeat, r.last_heartbeat) "
        f"FROM {_RETURNED.source(connection)} WHERE r.id = given.id AND r.status = 'claimed'",
        [*params, *_RETURNED.params(connection, rows)],
    )


@dataclass(frozen=True, slots=True)
class Bury:
    """A row that becomes a dead letter. `delivered` says whether the workflow gets the failure in the
    same transaction.
    """

    id: int
    cause: Cause
    delivered: int
    failures: int = 0
    attempts: int = 0
    heartbeat: str | None = field(default=None, repr=False)
    kind: Kind = NO_KIND


_BURIED = sql.RowSet(
    [
        ("id", "bigint"),
        ("cause", "text"),
        ("delivered", "int"),
        ("failures", "int"),
        ("attempts", "int"),
        ("heartbeat", "text"),
        ("error_class", "text"),
        ("error_group", "text"),
    ]
)


def bury(connection: BaseDatabaseWrapper, buried: Sequence[Bury]) -> None:
    """Makes claimed rows dead letters, with cause, time and marker. One statement."""
    if buried:
        now, params = clock.now_sql(connection)
        rows = [
            (
                b.id,
                b.cause.value,
                b.delivered,
                b.failures,
                b.attempts,
                b.heartbeat,
                b.kind.error_class,
                b.kind.error_group,
            )
            for b in buried
        ]
        sql.execute(
            connection,
            f"UPDATE durable_outboxrow AS r SET status = 'dead', dead_lettered_at = {now}, cause = given.cause, "
            "failure_delivered = (r.failure_delivered OR given.delivered = 1), "
            "delivery_failures = r.delivery_failures + given.failures, "
            "attempts = r.attempts + given.attempts, suspect = false, "
            "error_class = given.error_class, error_group = given.error_group, "
            "last_heartbeat = coalesce(given.heartbeat, r.last_heartbeat) "
            f"FROM {_BURIED.source(connection)} WHERE r.id = given.id AND r.status = 'claimed'",
            [*params, *_BURIED.params(connection, rows)],
        )


def cancel(connection: BaseDatabaseWrapper, ids: Sequence[int]) -> None:
    """Closes (locked) rows that are pending, claimed or dead letters as cancelled. One statement."""
    if ids:
        condition, params = sql.among(connection, "id", sorted(ids))
        sql.execute(
            connection,
            "UPDATE durable_outboxrow SET status = 'cancelled', suspect = false "
            f"WHERE status IN ('pending', 'claimed', 'dead') AND {condition}",
            params,
        )


def name_worker(connection: BaseDatabaseWrapper, row_id: int, worker: str) -> None:
    """Says of a (locked) claimed row that it is `worker`'s."""
    sql.execute(
        connection, "UPDATE durable_outboxrow SET worker = %s WHERE id = %s AND status = 'claimed'", [worker, row_id]
    )


def pause(connection: BaseDatabaseWrapper, ids: Sequence[int]) -> None:
    """Marks (locked) rows, whatever their status, so that they are not claimed until `resume`."""
    if ids:
        condition, params = sql.among(connection, "id", sorted(ids))
        sql.execute(connection, f"UPDATE durable_outboxrow SET paused = true WHERE NOT paused AND {condition}", params)


def resume(connection: BaseDatabaseWrapper, ids: Sequence[int]) -> None:
    """Takes the mark from (locked) rows."""
    if ids:
        condition, params = sql.among(connection, "id", sorted(ids))
        sql.execute(connection, f"UPDATE durable_outboxrow SET paused = false WHERE paused AND {condition}", params)


def mark_judged(connection: BaseDatabaseWrapper, ids: Sequence[int]) -> None:
    """Says of (locked) dead letters that their workflow has ended the activity by itself. One statement."""
    if ids:
        condition, params = sql.among(connection, "id", sorted(ids))
        sql.execute(
            connection,
            f"UPDATE durable_outboxrow SET failure_delivered = true WHERE status = 'dead' AND {condition}",
            params,
        )


def of_ordinals(
    connection: BaseDatabaseWrapper, wanted: Mapping[uuid.UUID, tuple[int, Sequence[int]]]
) -> dict[int, LockedRow]:
    """Locks, in id order, the rows of some ordinals: workflow id to (run, ordinals)."""
    keys = sql.RowSet([("workflow_id", "uuid"), ("run", "int"), ("ordinal", "int")])
    values = [(owner, run, ordinal) for owner, (run, ordinals) in wanted.items() for ordinal in ordinals]
    fetched = sql.fetch(
        connection,
        f"SELECT r.id FROM durable_outboxrow r JOIN {keys.source(connection)} ON r.workflow_id = given.workflow_id "
        "AND r.run = given.run AND r.ordinal = given.ordinal",
        keys.params(connection, values),
    )
    return lock(connection, [row[0] for row in fetched])


def count_suspects_due(
    connection: BaseDatabaseWrapper, queues: tuple[str, ...] | None = None, but: tuple[str, ...] = ()
) -> int:
    """The number of due suspects in these queues (None: all except `but`), capped at 100."""
    now, params = clock.now_sql(connection)
    mine, mine_params = sql.of_queues(connection, "queue", queues, but)
    rows = sql.fetch(
        connection,
        "SELECT count(*) FROM (SELECT 1 FROM durable_outboxrow WHERE status = 'pending' AND NOT paused AND suspect "
        f"AND NOT waiting AND visible_after <= {now} AND {mine} LIMIT 100) AS due",
        [*params, *mine_params],
    )
    count: int = rows[0][0]
    return count
