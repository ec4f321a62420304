"""Claims due rows: each becomes one delivery, counted, under a token."""

from __future__ import annotations

import uuid
from datetime import timedelta
from functools import partial

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.transactions import transaction
from durable.flow.transactions.transaction import Waits
from durable.outcomes import Claim
from durable.store.deliveries import claims, outbox


def claim(
    *,
    worker: str,
    limit: int,
    queues: tuple[str, ...] | None,
    lease_for: timedelta,
    token: uuid.UUID | None = None,
) -> list[Claim]:
    """Claim at most `limit` due rows of `queues` (None: all queues); higher priority first, then the earlier due.

    Commits together: the rows' status, time and delivery count, and their work items. Suspects are left out. A caller
    that has to know what an unreported commit claimed chooses the `token`, fresh for each call, and asks `made_under`.
    """
    return _claim(worker, limit, queues, lease_for, token, suspects=False)


def made_under(token: uuid.UUID, *, worker: str) -> list[Claim]:
    """The deliveries that were claimed under this token and are still out. Reads only."""
    return transaction.reading(partial(claims.made_under, token=token, worker=worker))


def suspects_due(queues: tuple[str, ...] | None) -> int:
    """The number of due suspects in these queues (None: all), capped at 100. Reads only."""
    return transaction.reading(partial(outbox.count_suspects_due, queues=queues))


def claim_suspect(
    *, worker: str, queues: tuple[str, ...] | None, lease_for: timedelta, token: uuid.UUID | None = None
) -> list[Claim]:
    """Claim one due suspect, if there is one. The caller must have nothing else in flight, and must claim nothing until
    this delivery has ended.
    """
    return _claim(worker, 1, queues, lease_for, token, suspects=True)


def _claim(
    worker: str,
    limit: int,
    queues: tuple[str, ...] | None,
    lease_for: timedelta,
    chosen: uuid.UUID | None,
    *,
    suspects: bool,
) -> list[Claim]:
    if transaction.engine_connection().vendor == "sqlite":
        # On SQLite a look needs no lock; a transaction that finds nothing would have made all other writers wait.
        look = partial(claims.anything_due, queues=queues, suspects=suspects)
        if not transaction.reading(look):
            return []
    token = chosen or uuid.uuid4()
    tries: list[None] = []

    def body(connection: BaseDatabaseWrapper) -> list[Claim]:
        if tries:
            claimed = claims.made_under(connection, token, worker)
            if claimed:
                return claimed
        tries.append(None)
        row_ids = claims.lock_due(connection, limit=limit, queues=queues, suspects=suspects)
        return claims.make(connection, row_ids, token=token, worker=worker, lease_for=lease_for) if row_ids else []

    return transaction.own(body, waits=Waits.LATER)
