"""What people and callers read: snapshots, lists, pending work, the state of the queues. Writes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Max

from durable import clock
from durable.models import FailedAttempt, OutboxRow, Worker, Workflow
from durable.models.fields import moment_from_database
from durable.outcomes import Failure, OutboxStatus, Snapshot, WorkflowStatus
from durable.store.connections import sql
from durable.store.runs.messages import BEGUN, START
from durable.store.texts import failures

_MANY = 1_000
"""Ids in one statement; SQLite's parameters have a limit."""
_SNAPSHOT = (
    "id",
    "type",
    "key",
    "status",
    "single",
    "result",
    "failure",
    "queue",
    "blocked_reason",
    "created_at",
    "closed_at",
    "last_seq",
)


def snapshot(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID) -> Snapshot | None:
    """One workflow as callers see it."""
    row = Workflow.objects.using(connection.alias).filter(id=workflow_id).values(*_SNAPSHOT).first()
    return None if row is None else _snapshot(connection, row)


def snapshots(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Snapshot]:
    """Many workflows as callers see them, by id."""
    by_id: dict[uuid.UUID, Snapshot] = {}
    for start in range(0, len(workflow_ids), _MANY):
        rows = Workflow.objects.using(connection.alias).filter(id__in=workflow_ids[start : start + _MANY])
        by_id |= {row["id"]: _snapshot(connection, row) for row in rows.values(*_SNAPSHOT)}
    return by_id


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a workflow has ended, and the sizes of its result and failure, which are not read."""

    has_ended: bool
    size: int


def standings(connection: BaseDatabaseWrapper, workflow_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Standing]:
    """The state of workflows, by id. One statement per thousand, which reads no payload."""
    size = f"coalesce({sql.size(connection, 'result')}, 0) + coalesce({sql.size(connection, 'failure')}, 0)"
    by_id: dict[uuid.UUID, Standing] = {}
    for start in range(0, len(workflow_ids), _MANY):
        condition, params = sql.among(connection, "id", workflow_ids[start : start + _MANY])
        rows = sql.fetch(
            connection,
            f"SELECT id, closed_at IS NOT NULL, CASE WHEN closed_at IS NULL THEN 0 ELSE {size} END "
            f"FROM durable_workflow WHERE {condition}",
            params,
        )
        by_id |= {sql.as_uuid(owner): Standing(bool(ended), size_) for owner, ended, size_ in rows}
    return by_id


def snapshot_by_key(connection: BaseDatabaseWrapper, workflow_type: str, key: str) -> Snapshot | None:
    """The live workflow of a type with this business key, else its latest."""
    rows = Workflow.objects.using(connection.alias).filter(type=workflow_type, key=key).order_by("-id")
    row = rows.live().values(*_SNAPSHOT).first() or rows.values(*_SNAPSHOT).first()
    return None if row is None else _snapshot(connection, row)


def listing(
    connection: BaseDatabaseWrapper,
    *,
    status: str | None,
    workflow_type: str | None,
    key: str | None,
    only_blocked: str | None,
    limit: int,
) -> list[Snapshot]:
    """The latest workflows that match, newest first. `only_blocked` is any text, or None for all."""
    rows = Workflow.objects.using(connection.alias).order_by("-id")
    if status is not None:
        rows = rows.filter(status=status)
    if workflow_type is not None:
        rows = rows.filter(type=workflow_type)
    if key is not None:
        rows = rows.filter(key=key)
    if only_blocked is not None:
        rows = rows.blocked()
    fields = [name for name in _SNAPSHOT if name not in ("result", "failure")]
    return [_snapshot(connection, row) for row in rows.values(*fields)[:limit]]


def closing_reason(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, last_seq: int) -> str:
    """The reason in the last event of a workflow that has ended; empty if nobody gave one."""
    rows = sql.fetch(
        connection,
        "SELECT data FROM durable_event WHERE workflow_id = %s AND seq = %s",
        [sql.param(connection, workflow_id), last_seq],
    )
    return str(sql.loads(rows[0][0]).get("reason") or "") if rows else ""


def _snapshot(connection: BaseDatabaseWrapper, row: dict[str, Any]) -> Snapshot:
    status = WorkflowStatus(row["status"])
    reason = closing_reason(connection, row["id"], row["last_seq"]) if status is WorkflowStatus.CANCELLED else ""
    failure = row.get("failure")
    return Snapshot(
        id=row["id"],
        type=row["type"],
        key=row["key"],
        status=status,
        single=row["single"],
        result=row.get("result"),
        failure=None if failure is None else failures.read(failure, row["id"], 1 if row["single"] else None),
        reason=reason,
        queue=row["queue"],
        blocked_reason=failures.read_reason(row["blocked_reason"], row["id"]),
        created_at=row["created_at"],
        closed_at=row["closed_at"],
    )


@dataclass(frozen=True, slots=True)
class PendingRow:
    """Open work of a workflow."""

    row_id: int
    ordinal: int
    activity: str
    status: OutboxStatus
    attempts: int
    attempt_budget: int | None
    deliveries: int
    delivery_failures: int
    due: datetime
    cause: str
    worker: str
    cancel_asked: bool
    last_error: Failure | None


def pending(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, *, limit: int) -> list[PendingRow]:
    """A workflow's rows that are pending, out, or dead letters, by ordinal, each with its last error. Two
    statements.
    """
    rows = list(
        OutboxRow.objects.using(connection.alias)
        .filter(
            workflow_id=workflow_id,
            status__in=[OutboxStatus.PENDING.value, OutboxStatus.CLAIMED.value, OutboxStatus.DEAD.value],
        )
        .order_by("run", "ordinal")
        .values(
            "id",
            "ordinal",
            "activity",
            "status",
            "attempts",
            "attempt_budget",
            "deliveries",
            "delivery_failures",
            "visible_after",
            "cause",
            "workitem__worker",
            "workitem__cancel_requested_at",
        )[:limit]
    )
    ids = [row["id"] for row in rows]
    attempts = FailedAttempt.objects.using(connection.alias)
    newest = attempts.filter(outbox_row_id__in=ids).values("outbox_row_id").annotate(newest=Max("id"))
    failed = attempts.filter(id__in=newest.values("newest"))
    errors: dict[int, Any] = dict(failed.values_list("outbox_row_id", "error"))
    return [
        PendingRow(
            row_id=row["id"],
            ordinal=row["ordinal"],
            activity=row["activity"],
            status=OutboxStatus(row["status"]),
            attempts=row["attempts"],
            attempt_budget=row["attempt_budget"],
            deliveries=row["deliveries"],
            delivery_failures=row["delivery_failures"],
            due=row["visible_after"],
            cause=row["cause"],
            worker=row["workitem__worker"] or "",
            cancel_asked=row["workitem__cancel_requested_at"] is not None,
            last_error=failures.read(errors[row["id"]], workflow_id, row["ordinal"]) if errors.get(row["id"]) else None,
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class UnreadMessage:
    """A message to a workflow that has ended, which nobody will read unless it is reopened.

    `payload` is None if it was left out; `characters` is its length.
    """

    id: int
    kind: str
    payload: str | None = field(repr=False)
    created_at: datetime
    characters: int


def unread(
    connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, *, limit: int, characters: int
) -> list[UnreadMessage]:
    """The messages that an ended workflow has kept, in the order in which it would have read them, with the payloads of
    the first ones, so many characters in all.
    """
    rows = sql.fetch(
        connection,
        f"SELECT id, kind, CASE WHEN SUM(LENGTH(payload)) OVER (ORDER BY visible_at, id) <= {int(characters)} "
        f"THEN payload END, {sql.moment(connection, 'created_at')}, LENGTH(payload) "
        "FROM (SELECT * FROM durable_message WHERE workflow_id = %s "
        "AND EXISTS (SELECT 1 FROM durable_workflow w WHERE w.id = workflow_id AND w.closed_at IS NOT NULL) "
        f"ORDER BY visible_at, id LIMIT {int(limit)}) m ORDER BY visible_at, id",
        [sql.param(connection, workflow_id)],
    )
    messages = []
    for row_id, kind, payload, created_at, length in rows:
        moment = moment_from_database(created_at)
        assert moment is not None
        messages.append(UnreadMessage(row_id, kind, payload, moment, length))
    return messages


def earliest(connection: BaseDatabaseWrapper, queues: Sequence[str] | None, but: Sequence[str] = ()) -> list[datetime]:
    """The earliest times at which a row, a message and a workflow's wake-up are due; those that exist. `but` are queues
    whose rows do not count.
    """
    claimed = queues if queues is None else [queue for queue in queues if queue not in but]
    mine, mine_params = sql.of_queues(connection, "queue", claimed, but)
    condition, params = ("true", []) if queues is None else sql.among(connection, "queue", queues)
    owned, owned_params = ("true", []) if queues is None else sql.among(connection, "w.queue", queues)
    join = "" if queues is None else " JOIN durable_workflow w ON w.id = m.workflow_id"
    rows_due = (
        "SELECT visible_after FROM durable_outboxrow "
        "WHERE status = 'pending' AND NOT paused AND {which} AND NOT waiting AND {mine}"
    )
    statements = [
        (f"{rows_due.format(which='NOT suspect', mine=mine)} ORDER BY visible_after LIMIT 1", mine_params),
        (f"{rows_due.format(which='suspect', mine=mine)} ORDER BY visible_after LIMIT 1", mine_params),
        *(
            (
                f"SELECT m.visible_at FROM durable_message m{join} WHERE NOT m.parked AND {which} ORDER BY 1 LIMIT 1",
                owned_params,
            )
            for which in (f"{BEGUN} AND {owned}", f"{START} AND {owned}")
        ),
        (
            f"SELECT wake_at FROM durable_workflow WHERE wake_at IS NOT NULL AND {condition} ORDER BY wake_at LIMIT 1",
            params,
        ),
    ]
    together = " UNION ALL ".join(
        f"SELECT * FROM ({statement}) AS s{at}" for at, (statement, _) in enumerate(statements)
    )
    rows = sql.fetch(
        connection,
        f"SELECT {sql.moment(connection, 'visible_after')} FROM ({together}) AS found",
        [value for _, values in statements for value in values],
    )
    return [moment for row in rows if (moment := moment_from_database(row[0])) is not None]


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue as `durable health` sees it. Counts are capped."""

    queue: str
    due: int
    oldest_due: datetime


COUNT_CAP = 10_000
FAILED_WITHIN = timedelta(days=1)
"""Workflows that failed longer ago are not counted."""


def due_by_queue(connection: BaseDatabaseWrapper) -> list[QueueState]:
    """Rows that are due now, by queue: at most `COUNT_CAP` rows are looked at."""
    now, params = clock.now_sql(connection)
    rows = sql.fetch(
        connection,
        f"SELECT queue, count(*), {sql.moment(connection, 'min(visible_after)')} FROM ("
        "SELECT queue, visible_after FROM durable_outboxrow WHERE status = 'pending' AND NOT paused AND NOT waiting "
        f"AND visible_after <= {now} LIMIT {COUNT_CAP}) AS due GROUP BY queue ORDER BY queue",
        params,
    )
    states = []
    for queue, due, oldest in rows:
        moment = moment_from_database(oldest)
        assert moment is not None
        states.append(QueueState(queue, due, moment))
    return states


def turns_due_by_queue(connection: BaseDatabaseWrapper) -> list[QueueState]:
    """Workflows that can run now, by queue: a message that is not parked has come, or their wake-up. At most
    `COUNT_CAP` messages, as many starts and as many wake-ups are looked at.
    """
    now, params = clock.now_sql(connection)
    rows = sql.fetch(
        connection,
        f"SELECT queue, count(DISTINCT id), {sql.moment(connection, 'min(due)')} FROM ("
        + "".join(
            "SELECT w.queue, w.id, m.visible_at AS due FROM (SELECT workflow_id, visible_at FROM durable_message m "
            f"WHERE NOT parked AND {which} AND visible_at <= {now} ORDER BY visible_at LIMIT {COUNT_CAP}) AS m "
            "JOIN durable_workflow w ON w.id = m.workflow_id UNION ALL "
            for which in (BEGUN, START)
        )
        + "SELECT queue, id, wake_at FROM ("
        f"SELECT queue, id, wake_at FROM durable_workflow WHERE wake_at IS NOT NULL AND wake_at <= {now} "
        f"ORDER BY wake_at LIMIT {COUNT_CAP}) AS woken) AS due GROUP BY queue ORDER BY queue",
        [*params, *params, *params],
    )
    states = []
    for queue, due, oldest in rows:
        moment = moment_from_database(oldest)
        assert moment is not None
        states.append(QueueState(queue, due, moment))
    return states


def counts(connection: BaseDatabaseWrapper) -> dict[str, int]:
    """What needs attention: blocked workflows, those that failed or timed out within `FAILED_WITHIN`, dead letters, and
    deliveries whose lease has expired. Each capped.
    """
    now, params = clock.now_sql(connection)
    since, since_params = clock.now_sql(connection, -FAILED_WITHIN)
    counted = {}
    for name, source, values in (
        ("blocked", "durable_workflow WHERE blocked_reason <> ''", []),
        ("failed", f"durable_workflow WHERE status IN ('failed', 'timed_out') AND closed_at > {since}", since_params),
        ("dead_letters", "durable_outboxrow WHERE status = 'dead'", []),
        ("expired", f"durable_workitem WHERE locked_until < {now}", params),
    ):
        rows = sql.fetch(connection, f"SELECT count(*) FROM (SELECT 1 FROM {source} LIMIT {COUNT_CAP}) AS s", values)
        counted[name] = rows[0][0]
    return counted


def workers(connection: BaseDatabaseWrapper) -> list[tuple[str, list[str], datetime, str]]:
    """Workers with a heartbeat: (name, queues, when, how they are woken). Without the processes of clusters."""
    own = Worker.objects.using(connection.alias).filter(cluster="").order_by("name")
    rows = own.values_list("name", "queues", "beat_at", "wakes_by")
    return [(name, list(queues), beat_at, wakes_by) for name, queues, beat_at, wakes_by in rows]
