"""Work items: the deliveries that are out. The token is the fence; time is only patience."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.models import WorkItem
from durable.outcomes import Held
from durable.store import sql


@dataclass(frozen=True, slots=True)
class LockedItem:
    """A work item as read under its lock."""

    row_id: int
    workflow_id: uuid.UUID
    token: uuid.UUID
    worker: str
    asked_to_cancel: bool
    heartbeat: str | None
    single: bool


_FIELDS = ("outbox_row_id", "workflow_id", "lock_token", "worker", "cancel_requested_at", "heartbeat", "single")


Delivery = tuple[int, uuid.UUID]
"""Row id and token: one delivery and no other. A process may hold two deliveries of one row, of which one is lost."""


def lock(connection: BaseDatabaseWrapper, deliveries: Iterable[Delivery]) -> dict[Delivery, LockedItem]:
    """Lock, in id order, the items that still carry the given tokens; the others are missing in the answer."""
    wanted = set(deliveries)
    rows = (
        WorkItem.objects.using(connection.alias)
        .select_for_update()
        .filter(outbox_row_id__in={row_id for row_id, _ in wanted}, lock_token__in={token for _, token in wanted})
        .order_by("outbox_row_id")
        .values_list(*_FIELDS)
    )
    return _by_delivery(rows, wanted)


def _by_delivery(rows: Iterable[tuple[Any, ...]], wanted: set[Delivery]) -> dict[Delivery, LockedItem]:
    return {
        (row[0], row[2]): LockedItem(row[0], row[1], row[2], row[3], row[4] is not None, row[5], row[6])
        for row in rows
        if (row[0], row[2]) in wanted
    }


def lock_of_rows(connection: BaseDatabaseWrapper, row_ids: Iterable[int]) -> dict[int, LockedItem]:
    """Lock, in id order, whatever items exist for these rows."""
    rows = (
        WorkItem.objects.using(connection.alias)
        .select_for_update()
        .filter(outbox_row_id__in=list(row_ids))
        .order_by("outbox_row_id")
        .values_list(*_FIELDS)
    )
    return {row[0]: LockedItem(row[0], row[1], row[2], row[3], row[4] is not None, row[5], row[6]) for row in rows}


def lock_expired(connection: BaseDatabaseWrapper, row_ids: Iterable[int]) -> dict[int, LockedItem]:
    """Lock, in id order, those of the items that nobody else holds and whose lease has run out by now."""
    rows = (
        WorkItem.objects.using(connection.alias)
        .select_for_update(skip_locked=True)
        .filter(outbox_row_id__in=list(row_ids), locked_until__lt=clock.Now())
        .order_by("outbox_row_id")
        .values_list(*_FIELDS)
    )
    return {row[0]: LockedItem(row[0], row[1], row[2], row[3], row[4] is not None, row[5], row[6]) for row in rows}


def holds(connection: BaseDatabaseWrapper, row_id: int, token: uuid.UUID) -> int:
    """Look, without a lock, whether the item still carries the token: 1 or 0."""
    return WorkItem.objects.using(connection.alias).filter(outbox_row_id=row_id, lock_token=token).count()


def delete(connection: BaseDatabaseWrapper, row_ids: Sequence[int]) -> None:
    """Remove (locked) items. One statement."""
    if row_ids:
        condition, params = sql.among(connection, "outbox_row_id", sorted(row_ids))
        sql.execute(connection, f"DELETE FROM durable_workitem WHERE {condition}", params)


def ask_to_cancel(connection: BaseDatabaseWrapper, row_ids: Sequence[int]) -> None:
    """Ask the workers that hold these (locked) rows to stop; they learn it at their next renewal. The first ask
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


def lock_free(connection: BaseDatabaseWrapper, held: Sequence[Held]) -> dict[Delivery, LockedItem]:
    """Lock, in id order, those of the held items that nobody else has locked and that still carry their token."""
    wanted = {(h.row_id, h.token) for h in held}
    rows = (
        WorkItem.objects.using(connection.alias)
        .select_for_update(skip_locked=True)
        .filter(outbox_row_id__in={h.row_id for h in held}, lock_token__in={h.token for h in held})
        .order_by("outbox_row_id")
        .values_list(*_FIELDS)
    )
    return _by_delivery(rows, wanted)


def still_there(connection: BaseDatabaseWrapper, held: Sequence[Held]) -> set[Delivery]:
    """Look, without locks, which of the held items still carry their token."""
    rows = (
        WorkItem.objects.using(connection.alias)
        .filter(outbox_row_id__in={h.row_id for h in held})
        .values_list("outbox_row_id", "lock_token")
    )
    return set(rows) & {(h.row_id, h.token) for h in held}


def extend(connection: BaseDatabaseWrapper, held: Sequence[Held], *, lease_for: timedelta) -> None:
    """Extend the leases of (locked) items from now, and keep the handlers' latest heartbeat details. One statement."""
    if held:
        until, params = clock.now_sql(connection, lease_for)
        rows = [(h.row_id, h.token, h.heartbeat) for h in held]
        sql.execute(
            connection,
            f"UPDATE durable_workitem AS i SET locked_until = {until}, "
            "heartbeat = coalesce(given.heartbeat, i.heartbeat) "
            f"FROM {_HELD.source(connection)} WHERE i.outbox_row_id = given.id AND i.lock_token = given.token",
            [*params, *_HELD.params(connection, rows)],
        )


def expired(connection: BaseDatabaseWrapper, *, after: int, limit: int) -> list[tuple[int, uuid.UUID]]:
    """Items whose lease has run out, in id order behind `after`: (row id, workflow id)."""
    now, params = clock.now_sql(connection)
    rows = sql.fetch(
        connection,
        f"SELECT outbox_row_id, workflow_id FROM durable_workitem WHERE locked_until < {now} AND outbox_row_id > %s "
        f"ORDER BY outbox_row_id LIMIT {int(limit)}",
        [*params, after],
    )
    return [(row[0], sql.as_uuid(row[1])) for row in rows]


def present(connection: BaseDatabaseWrapper, row_ids: Iterable[int]) -> set[int]:
    """Look, without locks, for which of the rows an item exists."""
    return set(
        WorkItem.objects.using(connection.alias)
        .filter(outbox_row_id__in=list(row_ids))
        .values_list("outbox_row_id", flat=True)
    )
