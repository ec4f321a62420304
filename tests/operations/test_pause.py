"""Pause and resume: no turn and no claim in between, and nothing is lost by it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.db import transaction as django_transaction

from durable.errors import OptionInvalid, WorkflowClosed, WorkflowNotFound
from durable.flow.caller import signal
from durable.flow.delivery import abandon, acknowledge
from durable.flow.transactions import transaction
from durable.models import Event, Message, OutboxRow, Workflow
from durable.operations import pause, redrive, resume, terminate
from durable.outcomes import AckOutcome, Cause, RetryLater, WorkflowState
from tests.flow import driver as flow
from tests.flow.cases import fan_out, limited, sequence, signalled, sleeper
from tests.flow.driver import Driver, failed, row, rows, workflow
from tests.flow.state import everything, only_postgresql
from tests.operations import cases
from tests.operations.faults import Moment, commits
from tests.operations.meeting import Halted, waiting
from tests.operations.scenes import TERMINAL, alive, bury, dead, history
from tests.waiting import PATIENCE, Gate, in_thread

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


def test_pausing_is_an_event_with_actor_and_reason_and_a_status(frozen_clock: Any) -> None:
    workflow_id = history().pk
    assert pause(workflow_id, actor="anna", reason="month end") is WorkflowState.PAUSED
    assert workflow(workflow_id).status == "paused"
    event = Event.objects.get(workflow_id=workflow_id, type="workflow_paused")
    assert (event.data, event.recorded_at) == ({"actor": "anna", "reason": "month end"}, frozen_clock.now)
    assert resume(workflow_id, actor="otto", reason="month over") is WorkflowState.RESUMED
    assert workflow(workflow_id).status == "running"
    event = Event.objects.get(workflow_id=workflow_id, type="workflow_resumed")
    assert event.data == {"actor": "otto", "reason": "month over"}
    assert workflow(workflow_id).last_seq == 3


def test_every_open_row_is_marked_whatever_its_status_and_none_of_another_workflow() -> None:
    owner, other = history(), history()
    made = {status: alive(owner, at, status=status) for at, status in enumerate(["pending", "claimed"], start=1)}
    made["dead"] = dead(owner, 3)
    stranger = alive(other)
    pause(owner.pk)
    for one in made.values():
        assert OutboxRow.objects.get(pk=one.pk).paused is True
    assert OutboxRow.objects.get(pk=stranger.pk).paused is False
    resume(owner.pk)
    assert set(OutboxRow.objects.values_list("paused", flat=True)) == {False}


def test_nothing_of_a_paused_workflow_is_claimed(driver: Driver) -> None:
    workflow_id = driver.start(fan_out, 3)
    driver.turn()
    pause(workflow_id)
    assert driver.claim() == []
    resume(workflow_id)
    assert len(driver.claim()) == 3


@pytest.mark.parametrize("cached", [0, 1000])
def test_the_turn_parks_what_comes_and_resume_gives_it_back(cached: int) -> None:
    driver = Driver(cached=cached)
    workflow_id = driver.start(sequence, 2)
    driver.turn()
    claim = driver.claim_one()
    pause(workflow_id)
    assert driver.complete(claim, payload="5") == [AckOutcome.ACKNOWLEDGED]
    assert driver.turn().workflows == 0
    assert list(Message.objects.values_list("kind", "parked")) == [("completed", True)]
    assert driver.turn().workflows == 0
    resume(workflow_id)
    driver.run()
    assert workflow(workflow_id).result == "6"
    assert flow.history(workflow_id)[2:4] == ["workflow_paused", "workflow_resumed"]


def test_a_paused_workflow_that_has_not_begun_does_not_begin(driver: Driver) -> None:
    workflow_id = driver.start(sequence, 1)
    pause(workflow_id)
    assert driver.turn().workflows == 0
    assert rows(workflow_id) == []
    resume(workflow_id)
    driver.run()
    assert workflow(workflow_id).status == "completed"


def test_a_row_that_goes_back_to_pending_while_paused_stays_unclaimable(driver: Driver) -> None:
    """By a mark on every row, so that one which is just going back is not missed."""
    workflow_id = driver.start(fan_out, 3)
    driver.turn()
    retried, abandoned, dying = driver.claim()
    pause(workflow_id)
    end = failed(retried)
    acknowledge.acknowledge([RetryLater(retried, end.failure, Cause.APPLICATION_ERROR, end.started_at, 0)])
    abandon.abandon(abandoned, cause=Cause.ACK_ABANDONED, delay=timedelta())
    bury(dying)
    redrive(workflow_id, dying.ordinal)
    assert [(r.status, r.paused) for r in rows(workflow_id)] == [("pending", True)] * 3
    assert driver.claim() == []
    resume(workflow_id)
    assert len(driver.claim()) == 3


def test_a_row_that_dies_while_paused_is_a_dead_letter_and_can_be_redriven_after_the_resume(driver: Driver) -> None:
    workflow_id = driver.start(sequence, 1)
    driver.turn()
    claim = driver.claim_one()
    pause(workflow_id)
    bury(claim)
    resume(workflow_id)
    assert redrive(workflow_id, 1).row.paused is False
    driver.run()
    assert workflow(workflow_id).status == "completed"


def test_a_dead_letter_that_is_delivered_while_paused_waits_for_the_resume(driver: Driver) -> None:
    workflow_id = driver.start(cases.careful, 1)
    driver.turn()
    claim = driver.claim_one()
    pause(workflow_id)
    bury(claim)
    assert driver.turn().workflows == 0
    resume(workflow_id)
    driver.run()
    assert "could not be delivered" in str(workflow(workflow_id).result)


def test_signals_are_accepted_while_it_is_paused_and_read_in_order_afterwards(driver: Driver) -> None:
    workflow_id = driver.start(signalled)
    driver.turn()
    pause(workflow_id)
    signal.signal(workflow_id, "go", payload='"first"')
    signal.signal(workflow_id, "go", payload='"second"')
    driver.turn()
    assert workflow(workflow_id).status == "paused"
    resume(workflow_id)
    driver.run()
    assert workflow(workflow_id).result == '"first"'


@pytest.mark.parametrize("cached", [0, 1000])
def test_a_timer_that_comes_due_while_paused_fires_after_the_resume(frozen_clock: Any, cached: int) -> None:
    driver = Driver(cached=cached)
    workflow_id = driver.start(sleeper, 60)
    driver.turn()
    pause(workflow_id)
    frozen_clock.move(timedelta(minutes=5))
    assert driver.turn().workflows == 0
    resume(workflow_id)
    driver.run()
    assert workflow(workflow_id).status == "completed"


def test_a_timer_that_is_not_due_yet_is_still_waited_for_after_the_resume(frozen_clock: Any, driver: Driver) -> None:
    workflow_id = driver.start(sleeper, 600)
    driver.turn()
    pause(workflow_id)
    frozen_clock.move(timedelta(minutes=5))
    resume(workflow_id)
    driver.run()
    assert workflow(workflow_id).status == "running"
    frozen_clock.move(timedelta(minutes=5))
    driver.run()
    assert workflow(workflow_id).status == "completed"


def test_of_a_result_and_a_time_limit_that_both_came_while_paused_the_earlier_one_counts(
    frozen_clock: Any, driver: Driver
) -> None:
    workflow_id = driver.start(limited, 60)
    driver.turn()
    claim = driver.claim_one()
    pause(workflow_id)
    frozen_clock.move(timedelta(seconds=30))
    driver.complete(claim, payload="1")
    driver.turn()
    frozen_clock.move(timedelta(seconds=60))
    resume(workflow_id)
    driver.run()
    assert workflow(workflow_id).result == '"in time"'


def test_a_workflow_whose_own_time_is_up_while_paused_times_out_after_the_resume(
    frozen_clock: Any, driver: Driver
) -> None:
    workflow_id = driver.start(signalled, timeout=timedelta(minutes=1))
    driver.turn()
    pause(workflow_id)
    frozen_clock.move(timedelta(minutes=2))
    driver.turn()
    assert workflow(workflow_id).status == "paused"
    resume(workflow_id)
    driver.turn()
    assert workflow(workflow_id).status == "timed_out"


def test_pausing_twice_and_resuming_twice_change_nothing_more() -> None:
    """Faults A12."""
    workflow_id = history().pk
    assert resume(workflow_id) is WorkflowState.RESUMED
    pause(workflow_id)
    before = everything()
    assert pause(workflow_id, reason="again") is WorkflowState.PAUSED
    assert everything() == before
    resume(workflow_id)
    before = everything()
    assert resume(workflow_id) is WorkflowState.RESUMED
    assert everything() == before
    assert flow.history(workflow_id) == ["workflow_started", "workflow_paused", "workflow_resumed"]


@pytest.mark.parametrize("verb", [pause, resume])
def test_what_has_ended_or_is_not_there_is_refused(verb: Callable[..., Any]) -> None:
    for status in TERMINAL:
        ended = history(status=status)
        before = everything()
        with pytest.raises(WorkflowClosed) as caught:
            verb(ended.pk)
        assert caught.value.status == status
        assert everything() == before
    with pytest.raises(WorkflowNotFound):
        verb(uuid.uuid4())


@pytest.mark.parametrize("verb", [pause, resume])
def test_text_that_no_database_takes_is_refused_at_the_call(verb: Callable[..., Any]) -> None:
    workflow_id = history(status="paused" if verb is resume else "running").pk
    before = everything()
    for given in ({"reason": "a\0b"}, {"actor": "a\0b"}, {"reason": "\udfff"}):
        with pytest.raises(OptionInvalid):
            verb(workflow_id, **given)
    assert everything() == before


def test_a_paused_workflow_can_be_terminated(driver: Driver) -> None:
    workflow_id = driver.start(fan_out, 2)
    driver.turn()
    pause(workflow_id)
    signal.signal(workflow_id, "unread", payload="1")
    terminate(workflow_id, reason="enough")
    assert workflow(workflow_id).status == "cancelled"
    assert {r.status for r in rows(workflow_id)} == {"cancelled"}
    closing = Event.objects.get(workflow_id=workflow_id, type="workflow_cancelled")
    assert [unread["name"] for unread in closing.data["unread"]] == ["unread"]
    with pytest.raises(WorkflowClosed):
        resume(workflow_id)


def test_a_single_activity_can_be_paused_too(driver: Driver) -> None:
    workflow_id = driver.enqueue(cases.tidy, 1)
    pause(workflow_id)
    assert driver.claim() == []
    resume(workflow_id)
    driver.run()
    assert workflow(workflow_id).status == "completed"


def test_a_single_activity_that_runs_when_it_is_paused_ends_all_the_same(driver: Driver) -> None:
    """What is already out with a worker goes on; a single activity has no turn that could wait."""
    workflow_id = driver.enqueue(cases.tidy, 1)
    claim = driver.claim_one()
    pause(workflow_id)
    driver.complete(claim, payload="1")
    assert workflow(workflow_id).status == "completed"


def test_resuming_a_blocked_workflow_leaves_it_blocked(driver: Driver) -> None:
    workflow_id = driver.start(signalled)
    driver.turn()
    Workflow.objects.filter(pk=workflow_id).update(blocked_reason="the code differs", blocked_version="1")
    pause(workflow_id)
    signal.signal(workflow_id, "go", payload="1")
    driver.turn()
    resume(workflow_id)
    assert (workflow(workflow_id).status, workflow(workflow_id).wake_at) == ("running", None)
    assert list(Message.objects.values_list("parked", flat=True)) == [True]
    assert driver.turn().workflows == 0


@own_connections
def test_a_claim_that_is_just_being_made_may_win_and_its_row_is_marked_all_the_same() -> None:
    driver = Driver()
    workflow_id = driver.start(sequence, 1)
    driver.turn()
    claiming = Halted("durable_workitem", driver.claim)
    pausing = in_thread(pause, workflow_id)
    (claim,) = claiming.go_on()
    pausing.result(PATIENCE)
    assert (row(workflow_id).status, row(workflow_id).paused) == ("claimed", True)
    abandon.abandon(claim, cause=Cause.ACK_ABANDONED, delay=timedelta())
    assert driver.claim() == []


@own_connections
def test_a_retry_that_is_just_being_written_is_marked() -> None:
    """A row that is just going back to pending is not missed."""
    driver = Driver()
    workflow_id = driver.start(sequence, 1)
    driver.turn()
    claim = driver.claim_one()
    end = failed(claim)
    later = RetryLater(claim, end.failure, Cause.APPLICATION_ERROR, end.started_at, 0)
    acking = Halted("INSERT INTO durable_failedattempt", acknowledge.acknowledge, [later])
    pausing = in_thread(pause, workflow_id)
    assert acking.go_on() == [AckOutcome.ACKNOWLEDGED]
    pausing.result(PATIENCE)
    assert (row(workflow_id).status, row(workflow_id).paused) == ("pending", True)
    assert driver.claim() == []


@own_connections
def test_a_turn_that_is_under_way_ends_before_the_pause_and_what_it_staged_is_marked() -> None:
    driver = Driver()
    workflow_id = driver.start(sequence, 1)
    turning = Halted("INSERT INTO durable_event", driver.turn)
    pausing = waiting(pause, workflow_id)
    turning.go_on()
    pausing.result(PATIENCE)
    assert row(workflow_id).paused is True
    assert driver.claim() == []


@own_connections
def test_a_signal_whose_transaction_was_open_over_the_resume_is_not_left_parked() -> None:
    """Faults D5: sent while the workflow was paused, it comes to light behind the resume, which could not see it.

    On SQLite such a caller holds the write lock, and the resume waits for it.
    """
    driver = Driver()
    workflow_id = driver.start(signalled)
    driver.turn()
    pause(workflow_id)
    gate = Gate("the caller's transaction")

    def caller() -> None:
        with django_transaction.atomic():
            signal.signal(workflow_id, "go", payload="1")
            gate.pass_through()

    sending = in_thread(caller)
    gate.wait_for_arrival()
    if only_postgresql():
        resume(workflow_id)
        driver.turn()
        gate.open()
    else:
        resuming = waiting(resume, workflow_id)
        gate.open()
        resuming.result(PATIENCE)
    sending.result(PATIENCE)
    driver.run()
    assert workflow(workflow_id).result == "1"


@own_connections
@pytest.mark.parametrize("moment", Moment)
def test_a_commit_that_is_not_confirmed_pauses_once(moment: Moment) -> None:
    workflow_id = history().pk
    # No waits between the tries of a transaction.
    with mock.patch.object(transaction, "_FIRST_WAIT", 0.0), commits(lambda n: n == 1, moment):
        assert pause(workflow_id) is WorkflowState.PAUSED
    with mock.patch.object(transaction, "_FIRST_WAIT", 0.0), commits(lambda n: n == 1, moment):
        assert resume(workflow_id) is WorkflowState.RESUMED
    assert flow.history(workflow_id) == ["workflow_started", "workflow_paused", "workflow_resumed"]
