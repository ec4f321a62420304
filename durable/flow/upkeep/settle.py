"""Settles open rows of ended workflows, which a crash, or a change from outside, has left."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial

from django.db import Error as DjangoDatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.transactions import transaction
from durable.flow.transactions.transaction import Patience
from durable.logs import get_logger, words
from durable.store.deliveries import left_open, outbox, work_items
from durable.store.runs import workflows

logger = get_logger("durable.flow")

_BATCH = 500


def settle_closed(*, limit: int | None = None) -> int:
    """Cancels open rows and dead letters of terminal workflows and deletes their items; returns the number of rows.

    In transactions of a batch each, under the workflows' locks; at most about `limit` rows (None: all there are).
    Locked rows and workflows are skipped until the next call, and so is a workflow with an error of its own; a database
    error is raised.
    """
    settled = 0
    passed_over: set[uuid.UUID] = set()
    while limit is None or settled < limit:
        look = partial(left_open.open_of_terminal, limit=_BATCH, but=frozenset(passed_over))
        owners = transaction.reading(look)
        if not owners:
            break
        count, left = _settle_isolating(owners)
        settled += count
        passed_over |= left
    return settled


def _settle_isolating(
    owners: Sequence[uuid.UUID], patience: Patience = Patience.JITTERED
) -> tuple[int, set[uuid.UUID]]:
    """A batch in one transaction; if something in it is broken or locked, each workflow in one of its own. Returns the
    number of rows, and which workflows may have more.
    """
    try:
        return transaction.own(partial(_settle, owners), patience=patience)
    except (DjangoDatabaseError, ValueError, LookupError, TypeError) as error:
        if isinstance(error, DjangoDatabaseError) and transaction.store_is_away(error):
            raise
        if len(owners) == 1:
            logger.error("settle.workflow_left_alone", workflow=str(owners[0]), error=words(error))
            return 0, set(owners)
    settled, left = 0, set[uuid.UUID]()
    for owner in owners:
        count, more = _settle_isolating([owner], Patience.ONCE)
        settled += count
        left |= more
    return settled, left


def _settle(owners: Sequence[uuid.UUID], connection: BaseDatabaseWrapper) -> tuple[int, set[uuid.UUID]]:
    locked = workflows.lock_free(connection, owners, limit=len(owners))
    ended = [workflow.id for workflow in locked.values() if not workflow.is_live]
    busy = set(owners) - locked.keys()
    if not ended:
        return 0, busy
    free = outbox.lock_free_open_of(connection, ended)
    items = work_items.lock_free_of_rows(connection, free)
    # A row that is locked gets no item and loses none; one whose item somebody holds is left to a later call.
    held = work_items.present(connection, free) - items.keys()
    settled = [row_id for row_id in free if row_id not in held]
    work_items.delete(connection, [item.delivery for item in items.values()])
    outbox.cancel(connection, settled)
    return len(settled), busy | set(left_open.open_among(connection, ended))
