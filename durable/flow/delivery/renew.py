"""Renew the leases of what this process holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.transactions import transaction
from durable.outcomes import HeldDelivery, Renewal
from durable.store.deliveries import work_items


def renew(held: Sequence[HeldDelivery], *, lease_for: timedelta) -> list[Renewal]:
    """Extends the leases by token, and stores the latest heartbeat details; one outcome each, in the given order.

    An item that another session has locked is *busy*, never *lost*: one locked item must not stop every renewal, and it
    is retried at the next beat. Lost means that the token is gone.
    """
    if not held:
        return []

    def body(connection: BaseDatabaseWrapper) -> list[Renewal]:
        locked = work_items.lock_free(connection, [(h.row_id, h.token) for h in held])
        work_items.extend(connection, [h for h in held if (h.row_id, h.token) in locked], lease_for=lease_for)
        unlocked = {(h.row_id, h.token) for h in held} - locked.keys()
        there = work_items.still_there(connection, unlocked) if unlocked else set()
        answers = []
        for h in held:
            delivery = (h.row_id, h.token)
            if delivery not in locked:
                answers.append(Renewal.BUSY if delivery in there else Renewal.LOST)
            elif locked[delivery].asked_to_cancel:
                answers.append(Renewal.CANCEL_REQUESTED)
            else:
                answers.append(Renewal.RENEWED)
        return answers

    return transaction.own(body)
