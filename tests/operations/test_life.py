"""Dead letters in the life of a workflow: how they come to be, what a redrive makes of them, who hears of it."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from durable.errors import AlreadyJudged, HistoryRecordsOutcome, WorkflowTerminal
from durable.flow.delivery import abandon, acknowledge
from durable.models import FailedAttempt, OutboxRow
from durable.operations import RedriveMode, list_dead_letters, redrive
from durable.outcomes import AckOutcome, Cause, RetryLater
from durable.worker.handlers import execute
from tests.flow import driver as flow
from tests.flow.cases import fan_out, sequence
from tests.flow.driver import Driver, failed, row, workflow
from tests.flow.state import messages_of
from tests.operations import cases
from tests.operations.scenes import alive, bury, dead, die, history, stranded

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("cached", [0, 1000])
def test_a_held_one_is_redriven_and_its_workflow_completes_warm_and_cold(cached: int) -> None:
    """Specification B1: the row that redrive exists for. The marker in the history is no input of the code."""
    driver = Driver(cached=cached)
    workflow_id, letter = stranded(driver, sequence, 2)
    assert (letter.status, letter.failure_delivered, letter.cause) == ("dead", False, "ack_abandoned")
    assert messages_of(workflow_id) == []
    redrive(workflow_id, 1)
    driver.run()
    assert workflow(workflow_id).status == "completed"
    assert flow.history(workflow_id) == [
        "workflow_started", "activity_scheduled 1", "activity_redriven 1", "activity_completed 1",
        "activity_scheduled 2", "activity_completed 2", "workflow_completed",
    ]  # fmt: skip


def test_under_deliver_the_workflow_is_told_in_the_same_transaction_and_the_row_is_judged(driver: Driver) -> None:
    """Specification B6."""
    workflow_id, letter = stranded(driver, cases.careful)
    assert (letter.status, letter.failure_delivered) == ("dead", True)
    ((kind, ordinal, _),) = messages_of(workflow_id)
    assert (kind, ordinal) == ("failed", 1)
    with pytest.raises(AlreadyJudged):
        redrive(workflow_id, 1)
    driver.turn()
    with pytest.raises(HistoryRecordsOutcome):
        redrive(workflow_id, 1)
    assert list_dead_letters(workflow_id)[0].failure_delivered is True


@pytest.mark.parametrize("cached", [0, 1000])
def test_a_forced_one_that_completes_behind_a_recorded_judgment_is_dropped_and_logged(cached: int, logs: Any) -> None:
    """Specification B5: the workflow's history does not change its mind."""
    driver = Driver(cached=cached)
    workflow_id, _ = stranded(driver, cases.careful)
    driver.turn()
    redrive(workflow_id, 1, mode=RedriveMode.FORCED, reason="the receiver asks for it")
    claims = {c.ordinal: c for c in driver.claim()}
    assert driver.complete(claims[1], payload="1") == [AckOutcome.ACKNOWLEDGED]
    driver.turn()
    assert row(workflow_id, 1).status == "done"
    assert [entry["ordinal"] for entry in logs if entry["event"] == "activity.result_dropped"] == [1]
    assert messages_of(workflow_id) == []
    driver.complete(claims[2], payload="1")
    driver.run()
    assert "could not be delivered" in str(workflow(workflow_id).result)
    recorded = [fact for fact in flow.history(workflow_id) if fact.endswith(" 1")]
    assert recorded == ["activity_scheduled 1", "activity_failed 1", "activity_redriven 1"]


def test_a_forced_one_that_dies_again_is_a_judged_dead_letter_still_and_tells_nobody_twice(driver: Driver) -> None:
    workflow_id, _ = stranded(driver, cases.careful)
    driver.turn()
    redrive(workflow_id, 1, mode=RedriveMode.FORCED, reason="once more")
    claims = {c.ordinal: c for c in driver.claim()}
    bury(claims[1])
    driver.turn()
    assert (row(workflow_id, 1).status, row(workflow_id, 1).failure_delivered) == ("dead", True)
    assert [fact for fact in flow.history(workflow_id) if fact.startswith("activity_failed")] == ["activity_failed 1"]
    driver.complete(claims[2], payload="1")
    driver.run()
    assert workflow(workflow_id).status == "completed"
    assert row(workflow_id, 1).status == "cancelled"  # its run has closed


def test_retries_that_are_spent_make_a_held_dead_letter_under_on_exhausted_hold(driver: Driver) -> None:
    """Specification B6, last policy: the workflow waits, the attempt is kept, the row is redrivable."""
    workflow_id = driver.start(cases.keeping, 1)
    driver.turn()
    driver_claim = driver.claim_one()
    assert acknowledge.acknowledge([failed(driver_claim, "card refused")]) == [AckOutcome.ACKNOWLEDGED]
    letter = row(workflow_id)
    assert (letter.status, letter.cause, letter.failure_delivered) == ("dead", "retries_exhausted", False)
    assert (letter.attempts, letter.delivery_failures) == (1, 0)
    assert messages_of(workflow_id) == []
    assert workflow(workflow_id).status == "running"
    redrive(workflow_id, 1)
    driver.run(lambda c: "7")
    assert workflow(workflow_id).result == "7"


def test_attempts_and_errors_go_on_being_numbered_behind_a_redrive(driver: Driver) -> None:
    """Specification B5, faults A9, A10."""
    workflow_id = driver.start(cases.keeping, 1)
    driver.turn()
    for number in range(1, 6):
        c = driver.claim_one()
        assert (c.attempt, c.attempt_budget) == (number, 5)
        end = failed(c, f"error {number}")
        acknowledge.acknowledge(
            [end if number == 5 else RetryLater(c, end.failure, Cause.APPLICATION_ERROR, end.started_at, 0)]
        )
    redrive(workflow_id, 1)
    again = driver.claim_one()
    assert (again.attempt, again.attempt_budget, again.delivery) == (6, 10, 6)
    acknowledge.acknowledge([failed(again, "error 6")])
    kept: Any = (
        FailedAttempt.objects.filter(outbox_row=row(workflow_id)).order_by("number").values_list("number", "error")
    )
    assert [(number, error["message"]) for number, error in kept] == [(n, f"error {n}") for n in range(1, 7)]


def test_the_delivery_budget_after_a_redrive_is_a_full_one(driver: Driver, settings: Any) -> None:
    """Faults A10, O2: n more deliveries, then a dead letter again."""
    settings.DURABLE = {"DELIVERY_ATTEMPTS": 3}
    workflow_id, letter = stranded(driver)
    assert (letter.deliveries, letter.delivery_failures) == (3, 3)
    redrive(workflow_id, 1)
    again = die(driver, workflow_id)
    assert (again.deliveries, again.delivery_failures, again.delivery_budget) == (6, 6, 6)
    assert again.redrive_count == 1
    assert FailedAttempt.objects.filter(outbox_row=again).count() == 6


@pytest.mark.parametrize("cached", [0, 1000])
def test_a_held_one_is_marked_judged_in_the_turn_in_which_the_workflow_gives_up_on_it(
    frozen_clock: Any, cached: int
) -> None:
    """Specification B6, last sentence: its own timeout is recorded, so nobody waits for the row any more."""
    driver = Driver(cached=cached)
    workflow_id, letter = stranded(driver, cases.impatient, 60)
    assert letter.failure_delivered is False
    frozen_clock.move(timedelta(seconds=61))
    driver.turn()
    now = row(workflow_id)
    assert (now.status, now.failure_delivered) == ("dead", True)
    assert flow.history(workflow_id)[-3:] == ["timer_fired", "activity_cancelled 1", "activity_scheduled 2"]
    with pytest.raises(HistoryRecordsOutcome):
        redrive(workflow_id, 1)
    done = redrive(workflow_id, 1, mode=RedriveMode.FORCED, reason="the goods still have to go out")
    assert done.was_judged is True
    driver.run()
    assert workflow(workflow_id).result == '"too late, 2"'


def test_a_redriven_row_that_the_workflow_gives_up_on_is_closed_as_any_other(frozen_clock: Any, driver: Driver) -> None:
    workflow_id, _ = stranded(driver, cases.impatient, 60)
    redrive(workflow_id, 1)
    frozen_clock.move(timedelta(seconds=61))
    driver.turn()
    assert row(workflow_id).status == "cancelled"


def test_a_single_activity_is_redriven_like_any_other_and_then_ends_its_workflow(driver: Driver) -> None:
    workflow_id = driver.enqueue(cases.tidy, 1)
    die(driver, workflow_id)
    assert workflow(workflow_id).status == "running"
    assert redrive(workflow_id, 1).was_judged is False
    driver.run()
    assert workflow(workflow_id).status == "completed"
    assert flow.history(workflow_id) == ["workflow_started", "activity_redriven 1", "workflow_completed"]


def test_a_single_activity_under_deliver_ends_as_failed_and_leaves_no_dead_letter(driver: Driver) -> None:
    """Specification B7: when a run closes, its dead letters are cancelled in the same transaction."""
    workflow_id = driver.enqueue(cases.told, 1, options={"on_dead_letter": "deliver"})
    bury(driver.claim_one())
    assert workflow(workflow_id).status == "failed"
    letter = row(workflow_id)
    assert (letter.status, letter.cause, letter.failure_delivered) == ("cancelled", "ack_abandoned", True)
    assert not list_dead_letters(workflow_id)
    with pytest.raises(WorkflowTerminal):
        redrive(workflow_id, 1, mode=RedriveMode.FORCED, reason="because")


def test_a_workflow_in_the_middle_of_other_work_does_not_notice_a_redrive(driver: Driver) -> None:
    """The marker moves `last_seq`: a warm execution is read anew, and goes on where it stood."""
    workflow_id = driver.start(fan_out, 3)
    driver.turn()
    claims = {c.ordinal: c for c in driver.claim()}
    driver.complete(claims[1], payload="5")
    driver.turn()
    bury(claims[2])
    redrive(workflow_id, 2)
    driver.complete(claims[3], payload="6")
    driver.turn()
    driver.complete(driver.claim_one(), payload="7")
    driver.turn()
    assert workflow(workflow_id).result == "18"
    assert "activity_redriven 2" in flow.history(workflow_id)


def test_the_list_of_a_workflow_shows_which_ones_are_judged_and_nothing_else(driver: Driver) -> None:
    """Specification B8."""
    owner = history("activity_scheduled 1", "activity_scheduled 2")
    first, second = dead(owner, 1), dead(owner, 2, failure_delivered=True)
    alive(owner, 3)
    dead(history(), 1)
    found = list_dead_letters(owner.pk)
    assert [(row.pk, row.failure_delivered) for row in found] == [(first.pk, False), (second.pk, True)]


def test_a_row_whose_input_does_not_decode_ends_on_the_list_by_itself(driver: Driver, settings: Any) -> None:
    """Faults O5."""
    settings.DURABLE = {"DELIVERY_ATTEMPTS": 2}
    workflow_id = driver.start(cases.keeping, 1)
    driver.turn()
    OutboxRow.objects.filter(workflow_id=workflow_id).update(input="not json")
    for _ in range(2):
        claim = driver.claim_one()
        gives_up = execute.run(claim, rng=random.Random(1))
        assert isinstance(gives_up, execute.GiveUp)
        abandon.abandon(claim, cause=gives_up.cause, failure=gives_up.failure, delay=timedelta())
    (letter,) = list_dead_letters(workflow_id)
    assert letter.cause == "undecodable_input"
