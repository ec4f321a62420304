"""Settle what ended workflows left open: rows that a crash, or a change from outside, left behind."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow import transaction
from durable.flow.steps import closing
from durable.store import outbox, workflows

_BATCH = 500


def settle_closed(*, limit: int | None = None) -> int:
    """Cancel open rows and dead letters of terminal workflows and delete their items; answers the number of rows.

    In transactions of a batch each, under the workflows' locks; at most about `limit` rows (None: all there are).
    """
    settled = 0
    while limit is None or settled < limit:
        owners = transaction.reading(lambda connection: outbox.open_of_terminal(connection, limit=_BATCH))
        if not owners:
            break
        settled += transaction.own(partial(_settle, owners))
    return settled


def _settle(owners: Sequence[uuid.UUID], connection: BaseDatabaseWrapper) -> int:
    locked = workflows.lock(connection, owners)
    return closing.settle(connection, [w.id for w in locked.values() if not w.is_live])
