"""The workflows' own rows: finding, locking, and writing what a turn or a verb decided."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.history.room import HISTORY_FULL
from durable.kernel.payloads import wire
from durable.models.fields import moment_from_database
from durable.outcomes import WorkflowStatus
from durable.store.connections import sql
from durable.store.texts.failures import NO_KIND, Kind, StoredFailure


class LockedWorkflow(NamedTuple):
    """A workflow's row, as read under its lock (or, for a look ahead, without). Each turn makes several of these."""

    id: uuid.UUID
    type: str
    single: bool
    status: WorkflowStatus
    run: int
    run_seq: int
    history_seq: int
    last_seq: int
    wake_at: datetime | None
    deadline_at: datetime | None
    blocked_at: datetime | None
    blocked_reason: str
    blocked_version: str
    poison_turns: int
    priority: int
    key: str | None
    parent_id: uuid.UUID | None
    parent_run: int | None
    parent_ordinal: int | None
    parent_close: str
    children: int
    """How many it has started in all its runs."""
    history_bytes: int
    """Of the events of the current history. 0: not counted yet."""
    error_class: str
    """For a blocked workflow: class and group of its error."""

    @property
    def history_events(self) -> int:
        """How many events the current history has; the first one is its start's."""
        return self.last_seq - self.history_seq + 1

    @property
    def is_live(self) -> bool:
        """Whether it is not in one of the four hard terminals."""
        return not self.status.is_terminal

    def deadline(self, at: datetime) -> datetime | None:
        """When its time is up, if it goes on at `at`: the time for which it was blocked does not count. While only its
        full history blocks it, its time runs.
        """
        if self.deadline_at is None or not self.stands_still:
            return self.deadline_at
        assert self.blocked_at is not None
        return self.deadline_at + max(at - self.blocked_at, timedelta())

    @property
    def stands_still(self) -> bool:
        """Whether it is blocked by something else than a full history, and it is known since when."""
        return bool(self.blocked_reason) and self.error_class != HISTORY_FULL and self.blocked_at is not None


# Locking and looking are SQL by hand: building these queries and converting their rows cost more than running them.
_COLUMNS = (
    "id, type, single, status, run, run_seq, history_seq, last_seq, {wake_at}, {deadline_at}, {blocked_at}, "
    "parent_id, blocked_reason, blocked_version, poison_turns, priority, key, "
    "parent_run, parent_ordinal, parent_close, children, history_bytes, error_class"
)


def _select(
    connection: BaseDatabaseWrapper, ids: Iterable[uuid.UUID], *, ending: str, also: str = "NULL"
) -> dict[uuid.UUID, LockedWorkflow]:
    ids = list(ids)
    if not ids:
        return {}
    condition, params = sql.among(connection, "id", ids)
    rows = sql.fetch(
        connection,
        f"SELECT {also}, {_columns(connection)} FROM durable_workflow WHERE {condition} ORDER BY id{ending}",
        params,
    )
    locked = [_locked(row[1:]) for row in rows]
    return {workflow.id: workflow for workflow in locked}


def _columns(connection: BaseDatabaseWrapper) -> str:
    return _COLUMNS.format(**{name: sql.moment(connection, name) for name in ("wake_at", "deadline_at", "blocked_at")})


def _locked(row: tuple[Any, ...]) -> LockedWorkflow:
    owner, kind, single, status, run, run_seq, history_seq, last_seq, wake_at, deadline_at, blocked_at = row[:11]
    parent_id, blocked_reason, blocked_version, poison_turns, priority, key, *rest = row[11:]
    return LockedWorkflow(
        sql.as_uuid(owner),
        kind,
        bool(single),
        WorkflowStatus(status),
        run,
        run_seq,
        history_seq,
        last_seq,
        moment_from_database(wake_at),
        moment_from_database(deadline_at),
        moment_from_database(blocked_at),
        blocked_reason,
        blocked_version,
        poison_turns,
        priority,
        key,
        None if parent_id is None else sql.as_uuid(parent_id),
        *rest,
    )


def lock(connection: BaseDatabaseWrapper, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, LockedWorkflow]:
    """Locks workflows in id order, waiting for each. Unknown ids are missing from the result.

    `NO KEY`: a host project's own foreign keys to a workflow never wait for this.
    """
    return _select(connection, ids, ending=sql.locking(connection, "NO KEY UPDATE"))


def lock_and_bound_waits(connection: BaseDatabaseWrapper, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, LockedWorkflow]:
    """Locks as `lock` does, as the first statement of a transaction of ours, whose lock waits it bounds."""
    return _select(connection, ids, ending=sql.locking(connection, "NO KEY UPDATE"), also=sql.bounding(connection))


def lock_free(
    connection: BaseDatabaseWrapper, ids: Iterable[uuid.UUID], *, limit: int
) -> dict[uuid.UUID, LockedWorkflow]:
    """Locks, in id order, the workflows that no other session has locked; at most `limit`."""
    locking = sql.locking(connection, "NO KEY UPDATE SKIP LOCKED")
    return _select(connection, ids, ending=f" LIMIT {int(limit)}{locking}")


@dataclass(frozen=True, slots=True)
class Turnable:
    """What a turn has locked or looked at, and the database's time at that moment."""

    workflows: dict[uuid.UUID, LockedWorkflow]
    at: datetime

    def only(self, ids: Iterable[uuid.UUID]) -> Turnable:
        """The same of fewer workflows."""
        return Turnable({id: self.workflows[id] for id in ids if id in self.workflows}, self.at)


def lock_for_turn(
    connection: BaseDatabaseWrapper, ids: Sequence[uuid.UUID], *, limit: int, wait: str = sql.LOCK_WAIT
) -> Turnable:
    """Locks as `lock_free` does, and lets the transaction's later locks wait for `wait`; the first statement of a turn,
    and its time.
    """
    locking = sql.locking(connection, "NO KEY UPDATE SKIP LOCKED")
    return _for_turn(connection, ids, sql.bounding(connection, wait), f" LIMIT {int(limit)}{locking}")


def look_for_turn(connection: BaseDatabaseWrapper, ids: Sequence[uuid.UUID]) -> Turnable:
    """The same rows and the time, without a lock, for code that runs before the transaction that will compare them."""
    return _for_turn(connection, ids, "NULL", "")


def _for_turn(connection: BaseDatabaseWrapper, ids: Sequence[uuid.UUID], also: str, ending: str) -> Turnable:
    now, now_params = clock.now_sql(connection)
    condition, params = sql.among(connection, "id", ids)
    columns = f"{sql.moment(connection, now)}, {also}, {_columns(connection)}"
    statement = f"SELECT {columns} FROM durable_workflow WHERE {condition} ORDER BY id{ending}"
    rows = sql.fetch(connection, statement, [*now_params, *params])
    locked = [_locked(row[2:]) for row in rows]
    return Turnable({workflow.id: workflow for workflow in locked}, _moment(rows[0][0]) if rows else clock.host_now())


def look(connection: BaseDatabaseWrapper, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, LockedWorkflow]:
    """The same rows without a lock, for preparing work before the transaction that will compare `last_seq`."""
    return _select(connection, ids, ending="")


@dataclass(frozen=True, slots=True)
class Progress:
    """The new state of a workflow's row, after a turn or another verb under the lock."""

    id: uuid.UUID
    status: WorkflowStatus
    last_seq: int
    wake_at: datetime | None
    timers: Sequence[Any] = ()
    result: str | None = field(default=None, repr=False)
    failure: StoredFailure | None = None
    blocked_reason: str = ""
    blocked_version: str = ""
    blocked_by: Kind = NO_KIND
    blocked_at: datetime | None = None
    poison_turns: int = 0
    closed_at: datetime | None = None
    deadline_at: datetime | None = None
    """None: it stays as it is."""
    children: int = 0
    """How many more it has started."""
    patches: Mapping[str, bool] | None = None
    """What the run has answered to `patched`; None: it stays as it is."""


# One that has not been counted yet stays so: the next turn counts all of it.
_LONGER = "history_bytes = CASE WHEN history_bytes > 0 THEN history_bytes + %s ELSE 0 END"


def advance_seq(
    connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, last_seq: int, added: Mapping[uuid.UUID, int]
) -> None:
    """Moves `last_seq` of a (locked) workflow after an event that changes nothing else about it. `added` is the return
    value of appending the event.
    """
    sql.execute(
        connection,
        f"UPDATE durable_workflow SET last_seq = %s, {_LONGER} WHERE id = %s AND last_seq = %s",
        [last_seq, added.get(workflow_id, 0), sql.param(connection, workflow_id), last_seq - 1],
    )


def set_status(
    connection: BaseDatabaseWrapper,
    workflow_id: uuid.UUID,
    *,
    was: WorkflowStatus,
    becomes: WorkflowStatus,
    last_seq: int,
    added: Mapping[uuid.UUID, int],
) -> None:
    """Moves a (locked) live workflow between running and paused, after the event that explains it. `added` is the
    return value of appending the event.
    """
    sql.execute(
        connection,
        f"UPDATE durable_workflow SET status = %s, last_seq = %s, {_LONGER} WHERE id = %s AND status = %s",
        [becomes.value, last_seq, added.get(workflow_id, 0), sql.param(connection, workflow_id), was.value],
    )


_GIVEN = sql.RowSet(
    [
        ("id", "uuid"),
        ("status", "text"),
        ("last_seq", "int"),
        ("wake_at", "timestamptz"),
        ("timers", "text"),
        ("result", "text"),
        ("failure", "text"),
        ("blocked_reason", "text"),
        ("blocked_version", "text"),
        ("poison_turns", "int"),
        ("closed_at", "timestamptz"),
        ("blocked_at", "timestamptz"),
        ("deadline_at", "timestamptz"),
        ("error_class", "text"),
        ("error_group", "text"),
        ("children", "int"),
        ("patches", "text"),
        ("added", "bigint"),
    ]
)
# A workflow that stays blocked after an unsuccessful turn keeps its original reason.
_KEPT = {
    name: f"CASE WHEN given.blocked_reason <> '' AND given.{name} = '' THEN w.{name} ELSE given.{name} END"
    for name in ("error_class", "error_group")
}
# The terminals are final for every writer of this statement: whatever was decided, it was decided for a live workflow.
_ADVANCE = """
UPDATE durable_workflow AS w SET
    status = given.status, last_seq = given.last_seq, wake_at = given.wake_at, timers = given.timers,
    result = given.result, failure = given.failure, blocked_reason = given.blocked_reason,
    blocked_version = given.blocked_version, poison_turns = given.poison_turns, closed_at = given.closed_at,
    blocked_at = given.blocked_at, deadline_at = coalesce(given.deadline_at, w.deadline_at),
    error_class = {error_class}, error_group = {error_group}, children = w.children + given.children,
    patches = coalesce(given.patches, w.patches),
    history_bytes = given.added + CASE WHEN w.history_bytes > 0 THEN w.history_bytes ELSE (
        SELECT coalesce(sum({size}), 0) FROM durable_event e
        WHERE e.workflow_id = w.id AND e.seq >= w.history_seq AND e.seq <= w.last_seq
    ) END
FROM {given}
WHERE w.id = given.id AND w.status IN ('running', 'paused')
"""


def advance(connection: BaseDatabaseWrapper, progress: Sequence[Progress], added: Mapping[uuid.UUID, int]) -> None:
    """Writes the new states of (locked, live) workflows after their turns. One statement, with the events that explain
    them. `added` is the return value of appending those; a history that was never counted is counted now.
    """
    if progress:
        sql.execute(connection, *advancing(connection, progress, added))


def advancing(
    connection: BaseDatabaseWrapper, progress: Sequence[Progress], added: Mapping[uuid.UUID, int]
) -> tuple[str, sql.Params]:
    """The statement of `advance`, and its parameters."""
    rows = [
        (
            p.id,
            p.status.value,
            p.last_seq,
            p.wake_at,
            wire.dump(list(p.timers)),
            p.result,
            None if p.failure is None else wire.dump(p.failure.data),
            p.blocked_reason,
            p.blocked_version,
            p.poison_turns,
            p.closed_at,
            p.blocked_at,
            p.deadline_at,
            (p.blocked_by if p.failure is None else p.failure.kind).error_class,
            (p.blocked_by if p.failure is None else p.failure.kind).error_group,
            p.children,
            None if p.patches is None else wire.dump(p.patches),
            added.get(p.id, 0),
        )
        for p in progress
    ]
    statement = _ADVANCE.format(given=_GIVEN.source(connection), size=sql.size(connection, "e.data"), **_KEPT)
    return statement, _GIVEN.params(connection, rows)


def count_poison(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID) -> None:
    """Counts a turn that overran or killed its process, on a (locked) live workflow."""
    sql.execute(
        connection,
        "UPDATE durable_workflow SET poison_turns = poison_turns + 1 WHERE id = %s AND status IN ('running', 'paused')",
        [sql.param(connection, workflow_id)],
    )


def holder_of_key(connection: BaseDatabaseWrapper, workflow_type: str, key: str) -> uuid.UUID | None:
    """The live workflow that holds a business key, if there is one."""
    return holders_of_keys(connection, [(workflow_type, key)]).get((workflow_type, key))


_KEYS = sql.RowSet([("type", "text"), ("key", "text")])


def holders_of_keys(
    connection: BaseDatabaseWrapper, keys: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], uuid.UUID]:
    """The live workflows that hold these (type, key) pairs. One statement."""
    if not keys:
        return {}
    rows = sql.fetch(
        connection,
        f"SELECT w.type, w.key, w.id FROM {_KEYS.source(connection)} "
        "JOIN durable_workflow w ON w.type = given.type AND w.key = given.key "
        "WHERE w.key IS NOT NULL AND w.status IN ('running', 'paused')",
        _KEYS.params(connection, keys),
    )
    return {(type, key): sql.as_uuid(id) for type, key, id in rows}


def _moment(value: Any) -> datetime:
    moment = moment_from_database(value)
    assert moment is not None
    return moment
