"""Abandon a delivery: give the row back without a completion, as one more delivery that failed."""

from __future__ import annotations

import random
from datetime import timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.flow.endings import backoff, dead_letters, returning
from durable.flow.endings.dead_letters import Death
from durable.flow.transactions import reporting, transaction
from durable.outcomes import Cause, Claim, Failure, GiveBack
from durable.store.deliveries import failed_attempts, outbox, work_items
from durable.store.deliveries.failed_attempts import NewFailedAttempt
from durable.store.deliveries.outbox import Return
from durable.store.runs import workflows
from durable.store.texts import failures


def abandon(
    claim: Claim,
    *,
    cause: Cause,
    failure: Failure | None = None,
    error: BaseException | None = None,
    delay: timedelta | None = None,
) -> GiveBack:
    """Gives a delivery back: pending again after `delay` (None: the delivery back-off), or a dead letter when that was
    the last of the delivery budget.

    Commits together: the item is gone, the row and its count, the failed attempt, and what a dead letter brings. A row
    that its workflow has asked to cancel is closed instead. A token that is gone changes nothing. Retried as a whole on
    the retryable errors; raises what remains. `error` is what `failure` describes, for who reports it.
    """
    may_end = claim.delivery_failures + 1 >= claim.delivery_budget
    if delay is None:
        delay = backoff.delivery(claim.delivery_failures + 1, random.Random())

    def body(connection: BaseDatabaseWrapper) -> GiveBack:
        owners = workflows.lock(connection, [claim.workflow_id] if may_end or claim.single else [])
        rows = outbox.lock(connection, [claim.row_id])
        item = work_items.lock_with_heartbeats(connection, [(claim.row_id, claim.token)]).get(
            (claim.row_id, claim.token)
        )
        if item is None:
            return GiveBack.TOKEN_MISSING
        row = rows[claim.row_id]
        work_items.delete(connection, [item.delivery])
        kept = None if failure is None else failures.stored(failure, claim.workflow_id, claim.ordinal)
        failed_attempts.record(
            connection,
            [NewFailedAttempt(claim.row_id, claim.delivery, claim.worker, None, cause, kept)],
        )
        if item.asked_to_cancel:
            returning.close_cancelled(connection, [item], owners, at=clock.database_now(connection))
            return GiveBack.SETTLED
        if may_end:
            death = Death(owners[claim.workflow_id], row, cause, heartbeat=item.heartbeat, error=failure, raised=error)
            dead_letters.bury(connection, [death], at=clock.database_now(connection))
            return GiveBack.DEAD_LETTERED
        reporting.delivery_failed(row, cause, worker=claim.worker, error=failure, delay=delay)
        outbox.give_back(
            connection, [Return(claim.row_id, delay, failures=1, cause=cause.value, heartbeat=item.heartbeat)]
        )
        return GiveBack.PENDING

    return transaction.own(body)
