"""Claims due rows: each becomes one delivery, counted, under a token."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.transactions import transaction
from durable.flow.transactions.commits import ClaimCommit
from durable.flow.transactions.transaction import Waits
from durable.outcomes import Claim
from durable.store.deliveries import claims, outbox


def claim(
    *,
    worker: str,
    limit: int,
    queues: tuple[str, ...] | None,
    lease_for: timedelta,
    commit: ClaimCommit | None = None,
) -> list[Claim]:
    """Claim at most `limit` due rows of `queues` (None: all queues); higher priority first, then the earlier due.

    Commits together: the rows' status, time and delivery count, and their work items. Suspects are left out. A caller
    that has to know what an unreported commit claimed passes a `ClaimCommit`, fresh for each call, asks
    `made_in_doubt`, and says `confirmed` once it knows.
    """
    return _claim(limit, queues, lease_for, worker, commit or ClaimCommit(worker), suspects=False)


def made_in_doubt(commit: ClaimCommit) -> list[Claim]:
    """The deliveries that a claim with unknown outcome has made and that are still out. Reads only, if in doubt."""
    return transaction.reading(commit.made) or []


def suspects_due(queues: tuple[str, ...] | None) -> int:
    """The number of due suspects in these queues (None: all), capped at 100. Reads only."""
    return transaction.reading(partial(outbox.count_suspects_due, queues=queues))


def claim_suspect(
    *, worker: str, queues: tuple[str, ...] | None, lease_for: timedelta, commit: ClaimCommit | None = None
) -> list[Claim]:
    """Claim one due suspect, if there is one. The caller must have nothing else in flight, and must claim nothing until
    this delivery has ended.
    """
    return _claim(1, queues, lease_for, worker, commit or ClaimCommit(worker), suspects=True)


def _claim(
    limit: int,
    queues: tuple[str, ...] | None,
    lease_for: timedelta,
    worker: str,
    commit: ClaimCommit,
    *,
    suspects: bool,
) -> list[Claim]:
    if transaction.engine_connection().vendor == "sqlite":
        # On SQLite a look needs no lock; a transaction that finds nothing would have made all other writers wait.
        look = partial(claims.anything_due, queues=queues, suspects=suspects)
        if not transaction.reading(look):
            return []

    def body(connection: BaseDatabaseWrapper) -> list[Claim]:
        row_ids = claims.lock_due(connection, limit=limit, queues=queues, suspects=suspects)
        if not row_ids:
            return []
        claimed = claims.make(connection, row_ids, token=commit.token, worker=worker, lease_for=lease_for)
        commit.sent()
        return claimed

    return transaction.own(body, waits=Waits.LATER, commit=commit)
