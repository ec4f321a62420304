"""Work items: the deliveries that are out. The token is the fence; time is only patience."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.models import WorkItem
from durable.outcomes import HeldDelivery
from durable.store.connections import sql


@dataclass(frozen=True, slots=True)
class LockedItem:
    """A work item as read under its lock."""

    row_id: int
    workflow_id: uuid.UUID
    token: uuid.UUID
    worker: str
    asked_to_cancel: bool
    single: bool
    is_unbegun: bool = False
    """It was sent to another process, or is to be, and has not begun there."""
    heartbeat: str | None = field(default=None, repr=False)
    """Only read by functions whose name says so: each may have a megabyte, and a worker may hold thousands."""

    @property
    def delivery(self) -> DeliveryKey:
        """Which delivery it is."""
        return self.row_id, self.token


# By hand, as in `store/runs/workflows.py`.
_COLUMNS = (
    "outbox_row_id, workflow_id, lock_token, worker, cancel_requested_at IS NOT NULL, single, "
    "queue <> '' AND begun_at IS NULL"
)
_WITH_HEARTBEAT = f"{_COLUMNS}, heartbeat"


DeliveryKey = tuple[int, uuid.UUID]
"""Row id and token: one delivery and no other. A process may hold two deliveries of one row, of which one is lost."""


def _select(
    connection: BaseDatabaseWrapper,
    row_ids: Iterable[int],
    *,
    strength: str,
    columns: str = _COLUMNS,
    also: str = "",
    more: Sequence[object] = (),
) -> list[LockedItem]:
    row_ids = list(row_ids)
    if not row_ids:
        return []
    condition, params = sql.among(connection, "outbox_row_id", row_ids)
    rows = sql.fetch(
        connection,
        f"SELECT {columns} FROM durable_workitem WHERE {condition}{also} ORDER BY outbox_row_id"
        f"{sql.locking(connection, strength)}",
        [*params, *more],
    )
    return [
        LockedItem(
            row[0], sql.as_uuid(row[1]), sql.as_uuid(row[2]), row[3], bool(row[4]), bool(row[5]), bool(row[6]), *row[7:]
        )
        for row in rows
    ]


def lock(connection: BaseDatabaseWrapper, deliveries: Iterable[DeliveryKey]) -> dict[DeliveryKey, LockedItem]:
    """Locks, in id order, the items that still have the given tokens; the others are missing from the result."""
    return _carrying(connection, set(deliveries), strength="UPDATE")


def lock_with_heartbeats(
    connection: BaseDatabaseWrapper, deliveries: Iterable[DeliveryKey]
) -> dict[DeliveryKey, LockedItem]:
    """The same, with the handlers' last heartbeats: for deliveries that end without an ending of their own."""
    return _carrying(connection, set(deliveries), strength="UPDATE", columns=_WITH_HEARTBEAT)


def _carrying(
    connection: BaseDatabaseWrapper, wanted: set[DeliveryKey], *, strength: str, columns: str = _COLUMNS
) -> dict[DeliveryKey, LockedItem]:
    tokens, more = sql.among(connection, "lock_token", {token for _, token in wanted})
    row_ids = {row_id for row_id, _ in wanted}
    items = _select(connection, row_ids, strength=strength, columns=columns, also=f" AND {tokens}", more=more)
    return {(item.row_id, item.token): item for item in items if (item.row_id, item.token) in wanted}


def lock_of_rows(connection: BaseDatabaseWrapper, row_ids: Iterable[int]) -> dict[int, LockedItem]:
    """Locks, in id order, whatever items exist for these rows."""
    return {item.row_id: item for item in _select(connection, row_ids, strength="UPDATE")}


def lock_free_of_rows(connection: BaseDatabaseWrapper, row_ids: Iterable[int]) -> dict[int, LockedItem]:
    """Locks, in id order, the items of these rows that no other session has locked."""
    return {item.row_id: item for item in _select(connection, row_ids, strength="UPDATE SKIP LOCKED")}


def lock_expired(connection: BaseDatabaseWrapper, row_ids: Iterable[int]) -> dict[int, LockedItem]:
    """Locks, in id order, the items that no other session has locked and whose lease has expired, with their
    heartbeats.
    """
    now, more = clock.now_sql(connection)
    items = _select(
        connection,
        row_ids,
        strength="UPDATE SKIP LOCKED",
        columns=_WITH_HEARTBEAT,
        also=f" AND locked_until < {now}",
        more=more,
    )
    return {item.row_id: item for item in items}


def holds(connection: BaseDatabaseWrapper, row_id: int, token: uuid.UUID) -> int:
    """Checks, without a lock, whether the item still has the token: 1 or 0."""
    return WorkItem.objects.using(connection.alias).filter(outbox_row_id=row_id, lock_token=token).count()


def begin(
    connection: BaseDatabaseWrapper,
    row_id: int,
    token: uuid.UUID,
    *,
    new_token: uuid.UUID,
    worker: str,
    lease_for: timedelta,
) -> int:
    """Begins a delivery that was sent: it is `worker`'s from now on, under a new token. Returns 1, or 0 if it has begun
    already, has ended, is another delivery's by now, or was asked to stop.
    """
    now, params = clock.now_sql(connection)
    until, until_params = clock.lease_sql(connection, lease_for)
    return sql.execute(
        connection,
        f"UPDATE durable_workitem SET lock_token = %s, worker = %s, begun_at = {now}, locked_until = {until} "
        "WHERE outbox_row_id = %s AND lock_token = %s AND queue <> '' AND begun_at IS NULL "
        "AND cancel_requested_at IS NULL",
        [sql.param(connection, new_token), worker, *params, *until_params, row_id, sql.param(connection, token)],
    )


def delete(connection: BaseDatabaseWrapper, deliveries: Collection[DeliveryKey]) -> set[int]:
    """Removes the (locked) items that carry these tokens, and no others; returns their rows. One statement."""
    return {row[0] for row in sql.fetch(connection, *deleting(connection, deliveries))} if deliveries else set()


_DELIVERED = sql.RowSet([("id", "bigint"), ("token", "uuid")])


def deleting(connection: BaseDatabaseWrapper, deliveries: Collection[DeliveryKey]) -> tuple[str, sql.Params]:
    """The statement of `delete`, and its parameters."""
    source = _DELIVERED.source(connection)
    matches = "i.outbox_row_id = given.id AND i.lock_token = given.token"
    if sql.is_postgresql(connection):
        condition = f"AS i USING {source} WHERE {matches}"
    else:  # no USING there; CROSS keeps the given rows in front, so that the table is not walked
        rows = f"SELECT i.outbox_row_id FROM {source} CROSS JOIN durable_workitem AS i ON {matches}"
        condition = f"WHERE outbox_row_id IN ({rows})"
    statement = f"DELETE FROM durable_workitem {condition} RETURNING outbox_row_id"
    return statement, _DELIVERED.params(connection, sorted(deliveries))


def ask_to_cancel(connection: BaseDatabaseWrapper, row_ids: Sequence[int]) -> None:
    """Asks the workers that run these (locked) rows to stop; they learn it at their next renewal. The first request
    counts.
    """
    if row_ids:
        now, params = clock.now_sql(connection)
        condition, more = sql.among(connection, "outbox_row_id", sorted(row_ids))
        sql.execute(
            connection,
            f"UPDATE durable_workitem SET cancel_requested_at = {now} "
            f"WHERE cancel_requested_at IS NULL AND {condition}",
            [*params, *more],
        )


_HELD = sql.RowSet([("id", "bigint"), ("token", "uuid"), ("heartbeat", "text")])


def lock_free(connection: BaseDatabaseWrapper, deliveries: Iterable[DeliveryKey]) -> dict[DeliveryKey, LockedItem]:
    """Locks, in id order, the items that no other session has locked and that still have their token."""
    return _carrying(connection, set(deliveries), strength="UPDATE SKIP LOCKED")


def lock_free_with_heartbeats(
    connection: BaseDatabaseWrapper, deliveries: Iterable[DeliveryKey]
) -> dict[DeliveryKey, LockedItem]:
    """The same, with their heartbeats."""
    return _carrying(connection, set(deliveries), strength="UPDATE SKIP LOCKED", columns=_WITH_HEARTBEAT)


def still_there(connection: BaseDatabaseWrapper, deliveries: Iterable[DeliveryKey]) -> set[DeliveryKey]:
    """Checks, without locks, which of the items still have their token."""
    wanted = set(deliveries)
    rows = (
        WorkItem.objects.using(connection.alias)
        .filter(outbox_row_id__in={row_id for row_id, _ in wanted})
        .values_list("outbox_row_id", "lock_token")
    )
    return set(rows) & wanted


def extend(connection: BaseDatabaseWrapper, held: Sequence[HeldDelivery], *, lease_for: timedelta) -> None:
    """Extends the leases of (locked) items from now, and keeps the latest heartbeat details. One statement."""
    if held:
        until, params = clock.lease_sql(connection, lease_for)
        rows = [(h.row_id, h.token, h.heartbeat) for h in held]
        sql.execute(
            connection,
            f"UPDATE durable_workitem AS i SET locked_until = {until}, "
            "heartbeat = coalesce(given.heartbeat, i.heartbeat) "
            f"FROM {_HELD.source(connection)} WHERE i.outbox_row_id = given.id AND i.lock_token = given.token",
            [*params, *_HELD.params(connection, rows)],
        )


def expired(connection: BaseDatabaseWrapper, *, after: int, limit: int) -> list[tuple[int, uuid.UUID]]:
    """Items whose lease has expired, in id order after `after`: (row id, workflow id)."""
    now, params = clock.now_sql(connection)
    rows = sql.fetch(
        connection,
        f"SELECT outbox_row_id, workflow_id FROM durable_workitem WHERE locked_until < {now} AND outbox_row_id > %s "
        f"ORDER BY outbox_row_id LIMIT {int(limit)}",
        [*params, after],
    )
    return [(row[0], sql.as_uuid(row[1])) for row in rows]


def present(connection: BaseDatabaseWrapper, row_ids: Iterable[int]) -> set[int]:
    """Checks, without locks, for which of the rows an item exists."""
    return set(
        WorkItem.objects.using(connection.alias)
        .filter(outbox_row_id__in=list(row_ids))
        .values_list("outbox_row_id", flat=True)
    )
