"""Redrives dead letters, and closes them. Status and marker are conditions of the writes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q, TextField
from django.db.models.functions import Cast

from durable import clock
from durable.models import OutboxRow
from durable.models.outbox import OutboxQuerySet
from durable.outcomes import DeadLetterFilter, OutboxStatus, RowSnapshot, WorkflowStatus
from durable.store.connections import sql

Within: TypeAlias = OutboxQuerySet
"""The rows among which dead letters are looked for."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The row that a guarded statement has moved, and whether it was judged."""

    row_id: int
    was_delivered: bool


@dataclass(frozen=True, slots=True)
class Letter:
    """What the gates look at of an activity's row."""

    row_id: int
    status: OutboxStatus
    was_delivered: bool
    activity: str
    options: str
    """As text: an unreadable value must affect only its row, not the whole bulk."""
    attempts: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What the gates look at: of a workflow, its current run, and the row of an activity in that.

    `status` is None where there is no such workflow, `meant_run` where the current run is meant, whichever it is, and
    `letter` where there is no row. `outcomes` counts what the run records of the activity's end.
    """

    workflow_id: uuid.UUID
    ordinal: int
    meant_run: int | None
    status: WorkflowStatus | None
    run: int | None
    outcomes: int = 0
    letter: Letter | None = None


LARGEST_ORDINAL = 2**31 - 1
"""Ordinals count from 1 to here: any other number is one that no row has."""

_LETTER = ("id", "status", "failure_delivered", "activity", "options_text", "attempts")


def _letter(columns: Sequence[Any]) -> Letter:
    row_id, status, was_delivered, activity, options, attempts = columns
    return Letter(row_id, OutboxStatus(status), bool(was_delivered), activity, options, attempts)


def lock_row(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, *, run: int, ordinal: int) -> Letter | None:
    """Locks the row of an activity in a run of its (locked) workflow. None: there is no such row."""
    columns = (
        OutboxRow.objects.using(connection.alias)
        .select_for_update(no_key=True)
        .filter(workflow_id=workflow_id, run=run, ordinal=ordinal)
        .annotate(options_text=Cast("options", TextField()))
        .values_list(*_LETTER)
        .first()
    )
    return None if columns is None else _letter(columns)


def revive(
    connection: BaseDatabaseWrapper,
    workflow_id: uuid.UUID,
    *,
    run: int,
    ordinal: int,
    judged_too: int,
    paused: int,
    deliveries: int,
    attempts: int | None,
    delay: timedelta,
) -> Moved | None:
    """A dead letter goes back to pending: due after `delay`, claim cleared, both budgets extended; attempts and errors
    so far stay, and the numbering goes on. `judged_too` is 1 if the marker is overridden, else 0.

    One statement, whose conditions are the row gate. None: it moved nothing.
    """
    due, params = clock.now_sql(connection, delay)
    rows = sql.fetch(
        connection,
        f"UPDATE durable_outboxrow SET status = 'pending', visible_after = {due}, claimed_at = NULL, suspect = false, "
        "paused = (%s = 1), delivery_budget = delivery_budget + %s, attempt_budget = attempt_budget + %s, "
        "redrive_count = redrive_count + 1 "
        "WHERE workflow_id = %s AND run = %s AND ordinal = %s AND status = 'dead' "
        "AND (NOT failure_delivered OR %s = 1) RETURNING id, failure_delivered",
        [
            *params,
            paused,
            deliveries,
            attempts,
            sql.param(connection, workflow_id),
            run,
            ordinal,
            judged_too,
        ],
    )
    return Moved(rows[0][0], bool(rows[0][1])) if rows else None


def discard(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, *, run: int, ordinal: int) -> Moved | None:
    """A dead letter is closed as cancelled, for good. One statement. None: it moved nothing."""
    now, params = clock.now_sql(connection)
    rows = sql.fetch(
        connection,
        f"UPDATE durable_outboxrow SET status = 'cancelled', discarded_at = {now} "
        "WHERE workflow_id = %s AND run = %s AND ordinal = %s AND status = 'dead' RETURNING id, failure_delivered",
        [*params, sql.param(connection, workflow_id), run, ordinal],
    )
    return Moved(rows[0][0], bool(rows[0][1])) if rows else None


_OF_A_SNAPSHOT = tuple(field.name for field in fields(RowSnapshot))
"""No payloads, and no stored JSON: one row whose JSON is unreadable must not hide the others."""


def _snapshot(columns: Mapping[str, Any]) -> RowSnapshot:
    return RowSnapshot(**{**columns, "status": OutboxStatus(columns["status"])})


def row(connection: BaseDatabaseWrapper, row_id: int) -> RowSnapshot:
    """A row as operators get it."""
    return _snapshot(OutboxRow.objects.using(connection.alias).values(*_OF_A_SNAPSHOT).get(id=row_id))


_MEANT = sql.RowSet([("place", "int"), ("workflow_id", "uuid"), ("ordinal", "int"), ("run", "int")])

# One pass over the histories of a page: looked up row by row, a fan-out of 10,000 would read its history as often.
_RECORDED = """
LEFT JOIN (
    SELECT e.workflow_id, e.ordinal, count(*) AS outcomes
    FROM durable_event e JOIN durable_workflow ew ON ew.id = e.workflow_id
    WHERE {owners} AND e.seq >= ew.run_seq
    AND e.type IN ('activity_completed', 'activity_failed', 'activity_cancelled')
    GROUP BY e.workflow_id, e.ordinal
) AS recorded ON recorded.workflow_id = w.id AND recorded.ordinal = given.ordinal
"""


def facts(
    connection: BaseDatabaseWrapper, keys: Sequence[tuple[uuid.UUID, int, int | None]], *, outcomes: bool
) -> list[Facts]:
    """What the gates look at of each (workflow, ordinal, run; None: the current one), in order. `outcomes`: with those
    that histories record, which a forced redrive does not ask for. Writes and locks nothing. One statement.
    """
    params: sql.Params = []
    join, recorded = "", "0"
    if outcomes:
        owners, params = sql.among(connection, "e.workflow_id", {key[0] for key in keys})
        join, recorded = _RECORDED.format(owners=owners), "coalesce(recorded.outcomes, 0)"
    values = [
        (at, owner, ordinal if 0 < ordinal <= LARGEST_ORDINAL else 0, run)
        for at, (owner, ordinal, run) in enumerate(keys)
    ]
    rows = sql.fetch(
        connection,
        f"SELECT w.status, w.run, {recorded}, r.id, r.status, r.failure_delivered, r.activity, r.options, r.attempts "
        f"FROM {_MEANT.source(connection)} LEFT JOIN durable_workflow w ON w.id = given.workflow_id "
        "LEFT JOIN durable_outboxrow r ON r.workflow_id = w.id AND r.run = w.run AND r.ordinal = given.ordinal "
        f"{join} ORDER BY given.place",
        [*_MEANT.params(connection, values), *params],
    )
    return [
        Facts(
            workflow_id=owner,
            ordinal=ordinal,
            meant_run=run,
            status=None if row[0] is None else WorkflowStatus(row[0]),
            run=row[1],
            outcomes=row[2],
            letter=None if row[3] is None else _letter(row[3:]),
        )
        for (owner, ordinal, run), row in zip(keys, rows, strict=True)
    ]


def dead_letters(
    connection: BaseDatabaseWrapper,
    wanted: DeadLetterFilter,
    *,
    after: tuple[datetime, int] | None = None,
    limit: int,
    within: Within | None = None,
) -> list[RowSnapshot]:
    """One page of the dead letters that match, oldest first, after a (dead-lettered at, id)."""
    rows = matching(connection, wanted, within)
    if after is not None:
        at, row_id = after
        rows = rows.filter(Q(dead_lettered_at__gt=at) | Q(dead_lettered_at=at, id__gt=row_id))
    return [_snapshot(columns) for columns in rows.order_by("dead_lettered_at", "id").values(*_OF_A_SNAPSHOT)[:limit]]


def matching(connection: BaseDatabaseWrapper, wanted: DeadLetterFilter, within: Within | None = None) -> OutboxQuerySet:
    """The dead letters that match a filter, among the rows `within`, if not among all."""
    rows = OutboxRow.objects.all() if within is None else within
    return rows.using(connection.alias).matching(wanted)


def places(
    connection: BaseDatabaseWrapper,
    wanted: DeadLetterFilter,
    *,
    limit: int | None,
    within: Within | None = None,
) -> list[tuple[uuid.UUID, int, int]]:
    """The places of at most `limit` of the dead letters that match, oldest first: (workflow, ordinal, run)."""
    rows = (
        matching(connection, wanted, within)
        .order_by("dead_lettered_at", "id")
        .values_list("workflow_id", "ordinal", "run")
    )
    return list(rows[:limit])
