"""Gives claimed rows back, or closes them if their workflow no longer wants them. No `atomic` in here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.flow.endings import closing
from durable.kernel.history.events import EventType
from durable.outcomes import Claim, GiveBack, OutboxStatus, WorkflowStatus
from durable.store.deliveries import outbox, work_items
from durable.store.deliveries.outbox import Return
from durable.store.deliveries.work_items import DeliveryKey, LockedItem
from durable.store.runs import workflows
from durable.store.runs.workflows import LockedWorkflow


def uncounted(connection: BaseDatabaseWrapper, claims: Sequence[Claim], *, delay: timedelta) -> list[GiveBack]:
    """Deletes the items whose token is valid and returns their rows to pending, with one delivery less; one outcome
    each.

    A row whose workflow has asked for its cancellation is closed instead: no further attempt of it starts.
    """
    owners = workflows.lock(connection, {c.workflow_id for c in claims if c.single})
    outbox.lock_ids(connection, [c.row_id for c in claims])
    items = work_items.lock_with_heartbeats(connection, [(c.row_id, c.token) for c in claims])
    _return(connection, claims, owners, items, delay)
    return [_outcome(items.get((c.row_id, c.token))) for c in claims]


def uncounted_if_free(connection: BaseDatabaseWrapper, claims: Sequence[Claim]) -> list[GiveBack]:
    """The same, due at once, for those that no other session has locked; the others are `BUSY`."""
    singles = {c.workflow_id for c in claims if c.single}
    owners = workflows.lock_free(connection, singles, limit=len(singles))
    mine = [c for c in claims if not c.single or c.workflow_id in owners]
    free = outbox.lock_free_ids(connection, [c.row_id for c in mine])
    items = work_items.lock_free_with_heartbeats(connection, [(c.row_id, c.token) for c in mine if c.row_id in free])
    _return(connection, claims, owners, items, timedelta())
    rest = [(c.row_id, c.token) for c in claims if (c.row_id, c.token) not in items]
    there = work_items.still_there(connection, rest) if rest else set()
    return [GiveBack.BUSY if (c.row_id, c.token) in there else _outcome(items.get((c.row_id, c.token))) for c in claims]


def _return(
    connection: BaseDatabaseWrapper,
    claims: Sequence[Claim],
    owners: Mapping[UUID, LockedWorkflow],
    items: Mapping[DeliveryKey, LockedItem],
    delay: timedelta,
) -> None:
    work_items.delete(connection, items)
    stopped = [item for item in items.values() if item.asked_to_cancel]
    if stopped:
        close_cancelled(connection, stopped, owners, at=clock.database_now(connection))
    outbox.give_back(
        connection,
        [
            Return(c.row_id, delay, deliveries=-1, suspect=int(c.suspect), heartbeat=item.heartbeat)
            for c in claims
            if (item := items.get((c.row_id, c.token))) is not None and not item.asked_to_cancel
        ],
    )


def close_cancelled(
    connection: BaseDatabaseWrapper,
    items: Sequence[LockedItem],
    owners: Mapping[UUID, LockedWorkflow],
    *,
    at: datetime,
) -> None:
    """Closes the (claimed, locked) rows of items that were asked to stop. A single activity's workflow ends with its
    row; its lock is among `owners`.
    """
    outbox.finish(connection, [(item.row_id, OutboxStatus.CANCELLED, 0, item.heartbeat) for item in items])
    closing.end_singles(
        connection,
        [
            (owners[item.workflow_id], EventType.WORKFLOW_CANCELLED, WorkflowStatus.CANCELLED, None, None)
            for item in items
            if item.single
        ],
        at=at,
    )


def _outcome(item: LockedItem | None) -> GiveBack:
    if item is None:
        return GiveBack.TOKEN_MISSING
    return GiveBack.SETTLED if item.asked_to_cancel else GiveBack.PENDING
