"""Specification A5 against the database under test: real claims and rows, an ack thread's body run in the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import OperationalError

from durable.kernel.history.events import EventType
from durable.outcomes import Ending, OutboxStatus, WorkflowStatus
from tests.worker.benches import WAITS, Bench, due_now, retryable
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows


@pytest.fixture
def bench(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def failing(times: int) -> Callable[[Sequence[Ending]], None]:
    left = [times]

    def fail(endings: Sequence[Ending]) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise retryable()

    return fail


def test_success_on_the_fifth_try_is_one_run_and_one_completion(plant: Plant, bench: Bench) -> None:
    """Specification A5.1."""
    workflow_id = plant.enqueue(activities.note, "a")
    bench.before = failing(4)
    bench.deliver(bench.claim())
    assert bench.time.waits == WAITS
    assert plant.labels() == ["a"]
    assert plant.history(workflow_id) == [EventType.WORKFLOW_STARTED, EventType.WORKFLOW_COMPLETED]
    assert plant.row(workflow_id).delivery_failures == 0


def test_after_five_failures_the_item_is_delivered_again_with_a_new_token(plant: Plant, bench: Bench) -> None:
    """Specification A5.2."""
    workflow_id = plant.enqueue(activities.note, "b")
    bench.before = failing(5)
    first = bench.claim()
    bench.deliver(first)
    row = plant.row(workflow_id)
    assert (row.status, row.deliveries, row.delivery_failures, row.attempts) == (OutboxStatus.PENDING.value, 1, 1, 0)
    assert [failed.cause for failed in row.failed_attempts.all()] == ["ack_abandoned"]
    due_now(workflow_id)
    second = bench.claim()
    assert second[0].token != first[0].token
    bench.deliver(second)
    assert plant.labels() == ["b", "b"]
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED
    assert len(bench.calls) == 6


def test_an_application_error_is_acknowledged_in_place_with_equal_payloads(plant: Plant, bench: Bench) -> None:
    """Specification A5.4."""
    workflow_id = plant.enqueue(activities.fail, "c", budget=1)
    bench.before = failing(3)
    bench.deliver(bench.claim())
    assert plant.labels() == ["c"]
    assert [call == bench.calls[0] for call in bench.calls] == [True] * 4
    assert plant.look(workflow_id).failure.message == "no c"


def test_an_attempt_that_goes_back_for_the_next_is_retried_in_place(plant: Plant, bench: Bench) -> None:
    """Specification A2: one that goes back to pending is an acknowledgement, too."""
    workflow_id = plant.enqueue(activities.fail, "d")
    bench.before = failing(2)
    bench.deliver(bench.claim())
    row = plant.row(workflow_id)
    assert (row.status, row.attempts, row.delivery_failures) == (OutboxStatus.PENDING.value, 1, 0)
    assert bench.time.waits == WAITS[:2]


def test_a_commit_that_reports_an_error_is_found_at_the_second_try(plant: Plant, bench: Bench) -> None:
    """Specification A4, A5.6: one completion in the history, and no new delivery."""
    workflow_id = plant.start(workflows.three, "e")
    from durable.flow.turns import turn
    from durable.kernel.replay.cache import Cache

    cache = Cache(10)
    turn.turn(cache=cache, queues=None, limit=10, note=lambda owner: None)
    bench.after = failing(1)
    bench.deliver(bench.claim())
    assert len(bench.calls) == 2
    turn.turn(cache=cache, queues=None, limit=10, note=lambda owner: None)
    assert plant.history(workflow_id).count(EventType.ACTIVITY_COMPLETED) == 1
    assert plant.labels() == ["e-0"]
    bench.deliver(bench.claim())
    assert plant.labels() == ["e-0", "e-1"]
    cache.drop_all()


def test_of_a_hundred_the_locked_one_is_abandoned_and_99_go_at_their_second_try(plant: Plant, bench: Bench) -> None:
    """Specification A5.9."""
    ids = [plant.enqueue(activities.add, number, 0) for number in range(100)]
    claims = bench.claim()
    assert len(claims) == 100
    locked = claims[41]
    tries = [0]

    def fail(endings: Sequence[Ending]) -> None:
        if any(ending.claim.row_id == locked.row_id for ending in endings):
            tries[0] += 1
            raise retryable()

    bench.before = fail
    bench.deliver(claims)
    assert tries[0] == 5
    assert bench.time.waits == WAITS
    assert len(bench.calls[0]) == 100
    assert all(len(call) == 1 for call in bench.calls[1:])
    open_ones = [wid for wid in ids if plant.look(wid).status is WorkflowStatus.RUNNING]
    assert open_ones == [locked.workflow_id]
    row = plant.row(locked.workflow_id)
    assert (row.status, row.delivery_failures) == (OutboxStatus.PENDING.value, 1)


@pytest.mark.parametrize("error", [retryable(), RuntimeError("permanent")], ids=["retries", "no retries"])
def test_the_delivery_budget_ends_it_with_and_without_retries(
    plant: Plant, bench: Bench, settings: Any, error: Exception
) -> None:
    """Specification A5.8."""
    settings.DURABLE = settings.DURABLE | {"DELIVERY_ATTEMPTS": 2}
    workflow_id = plant.enqueue(activities.note, "f")

    def fail(endings: Sequence[Ending]) -> None:
        raise error

    bench.before = fail
    for _ in range(2):
        due_now(workflow_id)
        bench.deliver(bench.claim())
    row = plant.row(workflow_id)
    assert (row.status, row.cause, row.deliveries) == (OutboxStatus.DEAD.value, "ack_abandoned", 2)
    assert bench.claim() == []


def test_a_dead_connection_is_replaced_before_the_next_try(plant: Plant, bench: Bench) -> None:
    """Specification A2, faults C4: the result is stored without a second run."""
    from django.db import connection

    workflow_id = plant.enqueue(activities.note, "g")
    claims = bench.claim()
    seen: list[object] = []

    def lose_the_connection(endings: Sequence[Ending]) -> None:
        seen.append(connection.connection)
        if len(seen) == 1:
            raise OperationalError("server closed the connection unexpectedly") from _lost()

    bench.before = lose_the_connection
    bench.deliver(claims)
    assert len(seen) == 2
    assert seen[0] is not seen[1]
    assert plant.labels() == ["g"]
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED


def _lost() -> Exception:
    import psycopg

    return psycopg.OperationalError("server closed the connection unexpectedly")
