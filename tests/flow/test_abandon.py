"""Abandoning: the delivery failed; the row goes back, or becomes a dead letter."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from durable.flow.caller import cancel
from durable.flow.delivery import abandon
from durable.models import FailedAttempt, OutboxRow
from durable.outcomes import AckOutcome, Cause, Claim, Failure, GiveBack
from tests.flow import cases
from tests.flow.driver import Driver, history, items, row, workflow
from tests.flow.state import everything, make_due, messages_of
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)

ACK_FAILED = Failure("OperationalError", "deadlock detected", "")


def spend(driver: Driver, budget: int) -> list[GiveBack]:
    """Claim and abandon the only row until its budget is spent."""
    answers: list[GiveBack] = []
    while GiveBack.DEAD_LETTERED not in answers:
        taken = driver.claim_one()
        answers.append(abandon.abandon(taken, cause=Cause.ACK_ABANDONED, failure=ACK_FAILED))
        assert len(answers) <= budget
        if answers[-1] is GiveBack.PENDING:
            make_due(taken.row_id)
    return answers


def test_an_abandoned_delivery_goes_back_after_the_given_delay_and_stays_counted(
    driver: Driver, frozen_clock: Any
) -> None:
    """Specification A2: a delay of 100 ms; the claim has counted the delivery, and the failure counts against the
    budget.
    """
    workflow_id = driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    answer = abandon.abandon(out, cause=Cause.ACK_ABANDONED, failure=ACK_FAILED, delay=timedelta(milliseconds=100))
    assert answer is GiveBack.PENDING
    staged = row(workflow_id)
    assert (staged.status, staged.deliveries, staged.delivery_failures, staged.attempts) == ("pending", 1, 1, 0)
    assert staged.visible_after == frozen_clock.now + timedelta(milliseconds=100)
    assert (staged.cause, staged.claimed_at, staged.suspect) == ("ack_abandoned", None, False)
    assert items() == []
    kept = FailedAttempt.objects.get()
    assert (kept.number, kept.worker, kept.cause, kept.error) == (1, "driver", "ack_abandoned", ACK_FAILED.as_data())


def test_without_a_delay_it_waits_for_the_delivery_back_off(driver: Driver, frozen_clock: Any, settings: Any) -> None:
    """With a fifth of jitter either way; the second wait is longer by the factor."""
    settings.DURABLE = {"DELIVERY_BACKOFF": (timedelta(seconds=10), 4.0, timedelta(minutes=15))}
    workflow_id = driver.enqueue(cases.step, 1)
    for expected in (10, 40):
        abandon.abandon(driver.claim_one(), cause=Cause.TRANSPORT_DOWN)
        wait = row(workflow_id).visible_after - frozen_clock.now
        assert timedelta(seconds=expected * 0.8) <= wait <= timedelta(seconds=expected * 1.2)
        frozen_clock.move(wait)


def test_the_heartbeat_of_an_abandoned_delivery_stays_with_its_row(driver: Driver) -> None:
    """The next delivery can read it."""
    workflow_id = driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    (item,) = items()
    type(item).objects.update(heartbeat='"half"')
    abandon.abandon(out, cause=Cause.ACK_ABANDONED)
    assert row(workflow_id).last_heartbeat == '"half"'
    make_due(out.row_id)
    assert driver.claim_one().last_heartbeat == '"half"'


@pytest.mark.parametrize("budget", [1, 3])
def test_a_budget_of_n_is_n_deliveries(driver: Driver, budget: int) -> None:
    """Faults O2, and every one of them is kept."""
    workflow_id = driver.enqueue(cases.step, 1, deliveries=budget)
    answers = spend(driver, budget)
    assert answers == [GiveBack.PENDING] * (budget - 1) + [GiveBack.DEAD_LETTERED]
    staged = row(workflow_id)
    assert (staged.status, staged.deliveries, staged.delivery_failures) == ("dead", budget, budget)
    assert list(FailedAttempt.objects.order_by("id").values_list("number", flat=True)) == list(range(1, budget + 1))
    assert driver.claim() == []


@pytest.mark.parametrize("kind", ["single", "of a workflow"])
def test_a_held_dead_letter_keeps_the_workflow_waiting(driver: Driver, frozen_clock: Any, kind: str) -> None:
    """Specification B6: nobody is told, and the marker says so."""
    workflow_id = _last_delivery(driver, kind, {})
    assert spend(driver, 1) == [GiveBack.DEAD_LETTERED]
    staged = row(workflow_id)
    assert (staged.status, staged.failure_delivered, staged.cause) == ("dead", False, "ack_abandoned")
    assert staged.dead_lettered_at == frozen_clock.now
    assert (workflow(workflow_id).status, messages_of(workflow_id), items()) == ("running", [], [])


def test_a_delivered_dead_letter_tells_the_workflow_in_the_same_commit(driver: Driver) -> None:
    """Specification B6: and its code gets the failure at its next turn."""
    workflow_id = _last_delivery(driver, "of a workflow", {"on_dead_letter": "deliver"})
    spend(driver, 1)
    staged = row(workflow_id)
    assert (staged.status, staged.failure_delivered) == ("dead", True)
    ((kind, ordinal, told),) = messages_of(workflow_id)
    assert (kind, ordinal, told["attempts"]) == ("failed", 1, 0)
    assert "ack abandoned" in told["failure"]["message"]
    assert "deadlock detected" in told["failure"]["message"]
    driver.run()
    assert workflow(workflow_id).status == "failed"
    assert history(workflow_id)[2:] == ["activity_failed 1", "workflow_failed"]
    assert row(workflow_id).status == "cancelled"


def test_a_delivered_dead_letter_of_a_single_activity_ends_its_workflow(driver: Driver) -> None:
    """Nobody else could act on it. What a closed run leaves is settled with it (specification B7)."""
    workflow_id = _last_delivery(driver, "single", {"on_dead_letter": "deliver"})
    spend(driver, 1)
    assert workflow(workflow_id).status == "failed"
    assert "could not be delivered" in workflow(workflow_id).failure["message"]
    assert history(workflow_id) == ["workflow_started", "workflow_failed"]
    staged = row(workflow_id)
    assert (staged.status, staged.failure_delivered, staged.cause) == ("cancelled", True, "ack_abandoned")
    assert staged.dead_lettered_at is not None


def _last_delivery(driver: Driver, kind: str, options: dict[str, Any]) -> uuid.UUID:
    """A row with one delivery left."""
    if kind == "single":
        return driver.enqueue(cases.step, 1, deliveries=1, options=options)
    workflow_id = driver.start(cases.sequence, 1)
    driver.turn()
    OutboxRow.objects.update(delivery_budget=1, options=options)
    return workflow_id


@pytest.mark.parametrize("left", [1, 5])
@pytest.mark.parametrize("kind", ["single", "of a workflow"])
def test_a_row_that_was_asked_to_stop_is_closed_instead(driver: Driver, kind: str, left: int) -> None:
    """Faults N1: no further attempt starts, whatever is left of the budget."""
    if kind == "single":
        workflow_id = driver.enqueue(cases.step, 1, deliveries=left)
    else:
        workflow_id = driver.start(cases.cleaner)
        driver.turn()
        OutboxRow.objects.update(delivery_budget=left)
    out = driver.claim_one()
    cancel.cancel(workflow_id)
    if kind != "single":
        driver.turn()
    assert abandon.abandon(out, cause=Cause.ACK_ABANDONED) is GiveBack.SETTLED
    assert row(workflow_id, 1).status == "cancelled"
    assert workflow(workflow_id).status == ("cancelled" if kind == "single" else "running")


@pytest.mark.parametrize("change", ["acknowledged", "foreign"])
def test_a_token_that_is_gone_changes_nothing(driver: Driver, change: str) -> None:
    """Also with the last of the budget."""
    driver.enqueue(cases.step, 1, deliveries=1)
    out: Claim = driver.claim_one()
    if change == "acknowledged":
        driver.complete(out)
    else:
        out = replace(out, token=uuid.uuid4())
    before = everything()
    assert abandon.abandon(out, cause=Cause.ACK_ABANDONED) is GiveBack.TOKEN_MISSING
    assert everything() == before


@own_connections
@pytest.mark.parametrize("policy", ["hold", "deliver"])
def test_of_an_abandonment_and_an_acknowledgement_at_once_one_counts(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier], policy: str
) -> None:
    """From two connections, on the last delivery: done or dead, never both."""
    meet = barrier(2)
    for n in range(10):
        driver.enqueue(cases.step, n, deliveries=1, options={"on_dead_letter": policy})
    claims = driver.claim()

    def abandon_all() -> list[GiveBack]:
        answers = []
        for c in claims:
            meet.wait()
            answers.append(abandon.abandon(c, cause=Cause.ACK_ABANDONED))
        return answers

    other = second_connection(abandon_all)
    mine = []
    for c in claims:
        meet.wait()
        mine += driver.complete(c)
    ended = "failed" if policy == "deliver" else "running"
    for c, good, dead in zip(claims, mine, other.result(60), strict=True):
        assert (good is AckOutcome.ACKNOWLEDGED) == (dead is GiveBack.TOKEN_MISSING)
        assert workflow(c.workflow_id).status == ("completed" if good is AckOutcome.ACKNOWLEDGED else ended)
