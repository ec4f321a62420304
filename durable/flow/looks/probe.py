"""Finds out what another session has locked: deliveries that are to be ended, work that is due."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.endings.dead_letters import is_held
from durable.flow.transactions import transaction
from durable.flow.transactions.transaction import Patience
from durable.outcomes import Claim, Ending
from durable.store.connections import sql
from durable.store.deliveries import outbox, work_items
from durable.store.deliveries.work_items import DeliveryKey
from durable.store.runs import due as store_due
from durable.store.runs import workflows


def locked(waiting: Sequence[tuple[Claim, Ending | None]]) -> set[DeliveryKey]:
    """Returns the deliveries, by row and token, that are still valid and of which another session has locked the outbox
    row, the work item, or the workflow if it would be written: by the acknowledgement if there is an ending, else by
    giving the delivery back. Waits for no row; a table that is locked as a whole raises after 20 ms. Writes nothing,
    and keeps no lock. On SQLite nothing is locked, since a writer has the whole file.
    """
    if not waiting or not sql.is_postgresql(transaction.engine_connection()):
        return set()

    def body(connection: BaseDatabaseWrapper) -> set[DeliveryKey]:
        needed = {claim.workflow_id for claim, ending in waiting if _needs_workflow(claim, ending)}
        free = workflows.lock_free(connection, needed, limit=len(needed))
        closed = needed - free.keys()
        mine = [claim for claim, _ in waiting if claim.workflow_id not in closed]
        rows = outbox.lock_free_ids(connection, [claim.row_id for claim in mine])
        items = work_items.lock_free(connection, [(c.row_id, c.token) for c in mine if c.row_id in rows])
        rest = [(claim.row_id, claim.token) for claim, _ in waiting if (claim.row_id, claim.token) not in items]
        return work_items.still_there(connection, rest) if rest else set()

    with transaction.short_waits(sql.SHORT_LOCK_WAIT):
        return transaction.own(body, patience=Patience.ONCE)


@dataclass(frozen=True, slots=True)
class DueNow:
    """What is due: how much of it another session has locked, with the first of these in words, and how
    much is free.
    """

    locked: int
    free: int
    first: Sequence[str] = ()


def due(
    queues: tuple[str, ...] | None, *, passed_over: Collection[uuid.UUID] = (), but: tuple[str, ...] = ()
) -> DueNow:
    """Finds what could be claimed or turned now in `queues` (None: all), at most 1,000 of each, without activities of
    the queues in `but`. Workflows that were put off because their turn met a lock count as locked. Writes nothing, and
    keeps no lock.
    """

    def body(connection: BaseDatabaseWrapper) -> DueNow:
        due_workflows = store_due.owners(connection, messages=_MOST, timers=_MOST, starts=_MOST, queues=queues)
        owners = sorted({workflow.owner for workflow in due_workflows})
        free_owners = workflows.lock_free(connection, owners, limit=len(owners)).keys() - set(passed_over)
        ids = store_due.rows(connection, queues=queues, limit=_MOST, but=but)
        free_rows = outbox.lock_free_ids(connection, ids)
        locked = [f"workflow {owner}" for owner in owners if owner not in free_owners]
        locked += [f"outbox row {row_id}" for row_id in ids if row_id not in free_rows]
        return DueNow(len(locked), len(free_owners) + len(free_rows), locked[:_NAMED])

    if not sql.is_postgresql(transaction.engine_connection()):
        return DueNow(0, 0)
    with transaction.short_waits(sql.SHORT_LOCK_WAIT):
        return transaction.own(body, patience=Patience.ONCE)


_MOST = 1_000
_NAMED = 5


def _needs_workflow(claim: Claim, ending: Ending | None) -> bool:
    if ending is None:
        return claim.single or claim.delivery_failures + 1 >= claim.delivery_budget
    return claim.single or is_held(ending)
