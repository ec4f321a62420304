"""Transactional handlers (SPEC A6) with faults around their commit."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError

from durable.flow import acknowledge, claim
from durable.outcomes import AckOutcome, Claim, Failed, WorkflowStatus
from durable.worker import execute, transactional
from durable.worker.delivery import Delivery
from durable.worker.execute import AckFailed, Call, Committed, Outcome
from tests.worker.conftest import Plant
from tests.worker.plant import activities
from tests.worker.test_acks import MS, retryable

real = acknowledge.transactional


def run(taken: Claim, waits: list[int]) -> Outcome:
    call = execute.prepare(taken, rng=random.Random(1))
    assert isinstance(call, Call)
    return transactional.run(call, Delivery(taken), wait=waits.append)


def take() -> Claim:
    [taken] = claim.claim(worker="bench", limit=1, queues=None, lease_for=timedelta(minutes=1))
    return taken


def failing_before_commit(times: int, error: Callable[[], Exception]) -> Any:
    left = [times]

    def faulty(taken: Claim, handler: Any) -> AckOutcome:
        def with_fault() -> Any:
            completed = handler()
            left[0] -= 1
            if left[0] >= 0:
                raise error()
            return completed

        return real(taken, with_fault)

    return faulty


def test_handler_and_acknowledgement_are_repeated_together(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow_id = plant.enqueue(activities.write_once, "a")
    monkeypatch.setattr(acknowledge, "transactional", failing_before_commit(4, retryable))
    waits: list[int] = []
    taken = take()
    assert run(taken, waits) == Committed(taken, AckOutcome.ACKNOWLEDGED)
    assert waits == [100 * MS, 200 * MS, 400 * MS, 800 * MS]
    assert plant.labels() == ["a"]
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED
    assert plant.row(workflow_id).attempts == 1


def test_five_failures_leave_nothing_and_are_to_be_abandoned(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant.enqueue(activities.write_once, "b")
    monkeypatch.setattr(acknowledge, "transactional", failing_before_commit(5, retryable))
    waits: list[int] = []
    assert isinstance(run(take(), waits), AckFailed)
    assert len(waits) == 4
    assert plant.labels() == []


def test_a_permanent_error_of_the_acknowledgement_ends_it_at_once(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant.enqueue(activities.write_once, "c")
    monkeypatch.setattr(acknowledge, "transactional", failing_before_commit(1, lambda: IntegrityError("deferred")))
    waits: list[int] = []
    assert isinstance(run(take(), waits), AckFailed)
    assert waits == []
    assert plant.labels() == []


def test_a_commit_of_unknown_outcome_is_looked_up_and_not_repeated(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed, then an error: the second try finds the token gone, and the handler does not run again."""
    workflow_id = plant.enqueue(activities.write_once, "d")
    left = [1]

    def faulty(taken: Claim, handler: Any) -> AckOutcome:
        outcome = real(taken, handler)
        left[0] -= 1
        if left[0] >= 0:
            raise retryable()
        return outcome

    monkeypatch.setattr(acknowledge, "transactional", faulty)
    taken = take()
    assert run(taken, []) == Committed(taken, AckOutcome.TOKEN_MISSING)
    assert plant.labels() == ["d"]
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED


def test_a_handler_whose_token_went_meanwhile_leaves_nothing(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    from durable.models import WorkItem

    plant.enqueue(activities.write_once, "e")

    def faulty(taken: Claim, handler: Any) -> AckOutcome:
        def with_theft() -> Any:
            completed = handler()
            WorkItem.objects.filter(outbox_row_id=taken.row_id).delete()
            return completed

        return real(taken, with_theft)

    monkeypatch.setattr(acknowledge, "transactional", faulty)
    taken = take()
    assert run(taken, []) == Committed(taken, AckOutcome.TOKEN_MISSING)
    assert plant.labels() == []


def test_an_application_error_rolls_back_and_becomes_an_ending(plant: Plant) -> None:
    plant.enqueue(activities.write_and_fail, "f")
    outcome = run(take(), [])
    assert isinstance(outcome, Failed)
    assert outcome.failure.message == "rolled back"
    assert plant.labels() == []
