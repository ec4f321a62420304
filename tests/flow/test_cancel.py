"""Asking a workflow to cancel itself."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from durable.flow.caller import cancel, signal
from durable.flow.delivery import renew
from durable.models import Event, Message, OutboxRow
from durable.outcomes import AckOutcome, CancelAnswer, CancelOutcome, HeldDelivery, Renewal, WorkflowStatus
from tests.flow import cases
from tests.flow.driver import LEASE, Driver, failed, history, items, row, workflow
from tests.flow.state import everything, messages_of, pause, undone
from tests.rounds import AT_LAST, rounds
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)

ASKED = CancelOutcome(CancelAnswer.ASKED, WorkflowStatus.RUNNING)
DONE = CancelOutcome(CancelAnswer.DONE, WorkflowStatus.CANCELLED)


def test_a_workflow_is_asked_and_its_code_ends_it(driver: Driver) -> None:
    """The reason and who asked are in the history."""
    workflow_id = driver.start(cases.sequence, 1)
    driver.turn()
    assert cancel.cancel(workflow_id, reason="too expensive", actor="ann") == ASKED
    assert workflow(workflow_id).status == "running"
    driver.turn()
    assert workflow(workflow_id).status == "cancelled"
    asked = Event.objects.get(workflow_id=workflow_id, type="cancel_requested")
    assert (asked.data["reason"], asked.data["actor"]) == ("too expensive", "ann")
    assert row(workflow_id).status == "cancelled"


def test_asking_twice_is_asking_once(driver: Driver) -> None:
    """Faults N5: idempotent, quiet, truthful; also when the first has been read, and the code is cleaning up."""
    workflow_id = driver.start(cases.cleaner)
    driver.turn()
    assert [cancel.cancel(workflow_id, reason="first"), cancel.cancel(workflow_id, reason="second")] == [ASKED, ASKED]
    assert len(messages_of(workflow_id)) == 1
    driver.turn()
    assert cancel.cancel(workflow_id, reason="third") == ASKED
    driver.run()
    assert history(workflow_id).count("cancel_requested") == 1
    assert history(workflow_id)[-2:] == ["activity_completed 2", "workflow_cancelled"]


def test_a_workflow_that_is_over_says_how(driver: Driver) -> None:
    """Faults N2, N5: a cancel that arrives after the end is not lost without notice, and raises nothing."""
    ended = driver.start(cases.nothing)
    single = driver.enqueue(cases.step, 1)
    driver.run(lambda c: failed(c))
    before = everything()
    assert cancel.cancel(ended) == CancelOutcome(CancelAnswer.ALREADY_OVER, WorkflowStatus.COMPLETED)
    assert cancel.cancel(single) == CancelOutcome(CancelAnswer.ALREADY_OVER, WorkflowStatus.FAILED)
    assert everything() == before


def test_an_unknown_workflow_is_not_found() -> None:
    """Faults N2: one of the four answers."""
    assert cancel.cancel(uuid.uuid4()) == CancelOutcome(CancelAnswer.NOT_FOUND)


def test_a_single_activity_that_nobody_has_claimed_is_cancelled_at_once(driver: Driver) -> None:
    """There is no code that could see the request."""
    workflow_id = driver.enqueue(cases.step, 1)
    assert cancel.cancel(workflow_id, reason="not needed", actor="ann") == DONE
    assert (workflow(workflow_id).status, row(workflow_id).status) == ("cancelled", "cancelled")
    closing = Event.objects.get(workflow_id=workflow_id, seq=2)
    assert (closing.type, closing.data) == ("workflow_cancelled", {"reason": "not needed", "actor": "ann"})
    assert driver.claim() == []
    assert cancel.cancel(workflow_id) == CancelOutcome(CancelAnswer.ALREADY_OVER, WorkflowStatus.CANCELLED)


def test_a_held_dead_letter_of_a_single_activity_is_cancelled_at_once(driver: Driver) -> None:
    """Nobody runs it."""
    workflow_id = driver.enqueue(cases.step, 1)
    OutboxRow.objects.update(status="dead", dead_lettered_at=row(workflow_id).created_at)
    assert cancel.cancel(workflow_id) == DONE
    assert row(workflow_id).status == "cancelled"


def test_a_single_activity_that_runs_is_asked_through_its_worker(driver: Driver, frozen_clock: Any) -> None:
    """Faults N4: the row shows "asked"; the worker learns it at its next renewal; the first ask counts."""
    workflow_id = driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    assert cancel.cancel(workflow_id) == ASKED
    asked_at = items()[0].cancel_requested_at
    assert asked_at == frozen_clock.now
    frozen_clock.move(LEASE / 2)
    assert cancel.cancel(workflow_id) == ASKED
    assert items()[0].cancel_requested_at == asked_at
    assert renew.renew([HeldDelivery(out.row_id, out.token)], lease_for=LEASE) == [Renewal.CANCEL_REQUESTED]


def test_a_single_activity_that_waits_for_its_next_attempt_is_cancelled_at_once(driver: Driver) -> None:
    """Faults N1: no further attempt starts."""
    workflow_id = driver.enqueue(cases.step, 1)
    OutboxRow.objects.update(attempts=2)
    assert cancel.cancel(workflow_id) == DONE
    assert driver.claim() == []


def test_a_paused_workflow_is_asked_and_sees_it_when_it_goes_on(driver: Driver) -> None:
    """The request waits with everything else."""
    workflow_id = driver.start(cases.sequence, 1)
    driver.turn()
    pause(workflow_id)
    assert cancel.cancel(workflow_id) == CancelOutcome(CancelAnswer.ASKED, WorkflowStatus.PAUSED)
    driver.turn()
    assert workflow(workflow_id).status == "paused"
    assert list(Message.objects.values_list("kind", "parked")) == [("cancel", True)]


def test_a_signal_can_not_stand_in_the_way_of_a_cancel_request(driver: Driver) -> None:
    """Whatever word its caller chose to send it once only."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    signal.signal(workflow_id, "other", payload="1", dedup="cancel")
    cancel.cancel(workflow_id)
    driver.run()
    assert workflow(workflow_id).status == "cancelled"


@own_connections
@pytest.mark.parametrize("kind", ["single", "of a workflow"])
def test_a_request_goes_with_its_callers_transaction(driver: Driver, kind: str) -> None:
    """T12 joins: what the caller rolls back was never asked."""
    workflow_id = driver.enqueue(cases.step, 1) if kind == "single" else driver.start(cases.sequence, 1)
    before = everything()
    with undone():
        cancel.cancel(workflow_id)
    assert everything() == before


@pytest.mark.races
@own_connections
def test_of_a_cancel_and_a_finish_at_once_the_first_wins_and_both_are_clean(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Faults N1, on single activities: completed, always, for the handler had ended; and the answer is true."""
    times, meet = rounds(15, asked=200), barrier(2)
    ids = [driver.enqueue(cases.step, n) for n in range(times)]
    claims = {c.workflow_id: c for c in driver.claim(limit=times)}

    def cancel_all() -> list[CancelOutcome]:
        answers = []
        for id in ids:
            meet.wait()
            answers.append(cancel.cancel(id))
        return answers

    other = second_connection(cancel_all)
    for id in ids:
        meet.wait()
        assert driver.complete(claims[id]) == [AckOutcome.ACKNOWLEDGED]
    over = CancelOutcome(CancelAnswer.ALREADY_OVER, WorkflowStatus.COMPLETED)
    assert set(other.result(AT_LAST)) <= {ASKED, over}
    assert all(history(id) == ["workflow_started", "workflow_completed"] for id in ids)


@own_connections
def test_of_a_cancel_and_a_claim_at_once_the_row_runs_or_is_cancelled(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Done means that nobody got it; asked means that somebody did, and is told."""
    rounds, meet = 15, barrier(2)
    ids: list[uuid.UUID] = []

    def cancel_all() -> list[CancelOutcome]:
        answers = []
        for at in range(rounds):
            meet.wait()
            answers.append(cancel.cancel(ids[at]))
            meet.wait()
        return answers

    other = second_connection(cancel_all)
    taken = []
    for n in range(rounds):
        ids.append(driver.enqueue(cases.step, n))
        meet.wait()
        taken.append(driver.claim(limit=1))
        meet.wait()
    for id, answer, claims in zip(ids, other.result(60), taken, strict=True):
        assert answer == (ASKED if claims else DONE)
        assert row(id).status == ("claimed" if claims else "cancelled")
    assert all(item.cancel_requested_at is not None for item in items())
