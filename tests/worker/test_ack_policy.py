"""Which verb writes an outcome, and what follows a try that failed, in a worker and in `durable.testing`."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError

from durable.kernel.texts.failure import describe
from durable.outcomes import AckOutcome, Cancelled, Cause, Claim, Completed, Failed, Failure, RetryLater
from durable.worker.handlers.ack_policy import (
    ABANDON_DELAY,
    WAITS_US,
    Abandon,
    Acknowledge,
    Again,
    Known,
    Postpone,
    WaitForLock,
    after_failure,
    nobody_locks,
    verb,
)
from durable.worker.handlers.execute import CommitFailed, Committed, GiveUp, Lacking, PutOff

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLAIM = Claim(
    row_id=1,
    token=uuid.uuid4(),
    workflow_id=uuid.uuid4(),
    run=1,
    ordinal=1,
    activity="shop.charge",
    payload="{}",
    options={},
    attempts=0,
    delivery=1,
    delivery_failures=0,
    attempt_budget=5,
    delivery_budget=8,
    single=False,
    worker="w",
    created_at=NOON,
    last_heartbeat=None,
)
FAILURE = Failure("E", "broken")


class LockMet(OperationalError):
    """Somebody held the lock, as psycopg says it."""

    def __init__(self) -> None:
        super().__init__("canceling statement due to lock timeout")
        self.__cause__ = _lock_not_available()


def _lock_not_available() -> BaseException:
    psycopg = pytest.importorskip("psycopg")
    error: BaseException = psycopg.errors.LockNotAvailable("lock timeout")
    return error


BROKEN = IntegrityError("null value in column")
GONE = OperationalError("server closed the connection unexpectedly")


def somebody_locks() -> bool:
    return True


def never_asked() -> bool:
    raise AssertionError("The store was asked for a lock where the answer does not count.")


@pytest.mark.parametrize(
    "ending",
    [
        Completed(CLAIM, "1"),
        Failed(CLAIM, FAILURE, Cause.APPLICATION_ERROR, NOON),
        RetryLater(CLAIM, FAILURE, Cause.APPLICATION_ERROR, NOON, 1_000),
        Cancelled(CLAIM),
    ],
    ids=lambda ending: type(ending).__name__,
)
def test_an_ending_is_acknowledged_whoever_holds_a_lock(ending: Any) -> None:
    assert verb(ending, is_locked=never_asked) == Acknowledge(ending)


@pytest.mark.parametrize("outcome", AckOutcome)
def test_what_was_committed_with_its_handler_is_known(outcome: AckOutcome) -> None:
    assert verb(Committed(CLAIM, outcome), is_locked=never_asked) == Known(outcome)


def test_a_delivery_that_never_began_is_abandoned_with_the_back_off_of_deliveries() -> None:
    outcome = GiveUp(CLAIM, Cause.UNDECODABLE_INPUT, FAILURE, BROKEN)
    step = verb(outcome, is_locked=nobody_locks)
    assert step == Abandon(Cause.UNDECODABLE_INPUT, FAILURE, BROKEN, None)
    assert isinstance(step, Abandon)
    assert step.error is BROKEN


def test_a_delivery_that_could_not_begin_yet_is_postponed() -> None:
    outcome = PutOff(CLAIM, timedelta(seconds=3), Lacking.CONNECTION)
    assert verb(outcome, is_locked=nobody_locks) == Postpone(timedelta(seconds=3), Lacking.CONNECTION)


@pytest.mark.parametrize(
    "outcome", [GiveUp(CLAIM, Cause.UNKNOWN_HANDLER, FAILURE), PutOff(CLAIM, timedelta(seconds=3))], ids=["up", "off"]
)
def test_nothing_is_given_back_into_a_lock_that_somebody_holds(outcome: Any) -> None:
    assert verb(outcome, is_locked=somebody_locks) == WaitForLock()


def test_a_transactional_handler_whose_commit_failed_is_abandoned_for_a_moment() -> None:
    step = verb(CommitFailed(CLAIM, FAILURE, BROKEN), is_locked=never_asked)
    assert step == Abandon(Cause.ACK_ABANDONED, FAILURE, BROKEN, ABANDON_DELAY)
    assert verb(CommitFailed(CLAIM, FAILURE), is_locked=never_asked) == step


def test_a_transactional_handler_that_met_a_lock_waits_while_it_is_held() -> None:
    error = LockMet()
    assert verb(CommitFailed(CLAIM, FAILURE, error), is_locked=somebody_locks) == WaitForLock()
    assert isinstance(verb(CommitFailed(CLAIM, FAILURE, error), is_locked=nobody_locks), Abandon)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("tries", [1, 2, 3, 4])
def test_a_passing_error_is_tried_again_after_the_wait_of_its_try(tries: int, together: bool) -> None:
    """Specification A2."""
    step = after_failure(GONE, tries=tries, together=together, is_locked=never_asked)
    assert step == Again((100_000, 200_000, 400_000, 800_000)[tries - 1])


def test_the_fifth_passing_error_abandons() -> None:
    step = after_failure(GONE, tries=len(WAITS_US) + 1, together=False, is_locked=never_asked)
    assert step == Abandon(Cause.ACK_ABANDONED, describe(GONE), GONE, ABANDON_DELAY)


def test_a_permanent_error_abandons_at_once_and_of_several_each_speaks_for_itself() -> None:
    assert isinstance(after_failure(BROKEN, tries=1, together=False, is_locked=never_asked), Abandon)
    assert after_failure(BROKEN, tries=1, together=True, is_locked=never_asked) == Again(0)
    assert after_failure(BROKEN, tries=9, together=True, is_locked=never_asked) == Again(0)


def test_a_lock_is_asked_for_after_the_last_try_only_and_waited_for_while_it_is_held() -> None:
    """ADR 016."""
    error = LockMet()
    assert after_failure(error, tries=4, together=False, is_locked=never_asked) == Again(800_000)
    assert after_failure(error, tries=5, together=False, is_locked=somebody_locks) == WaitForLock()
    assert isinstance(after_failure(error, tries=5, together=False, is_locked=nobody_locks), Abandon)
