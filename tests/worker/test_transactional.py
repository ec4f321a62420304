"""Transactional handlers (specification A6) with faults around their commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg
import psycopg_pool
import pytest
from django.db import IntegrityError, OperationalError, connection

from durable import activity
from durable.flow.delivery import acknowledge
from durable.outcomes import AckOutcome, Cause, Claim, Failed, RetryLater, WorkflowStatus
from durable.worker.handlers import transactional
from durable.worker.handlers.execute import CommitFailed, Committed, Lacking, PutOff
from durable.worker.threads import hygiene
from tests.ledger.models import Entry
from tests.settings import VENDOR
from tests.worker.benches import MS, retryable
from tests.worker.conftest import Plant
from tests.worker.plant import activities
from tests.worker.transactional_runs import run, take

real = acknowledge.transactional


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
    assert isinstance(run(take(), waits), CommitFailed)
    assert len(waits) == 4
    assert plant.labels() == []


def test_a_permanent_error_of_the_acknowledgement_ends_it_at_once(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant.enqueue(activities.write_once, "c")
    monkeypatch.setattr(acknowledge, "transactional", failing_before_commit(1, lambda: IntegrityError("deferred")))
    waits: list[int] = []
    assert isinstance(run(take(), waits), CommitFailed)
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


def refused_connection() -> OperationalError:
    error = OperationalError("connection refused")
    error.__cause__ = psycopg.OperationalError("connection refused")
    return error


def empty_pool() -> OperationalError:
    error = OperationalError("couldn't get a connection after 30.00 sec")
    error.__cause__ = psycopg_pool.PoolTimeout("couldn't get a connection after 30.00 sec")
    return error


@pytest.mark.parametrize(("error", "tries"), [(refused_connection, 5), (empty_pool, 1)])
def test_a_handler_that_never_had_a_connection_is_put_off_and_not_counted(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception], tries: int
) -> None:
    """Faults K1: a pool has made it wait already, so it is not asked five times."""
    plant.enqueue(activities.write_once, "g")
    taken = take()
    asked = []

    def refuse() -> None:
        asked.append(1)
        raise error()

    monkeypatch.setattr(hygiene, "connect_as_the_host_does", refuse)
    outcome = run(taken, [])
    assert outcome == PutOff(taken, transactional.PUT_OFF, Lacking.CONNECTION)
    assert len(asked) == tries
    assert plant.labels() == []


def test_a_handler_that_has_begun_once_is_abandoned_and_counted_though_there_is_no_connection_any_more(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be what ends the server each time."""
    plant.enqueue(activities.write_once, "h")
    taken = take()
    real_connect, asked = hygiene.connect_as_the_host_does, []

    def connect_once() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise empty_pool()
        real_connect()

    monkeypatch.setattr(acknowledge, "transactional", failing_before_commit(1, retryable))
    monkeypatch.setattr(hygiene, "connect_as_the_host_does", connect_once)
    assert isinstance(run(taken, []), CommitFailed)
    assert len(asked) == 5


@pytest.mark.parametrize("error", [refused_connection, empty_pool, retryable])
def test_a_handlers_error_of_another_database_is_an_application_error(
    plant: Plant, isolated_registry: Any, error: Callable[[], Exception]
) -> None:
    """Repeating our transaction five times cures no other database; the activity's own retries have their waits."""
    began = []

    @activity(name="plant.elsewhere", transactional=True)
    def elsewhere() -> None:
        began.append(1)
        raise error()

    plant.enqueue(elsewhere)
    outcome = run(take(), [])
    assert isinstance(outcome, RetryLater)
    assert outcome.cause is Cause.APPLICATION_ERROR
    assert began == [1]


def test_a_handlers_error_of_the_engines_database_is_repeated_with_its_transaction(
    plant: Plant, isolated_registry: Any
) -> None:
    """Faults D3: what a deadlock has undone is done again within the attempt."""
    began = []

    @activity(name="plant.here", transactional=True)
    def here() -> str:
        began.append(1)
        Entry.objects.create(label=f"try {len(began)}")
        if len(began) == 1:
            with connection.wrap_database_errors:
                raise_busy()
        return "done"

    def raise_busy() -> None:
        if VENDOR == "sqlite":
            raise sqlite3.OperationalError("database is locked")
        raise psycopg.errors.DeadlockDetected("deadlock detected")

    plant.enqueue(here)
    taken = take()
    assert run(taken, []) == Committed(taken, AckOutcome.ACKNOWLEDGED)
    assert plant.labels() == ["try 2"]
