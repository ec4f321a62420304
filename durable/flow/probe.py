"""Ask which deliveries can not be ended now, because somebody else has locked what that would write."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow import transaction
from durable.flow.steps.dead_letters import is_held
from durable.flow.transaction import Patience
from durable.outcomes import Claim, Ending
from durable.store import outbox, sql, work_items, workflows
from durable.store.work_items import Delivery


def locked(waiting: Sequence[tuple[Claim, Ending | None]]) -> set[Delivery]:
    """Returns those deliveries, by row and token, that still hold and of which another session has locked the outbox
    row, the work item, or the workflow where it is to be written. With an ending it is asked for its acknowledgement,
    without one for giving the delivery back. Waits for no row; a table that is locked as a whole raises after 20 ms.

    Writes nothing, and keeps no lock. Nothing is locked on SQLite, where a writer has the whole file.
    """
    if not waiting or not sql.is_postgresql(transaction.engine_connection()):
        return set()

    def body(connection: BaseDatabaseWrapper) -> set[Delivery]:
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


def _needs_workflow(claim: Claim, ending: Ending | None) -> bool:
    if ending is None:
        return claim.single or claim.delivery_failures + 1 >= claim.delivery_budget
    return claim.single or is_held(ending)
