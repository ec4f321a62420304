"""`run` and `drain`: workflows carried on within a test, in its own transaction and without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import TestCase

import durable
from durable import CancelAnswer, WorkflowStatus, clock, testing
from tests.ledger.models import Entry
from tests.testing import plant

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture(
    params=[
        pytest.param("open", marks=pytest.mark.django_db, id="in the test's transaction"),
        pytest.param("none", marks=pytest.mark.django_db(transaction=True), id="without a transaction"),
    ]
)
def database(request: pytest.FixtureRequest) -> None:
    assert connection.in_atomic_block is (request.param == "open")


@pytest.fixture(
    params=[
        pytest.param("warm", marks=pytest.mark.django_db, id="warm, in the test's transaction"),
        pytest.param("cold", marks=pytest.mark.django_db, id="cold, in the test's transaction"),
        pytest.param("warm", marks=pytest.mark.django_db(transaction=True), id="without a transaction"),
    ]
)
def surroundings(request: pytest.FixtureRequest) -> Iterator[None]:
    with testing.cold() if request.param == "cold" else nullcontext():
        yield


@pytest.mark.usefixtures("surroundings")
class TestRun:
    """Each of these in and out of a transaction, warm and cold (faults R3)."""

    def test_a_workflow_of_thirty_days_answers_its_result_at_once(self) -> None:
        assert testing.run(plant.checkout, 42) == "R-42: parcel 0, parcel 1, parcel 2"
        assert [entry.label for entry in Entry.objects.all()] == ["order 42"]

    def test_a_workflow_that_was_started_before_is_run_by_its_handle(self) -> None:
        handle = plant.checkout.start(7, key="order-7")
        assert testing.run(handle).startswith("R-7")
        assert handle.status() is WorkflowStatus.COMPLETED

    @pytest.mark.parametrize(
        ("left", "error"),
        [
            (plant.leave_open, "durable.errors.TransactionLeftOpen"),
            (plant.leave_open_together, "durable.errors.TransactionSpoilt"),
        ],
    )
    def test_a_handler_that_leaves_a_transaction_open_fails_as_in_a_worker(self, left: Any, error: str) -> None:
        """Faults C10. The test's own transaction goes on."""
        with pytest.raises(durable.WorkflowFailed) as failed:
            testing.run(left, "lost")
        assert failed.value.type == error
        assert testing.run(plant.book, "kept")
        assert [entry.label for entry in Entry.objects.all()] == ["kept"]

    def test_the_clock_moves_to_the_due_moments_and_no_further(self) -> None:
        with testing.freeze(NOON) as frozen:
            assert testing.run(plant.asleep, 30) == (NOON + 30 * DAY).isoformat()
            assert frozen.now == NOON + 30 * DAY

    def test_a_clock_that_nobody_froze_runs_again_afterwards(self) -> None:
        testing.run(plant.asleep, 30)
        assert not clock.is_frozen()

    def test_a_later_start_is_jumped_to(self) -> None:
        with testing.freeze(NOON):
            assert testing.run(plant.watched_clock, start_at=NOON + DAY) == NOON + DAY

    def test_signals_come_at_their_moments(self) -> None:
        with testing.freeze(NOON):
            signals: list[Any] = [(2 * HOUR, "second", {"ok": True}), (HOUR, "first")]
            assert testing.run(plant.patient, signals=signals) == [None, {"ok": True}, (NOON + 2 * HOUR).isoformat()]

    def test_a_signal_that_comes_in_time_beats_the_limit_and_one_that_comes_late_does_not(self) -> None:
        assert testing.run(plant.approval, 3600, signals=[(59 * MINUTE, "approval", "yes")]) == "yes"
        assert testing.run(plant.approval, 3600, signals=[(61 * MINUTE, "approval", "yes")]) == "nobody approved"

    def test_a_step_gets_the_handle_and_may_cancel(self) -> None:
        answers: list[Any] = []
        reason = "no longer wanted"
        with pytest.raises(durable.WorkflowCancelled, match=reason):
            testing.run(plant.tidy, steps=[(HOUR, lambda handle: answers.append(handle.cancel(reason=reason)))])
        assert answers[0].answer is CancelAnswer.ASKED
        assert Entry.objects.get().label == "tidied up"

    def test_a_failure_is_raised_as_by_result(self) -> None:
        with pytest.raises(durable.WorkflowFailed) as caught:
            testing.run(plant.broken)
        assert (caught.value.type, caught.value.message) == ("ValueError", "no such order")

    def test_a_bug_in_workflow_code_is_raised_as_it_is(self) -> None:
        with pytest.raises(KeyError, match="no such price") as caught:
            testing.run(plant.buggy)
        assert caught.traceback[-1].name == "buggy"
        handle = plant.buggy.start()
        with pytest.raises(KeyError, match="no such price"):
            testing.drain()
        assert handle.status() == "running"

    def test_a_workflow_that_a_bug_has_blocked_before_says_so(self) -> None:
        handle = plant.buggy.start()
        with pytest.raises(KeyError):
            testing.drain()
        with pytest.raises(durable.WorkflowBlocked, match="KeyError") as caught:
            testing.run(handle)
        assert "in buggy" in caught.value.data["traceback"]

    def test_a_timeout_of_the_workflow_is_raised_as_by_result(self) -> None:
        with pytest.raises(durable.WorkflowTimedOut):
            testing.run(plant.asleep, 30, timeout=DAY)

    def test_retries_are_jumped_to(self) -> None:
        with testing.freeze(NOON) as frozen, testing.failing(plant.charge, times=2) as fault:
            receipt = testing.run(plant.charge, 1, Decimal(1))
            assert (receipt, fault.raised) == (plant.Receipt("R-1", Decimal(1)), 2)
            assert frozen.now == NOON + 3 * MINUTE

    def test_a_transactional_activity_commits_with_its_completion(self) -> None:
        key = testing.run(plant.transfer, "once")
        assert key.endswith(":1:1")
        assert Entry.objects.get().label == "once"

    def test_a_database_error_costs_one_attempt_and_not_the_test(self) -> None:
        """On PostgreSQL a failed statement would refuse everything that follows in the test's transaction."""
        assert testing.run(plant.careful) == "in order"


@pytest.mark.usefixtures("db")
class TestWhatNeverEnds:
    def test_a_signal_that_nobody_sends_is_named(self) -> None:
        with pytest.raises(testing.NeverEnds, match="It waits for the signal 'first'") as caught:
            testing.run(plant.patient)
        assert caught.value.waits_for == ("the signal 'first'",)

    def test_an_event_that_nobody_sets_is_said(self) -> None:
        with pytest.raises(testing.NeverEnds, match="something that nothing will bring"):
            testing.run(plant.lost)

    def test_a_dead_letter_that_nobody_redrives_is_said(self) -> None:
        words = r"activity 1 \(plant.book\), which is a dead letter \(ack_abandoned\)"
        never = testing.failing("acknowledge", times=100, error=ValueError("never"))
        with never, pytest.raises(testing.NeverEnds, match=words):
            testing.run(plant.transfer, "lost")
        assert not Entry.objects.exists()

    def test_more_time_than_allowed_is_not_skipped(self) -> None:
        with testing.freeze(NOON), pytest.raises(testing.NeverEnds, match=r"2030-02-10.* more than 1 day"):
            testing.run(plant.asleep, 40, within=DAY)

    def test_a_workflow_without_an_end_is_given_up_after_ten_years(self) -> None:
        with pytest.raises(testing.NeverEnds, match="more than 3650 days"):
            testing.run(plant.for_ever)

    def test_what_is_no_workflow_can_not_be_run(self) -> None:
        with pytest.raises(TypeError, match="nothing to run"):
            testing.run(len)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="pass the handle alone"):
            testing.run(plant.broken.start(), 1)


@pytest.mark.usefixtures("database")
class TestDrain:
    def test_what_is_due_now_runs_and_the_clock_stays(self) -> None:
        with testing.freeze(NOON):
            handle = plant.checkout.start(1)
            report = testing.drain()
            assert (report.attempts, report.closed, report.retried, report.faults) == (5, 0, 0, ())
            assert (report.at, report.next_due_at) == (NOON, NOON + 30 * DAY)
            assert handle.status() is WorkflowStatus.RUNNING

    def test_nothing_is_due_when_there_is_nothing(self) -> None:
        report = testing.drain()
        assert (report.turns, report.attempts, report.closed, report.next_due_at) == (0, 0, 0, None)

    def test_a_retry_waits_for_the_frozen_clock(self) -> None:
        with testing.freeze(NOON), testing.failing(plant.charge, times=1):
            handle = plant.charge.enqueue(1, Decimal(1))
            first = testing.drain()
            assert (first.attempts, first.retried, first.next_due_at) == (1, 1, NOON + MINUTE)
            testing.move(MINUTE - timedelta(microseconds=1))
            assert testing.drain().attempts == 0
            testing.move(timedelta(microseconds=1))
            last = testing.drain()
            assert (last.attempts, last.closed, last.next_due_at) == (1, 1, None)
            assert handle.result(timeout=0).number == "R-1"

    def test_until_a_moment_everything_on_the_way_runs(self) -> None:
        with testing.freeze(NOON):
            handle = plant.checkout.start(1)
            assert testing.drain(until=29 * DAY).closed == 0
            report = testing.drain(until=NOON + 31 * DAY)
            assert (report.closed, report.at) == (1, NOON + 31 * DAY)
            assert handle.status() is WorkflowStatus.COMPLETED

    def test_several_workflows_are_carried_on_together(self) -> None:
        handles = plant.approval.start_many([(60,), (120,)])
        report = testing.drain(until=HOUR)
        assert report.closed == 2
        assert {handle.result(timeout=0) for handle in handles} == {"nobody approved"}

    def test_a_handler_that_moves_the_clock_behind_its_limit_has_overrun(self) -> None:
        with testing.freeze(NOON), testing.replaced({plant.slow: lambda: testing.move(2 * MINUTE).isoformat()}):
            assert testing.run(plant.limited) == "TimeoutError"


class TestInDjangosTestCase(TestCase):
    """The way of most projects."""

    def test_a_workflow_runs_to_its_end(self) -> None:
        assert testing.run(plant.checkout, 1) == "R-1: parcel 0, parcel 1, parcel 2"
        assert Entry.objects.count() == 1


def test_the_clock_moves_forward_only_and_when_it_is_frozen() -> None:
    with pytest.raises(ValueError, match="Only a frozen clock"):
        testing.move(HOUR)
    with testing.freeze(NOON), pytest.raises(ValueError, match="forward only"):
        testing.move(-HOUR)
    with pytest.raises(ValueError, match="aware"):
        testing.freeze(NOON.replace(tzinfo=None))


def test_a_nested_freeze_gives_the_outer_moment_back() -> None:
    with testing.freeze(NOON) as outer:
        with testing.freeze(NOON + DAY):
            assert testing.move(HOUR) == NOON + DAY + HOUR
        assert outer.now == NOON
    assert not clock.is_frozen()
    testing.freeze(NOON)
    testing.unfreeze()
    assert not clock.is_frozen()
