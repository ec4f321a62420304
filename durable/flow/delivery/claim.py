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
    but: tuple[str, ...] = (),
) -> list[Claim]:
    """Claims at most `limit` due rows of `queues` (None: all queues except `but`); higher priority first, then the
    earlier due.

    Commits together: the rows' status, time and delivery count, and their work items. Suspects are left out. A caller
    that has to know what an unreported commit claimed passes a `ClaimCommit`, fresh for each call, asks
    `made_in_doubt`, and says `confirmed` once it knows.
    """
    return _claim(limit, queues, but, lease_for, worker, commit or ClaimCommit(worker), suspects=False)


def claim_to_send(worker: str, *, limit: int, queue: str, lease_for: timedelta, commit: ClaimCommit) -> list[Claim]:
    """Claims at most `limit` due rows of a queue, suspects included, for deliveries that other processes will begin: a
    process of a transport runs one delivery at a time, so a suspect is alone there.
    """

    def body(connection: BaseDatabaseWrapper) -> list[Claim]:
        row_ids = claims.lock_due(connection, limit=limit, queues=(queue,), suspects=False)
        if limit > len(row_ids):
            row_ids += claims.lock_due(connection, limit=limit - len(row_ids), queues=(queue,), suspects=True)
        if not row_ids:
            return []
        claimed = claims.make(connection, row_ids, token=commit.token, worker=worker, lease_for=lease_for, to_send=True)
        commit.sent()
        return claimed

    return transaction.own(body, waits=Waits.LATER, commit=commit)


def anything_to_send(queue: str) -> bool:
    """Whether `claim_to_send` may find a row. Reads only."""

    def look(connection: BaseDatabaseWrapper) -> bool:
        return any(claims.anything_due(connection, queues=(queue,), suspects=suspects) for suspects in (False, True))

    return transaction.reading(look)


def made_in_doubt(commit: ClaimCommit) -> list[Claim]:
    """The deliveries that a claim with unknown outcome has made and that are still out. Reads only, if in doubt."""
    return transaction.reading(commit.made) or []


def suspects_due(queues: tuple[str, ...] | None, *, but: tuple[str, ...] = ()) -> int:
    """The number of due suspects in these queues (None: all except `but`), capped at 100. Reads only."""
    return transaction.reading(partial(outbox.count_suspects_due, queues=queues, but=but))


def claim_suspect(
    *,
    worker: str,
    queues: tuple[str, ...] | None,
    lease_for: timedelta,
    commit: ClaimCommit | None = None,
    but: tuple[str, ...] = (),
) -> list[Claim]:
    """Claims one due suspect, if there is one. The caller must have nothing else in flight, and must claim nothing
    until this delivery has ended.
    """
    return _claim(1, queues, but, lease_for, worker, commit or ClaimCommit(worker), suspects=True)


def _claim(
    limit: int,
    queues: tuple[str, ...] | None,
    but: tuple[str, ...],
    lease_for: timedelta,
    worker: str,
    commit: ClaimCommit,
    *,
    suspects: bool,
) -> list[Claim]:
    if queues is None and but and not suspects:
        # By their names, the rows of the other queues are found without walking past those that are left out.
        queues = transaction.reading(partial(claims.pending_queues, but=but))
    if queues == ():
        return []
    if transaction.engine_connection().vendor == "sqlite":
        # On SQLite a look needs no lock; a transaction that finds nothing would have made all other writers wait.
        look = partial(claims.anything_due, queues=queues, suspects=suspects, but=but)
        if not transaction.reading(look):
            return []

    def body(connection: BaseDatabaseWrapper) -> list[Claim]:
        row_ids = claims.lock_due(connection, limit=limit, queues=queues, suspects=suspects, but=but)
        if not row_ids:
            return []
        claimed = claims.make(connection, row_ids, token=commit.token, worker=worker, lease_for=lease_for)
        commit.sent()
        return claimed

    return transaction.own(body, waits=Waits.LATER, commit=commit)
