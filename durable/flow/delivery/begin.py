"""Begins a delivery that was sent: the process that got the message takes it over, once."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import timedelta
from functools import partial

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.transactions import transaction
from durable.flow.transactions.commits import ClaimCommit
from durable.outcomes import Claim
from durable.store.deliveries import claims, outbox, work_items
from durable.store.deliveries.work_items import DeliveryKey


def begin(row_id: int, token: uuid.UUID, *, worker: str, lease_for: timedelta, commit: ClaimCommit) -> Claim | None:
    """Takes over the delivery that was sent under `token`; the token that `commit` carries is its only one from then
    on. Returns None, with nothing changed, if that delivery has begun already, has ended or was asked to stop: a second
    message, or a late one, changes nothing.

    Commits together: the item's token, worker, lease and the time at which it began, and the name of the worker in the
    row. Retried as a whole on the retryable errors, raises what remains; called again with the same `commit`, it
    recognises what an earlier call has committed without a reply.
    """

    def body(connection: BaseDatabaseWrapper) -> list[Claim]:
        outbox.lock_ids(connection, [row_id])
        begun = work_items.begin(connection, row_id, token, new_token=commit.token, worker=worker, lease_for=lease_for)
        if not begun:
            return []
        outbox.name_worker(connection, row_id, worker)
        claimed = claims.made_under(connection, commit.token, worker)
        commit.sent()
        return claimed

    claimed = transaction.own(body, commit=commit)
    commit.confirmed()
    return claimed[0] if claimed else None


def unbegun(deliveries: Collection[DeliveryKey]) -> set[DeliveryKey]:
    """Which of these deliveries are still out under the token with which they were sent. Reads only."""
    if not deliveries:
        return set()
    return transaction.reading(partial(work_items.still_there, deliveries=deliveries))
