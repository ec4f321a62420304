"""Recovers deliveries whose worker died. Part of every worker's loop; needs no row of the queue it repairs.

For each work item whose lease has expired, and each claimed row without an item, takes the workflow's lock and reads
its status: rows of an ended workflow are settled; others go back to pending with the delivery back-off, or become dead
letters when the budget is spent. A row whose workflow may have ended is never re-armed. A delivery that was sent to a
transport and has not begun goes back uncounted if its sender has died.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from django.db import Error as DjangoDatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.conf import settings
from durable.errors import WorkflowNotFound
from durable.flow.endings import backoff, dead_letters, returning
from durable.flow.endings.dead_letters import Death
from durable.flow.transactions import reporting, transaction
from durable.flow.transactions.transaction import Patience
from durable.logs import get_logger, words
from durable.outcomes import Cause, OutboxStatus, ReconcileReport
from durable.store.deliveries import beats, failed_attempts, left_open, outbox, work_items
from durable.store.deliveries.failed_attempts import NewFailedAttempt
from durable.store.deliveries.outbox import LockedRow, Return
from durable.store.deliveries.work_items import LockedItem
from durable.store.runs import workflows
from durable.store.runs.workflows import LockedWorkflow

logger = get_logger("durable.flow")

_PAGE = 100

Page = Callable[..., list[tuple[int, uuid.UUID]]]


def reconcile() -> ReconcileReport:
    """One round over all lost deliveries; returns the counts, and the errors for which single workflows were skipped.

    Works in pages by id, each in its own transaction, so that rows which it may not touch never hide those after them.
    A workflow, row or item that another session has locked is skipped until a later round. A database error ends the
    round and is raised; the pages before it are done, the current one is unchanged. An error that belongs to one
    workflow, such as a lock that is not granted, skips that workflow, is returned and logged, and stops no other.
    """
    counts: Counter[str] = Counter()
    errors: dict[uuid.UUID, str] = {}
    for source in (work_items.expired, left_open.claimed_without_item):
        after = 0
        while page := _page(source, after):
            after = page[-1][0]
            counts += _recover_isolating(page, errors, counts["rearmed"])
    return ReconcileReport(
        settled=counts["settled"],
        rearmed=counts["rearmed"],
        dead_lettered=counts["dead_lettered"],
        suspects_due=transaction.reading(outbox.count_suspects_due),
        errors=errors,
    )


def _page(source: Page, after: int) -> list[tuple[int, uuid.UUID]]:
    return transaction.reading(lambda connection: source(connection, after=after, limit=_PAGE))


def _recover_isolating(
    page: Sequence[tuple[int, uuid.UUID]],
    errors: dict[uuid.UUID, str],
    before: int,
    patience: Patience = Patience.JITTERED,
) -> Counter[str]:
    """One page in one transaction; if something in it is broken or locked, each workflow of the page in one of its own,
    tried once: there is another round.
    """
    try:
        return transaction.own(lambda connection: _recover(connection, page, before), patience=patience)
    except (DjangoDatabaseError, ValueError, LookupError, TypeError) as error:
        if isinstance(error, DjangoDatabaseError) and transaction.store_is_away(error):
            raise
        owners = {owner for _, owner in page}
        if len(owners) == 1:
            (owner,) = owners
            errors[owner] = words(error)
            logger.error("reconcile.workflow_left_alone", workflow=str(owner), error=errors[owner])
            return Counter()
        counts: Counter[str] = Counter()
        for owner in sorted(owners):
            mine = [entry for entry in page if entry[1] == owner]
            counts += _recover_isolating(mine, errors, before + counts["rearmed"], Patience.ONCE)
        return counts


def _recover(connection: BaseDatabaseWrapper, page: Sequence[tuple[int, uuid.UUID]], before: int) -> Counter[str]:
    """`before` is how many rows this round has already re-armed: rows that are recovered together come
    due one by one.
    """
    owners = workflows.lock_free(connection, {owner for _, owner in page}, limit=len(page))
    busy = {owner for _, owner in page} - owners.keys()
    if busy and (lost := busy - workflows.look(connection, busy).keys()):
        raise WorkflowNotFound(min(lost))
    rows = outbox.lock_free(connection, [row_id for row_id, owner in page if owner in owners])
    rows = {row_id: row for row_id, row in rows.items() if row.status is OutboxStatus.CLAIMED}
    present = work_items.present(connection, rows)
    items = work_items.lock_expired(connection, rows)
    fallen = [row for row in rows.values() if row.id in items or row.id not in present]
    if not fallen:
        return Counter()
    at = clock.database_now(connection)
    work_items.delete(connection, [item.delivery for item in items.values()])
    # A worker beats four times per lease; if its lease expired while it is still beating, it has lost it, not died.
    # What was claimed under its name before it started was a former process's of that name, and that one has died.
    alive = beats.alive(connection, {item.worker for item in items.values()}, within=settings.lease_for / 2)
    settled: list[int] = []
    stopped: list[LockedItem] = []
    returns: list[Return] = []
    deaths: list[Death] = []
    failed: list[NewFailedAttempt] = []
    for row in fallen:
        workflow, item = owners[row.workflow_id], items.get(row.id)
        if not workflow.is_live or workflow.run != row.run:
            settled.append(row.id)
            continue
        if item is not None and item.asked_to_cancel:
            stopped.append(item)
            continue
        if item is not None and item.is_unbegun and not _lives(item, row, alive):
            # Its handler has not run, so it has killed nobody. What a living sender lets expire is counted: it could go
            # on for ever.
            pace = backoff.paced(before + len(returns))
            returns.append(Return(row.id, pace, deliveries=-1, suspect=int(row.suspect), heartbeat=item.heartbeat))
            continue
        cause = Cause.LEASE_LOST if item is not None and _lives(item, row, alive) else Cause.WORKER_DIED
        failed.append(NewFailedAttempt(row.id, row.deliveries, item.worker if item else "", None, cause, None))
        _judge(workflow, row, item, cause, returns, deaths, before)
    outbox.cancel(connection, settled)
    returning.close_cancelled(connection, stopped, owners, at=at)
    outbox.give_back(connection, returns)
    failed_attempts.record(connection, failed)
    dead_letters.bury(connection, deaths, at=at)
    return Counter(settled=len(settled) + len(stopped), rearmed=len(returns), dead_lettered=len(deaths))


def _lives(item: LockedItem, row: LockedRow, alive: Mapping[str, datetime | None]) -> bool:
    """Whether the process that holds this delivery is alive, as far as heartbeats tell."""
    began = alive.get(item.worker)
    return item.worker in alive and (began is None or row.claimed_at is None or row.claimed_at >= began)


def _judge(
    workflow: LockedWorkflow,
    row: LockedRow,
    item: LockedItem | None,
    cause: Cause,
    returns: list[Return],
    deaths: list[Death],
    before: int,
) -> None:
    heartbeat = item.heartbeat if item else None
    failures = row.delivery_failures + 1
    if failures >= row.delivery_budget:
        deaths.append(Death(workflow, row, cause, heartbeat=heartbeat))
        return
    # One of the rows that a dead process held may have killed it: each is delivered alone from now on.
    delay = backoff.delivery(failures, random.Random()) + backoff.paced(before + len(returns))
    reporting.delivery_failed(row, cause, worker=item.worker if item else "", error=None, delay=delay)
    suspect = row.suspect if item is not None and item.is_unbegun else True
    returns.append(Return(row.id, delay, failures=1, suspect=int(suspect), cause=cause.value, heartbeat=heartbeat))
