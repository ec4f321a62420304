"""Acknowledges deliveries: checks the token, deletes the work item, closes the row, hands over the completion.

One transaction for everything that is due at the same moment; the schedule of retries is the worker's, and whatever the
database raised goes to it untouched.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.errors import TokenMissing
from durable.flow.delivery import doubts
from durable.flow.endings import closing, dead_letters
from durable.flow.endings.dead_letters import Death, is_held
from durable.flow.transactions import lending, reporting, transaction
from durable.flow.transactions.transaction import Patience, Waits
from durable.kernel.history.events import EventType, MessageKind
from durable.kernel.payloads import wire
from durable.outcomes import (
    AckOutcome,
    Cancelled,
    Cause,
    Claim,
    Completed,
    Ending,
    Failed,
    OutboxStatus,
    RetryLater,
    WorkflowStatus,
)
from durable.store.deliveries import failed_attempts, outbox, together, work_items
from durable.store.deliveries.failed_attempts import NewFailedAttempt
from durable.store.deliveries.outbox import LockedRow, Return
from durable.store.deliveries.work_items import DeliveryKey
from durable.store.runs import messages, workflows
from durable.store.runs.messages import NewMessage
from durable.store.runs.workflows import LockedWorkflow
from durable.store.texts import failures
from durable.store.texts.failures import StoredFailure


def acknowledge(endings: Sequence[Ending]) -> list[AckOutcome]:
    """Acknowledges ended deliveries in one transaction, never retried here; one outcome each, in the order given.

    Commits together, for every item whose token still holds: the item is gone; the row is done (success, or an error
    without attempts left), cancelled, or pending again (an error with attempts left); the failed attempt is kept; the
    completion waits for the workflow's next turn, or, for a single activity, ends its workflow. A missing token is an
    outcome of its item and changes nothing.
    """
    commit = doubts.Written()

    def body(connection: BaseDatabaseWrapper) -> list[AckOutcome]:
        outcomes = _write(connection, endings)
        # Late endings are not in doubt: the success of the others says nothing about them.
        commit.wrote([e for e, outcome in zip(endings, outcomes, strict=True) if outcome is AckOutcome.ACKNOWLEDGED])
        return outcomes

    with doubts.kept(commit):
        return transaction.own(body, patience=Patience.ONCE, waits=Waits.LATER, commit=commit)


def transactional(claim: Claim, handler: Callable[[], Completed]) -> AckOutcome:
    """Runs a handler and acknowledges it in one transaction: its own writes and its completion commit together.

    The token is first read without a lock, and locked last. Returns `TOKEN_MISSING`, with nothing written, if it is
    gone at either time: a retry after a commit with unknown outcome finds the same. An error of the handler rolls
    everything back and is raised; so is `TransactionSpoilt`, if the handler has made the transaction unusable.
    """
    commit = doubts.Written()

    def body(connection: BaseDatabaseWrapper) -> AckOutcome:
        if not work_items.holds(connection, claim.row_id, claim.token):
            return AckOutcome.TOKEN_MISSING
        ending = lending.lent(connection, handler, to=claim.activity)
        with lending.had_back(connection, of=claim.activity):
            outcome = _write(connection, [ending])[0]
        if outcome is AckOutcome.TOKEN_MISSING:
            raise TokenMissing(claim.row_id)
        commit.wrote([ending])
        return outcome

    try:
        with doubts.kept(commit):
            answer: AckOutcome = transaction.own(body, patience=Patience.ONCE, waits=Waits.LATER, commit=commit)
            return answer
    except TokenMissing:
        return AckOutcome.TOKEN_MISSING


def was_made(claim: Claim) -> bool:
    """Whether an acknowledgement of this process with an unknown commit has been made after all. If so, emits its lines
    and signals, once. Call it when the token is gone; it only reads if there is such a doubt.
    """
    doubt = doubts.pop(claim)
    if doubt is None:
        return False
    if transaction.reading(doubt.look) is not None:
        doubt.say()
        return True
    return False


def forget(claim: Claim) -> None:
    """Nothing is in doubt about this delivery any more."""
    doubts.pop(claim)


def _write(connection: BaseDatabaseWrapper, endings: Sequence[Ending]) -> list[AckOutcome]:
    # The first lock also bounds the transaction's lock waits: that of the workflows if there are any, else of the rows.
    owners = workflows.lock_and_bound_waits(
        connection, {e.claim.workflow_id for e in endings if e.claim.single or is_held(e)}
    )
    rows: dict[int, LockedRow] = {}
    if any(is_held(e) for e in endings):
        rows = outbox.lock(connection, [e.claim.row_id for e in endings])
    else:
        outbox.lock_ids_and_bound_waits(connection, [e.claim.row_id for e in endings])
    items = work_items.lock(connection, [(e.claim.row_id, e.claim.token) for e in endings])
    deliveries = list(items)
    outcomes: list[AckOutcome] = []
    valid: list[Ending] = []
    for e in endings:
        # A token is valid for one ending: a second one of the same delivery is late, as it would be in another batch.
        item = items.pop((e.claim.row_id, e.claim.token), None)
        outcomes.append(AckOutcome.TOKEN_MISSING if item is None else AckOutcome.ACKNOWLEDGED)
        if item is not None:
            valid.append(_heeding(e, item.asked_to_cancel))
    if valid:
        _report(valid)
        _close_rows(connection, deliveries, valid)
        _hand_over(connection, [e for e in valid if not is_held(e)], owners)
        held = [e for e in valid if is_held(e)]
        if held:
            at = clock.database_now(connection)
            dead_letters.bury(connection, [_death(e, owners, rows) for e in held], at=at)
    return outcomes


def _report(endings: Sequence[Ending]) -> None:
    for e in endings:
        if isinstance(e, RetryLater):
            reporting.attempt_failed(e)
        elif isinstance(e, Failed) and not is_held(e):
            reporting.activity_failed(e)


def _death(ending: Ending, owners: dict[uuid.UUID, LockedWorkflow], rows: dict[int, LockedRow]) -> Death:
    claim = ending.claim
    return Death(
        workflow=owners[claim.workflow_id],
        row=rows[claim.row_id],
        cause=Cause.RETRIES_EXHAUSTED,
        failures=0,
        attempts=1,
        heartbeat=ending.heartbeat,
        error=ending.failure if isinstance(ending, Failed) else None,
        raised=ending.error if isinstance(ending, Failed) else None,
    )


def _heeding(ending: Ending, asked_to_cancel: object) -> Ending:
    """After a cancel request no further attempt starts, and nothing waits for staff; a result that came
    first counts.
    """
    if asked_to_cancel and (isinstance(ending, RetryLater) or is_held(ending)):
        return Cancelled(ending.claim, ending.heartbeat)
    return ending


def _close_rows(connection: BaseDatabaseWrapper, deliveries: Sequence[DeliveryKey], endings: Sequence[Ending]) -> None:
    finished: list[tuple[int, OutboxStatus, int, str | None]] = []
    returned: list[Return] = []
    failed: list[NewFailedAttempt] = []
    for e in endings:
        claim = e.claim
        match e:
            case Failed() if is_held(e):
                pass
            case Completed() | Failed():
                finished.append((claim.row_id, OutboxStatus.DONE, 1, e.heartbeat))
            case Cancelled():
                finished.append((claim.row_id, OutboxStatus.CANCELLED, 0, e.heartbeat))
            case RetryLater():
                delay = timedelta(microseconds=e.delay_us)
                returned.append(Return(claim.row_id, delay, attempts=1, cause=e.cause.value, heartbeat=e.heartbeat))
        if isinstance(e, Failed | RetryLater):
            failed.append(
                NewFailedAttempt(claim.row_id, claim.delivery, claim.worker, e.started_at, e.cause, _stored(e))
            )
    together.finish(connection, deliveries, finished)
    outbox.give_back(connection, returned)
    failed_attempts.record(connection, failed)
    most = failed_attempts.FIRST_KEPT + failed_attempts.LAST_KEPT
    unlimited = [e.claim for e in endings if e.claim.attempt_budget is None and e.claim.delivery > most]
    failed_attempts.drop_middle(connection, [claim.row_id for claim in unlimited])


def _hand_over(
    connection: BaseDatabaseWrapper, endings: Sequence[Ending], owners: dict[uuid.UUID, LockedWorkflow]
) -> None:
    new_messages: list[NewMessage] = []
    ended = []
    for e in endings:
        claim = e.claim
        if claim.single:
            if not isinstance(e, RetryLater):
                ended.append(_end_of_single(owners[claim.workflow_id], e))
        elif isinstance(e, Completed):
            new_messages.append(
                NewMessage(claim.workflow_id, claim.run, MessageKind.COMPLETED, e.payload, claim.ordinal)
            )
        elif isinstance(e, Failed):
            payload = wire.dump({"failure": _stored(e).data, "attempts": claim.attempt})
            new_messages.append(NewMessage(claim.workflow_id, claim.run, MessageKind.FAILED, payload, claim.ordinal))
    messages.insert(connection, new_messages)
    if ended:
        at: datetime = clock.database_now(connection)
        closing.end_singles(connection, ended, at=at)


def _stored(ending: Failed | RetryLater) -> StoredFailure:
    return failures.stored(ending.failure, ending.claim.workflow_id, ending.claim.ordinal)


def _end_of_single(
    workflow: LockedWorkflow, ending: Completed | Failed | Cancelled
) -> tuple[LockedWorkflow, EventType, WorkflowStatus, str | None, StoredFailure | None]:
    match ending:
        case Completed():
            return workflow, EventType.WORKFLOW_COMPLETED, WorkflowStatus.COMPLETED, ending.payload, None
        case Failed():
            return workflow, EventType.WORKFLOW_FAILED, WorkflowStatus.FAILED, None, _stored(ending)
        case Cancelled():
            return workflow, EventType.WORKFLOW_CANCELLED, WorkflowStatus.CANCELLED, None, None
