"""Workers as threads of the test: stopping, leases, cancellation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from durable.flow.caller import cancel
from durable.flow.delivery import acknowledge, claim, renew
from durable.models import WorkItem
from durable.outcomes import AckOutcome, Company, Ending, HeldDelivery, OutboxStatus, Renewal, WorkflowStatus
from durable.worker.process.modes import WorkerExit
from tests.flow.state import locked_elsewhere
from tests.waiting import PATIENCE, Gate
from tests.worker.benches import retryable
from tests.worker.conftest import Plant
from tests.worker.plant import activities
from tests.worker.threads import running, until, until_closed


class Renewals:
    """Counts renewals of anything, and lets the test wait for the next ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = renew.renew
        self._seen = threading.Semaphore(0)
        self.answers: list[Renewal] = []
        monkeypatch.setattr(renew, "renew", self._renew)

    def _renew(self, held: Sequence[HeldDelivery], *, lease_for: timedelta) -> list[Renewal]:
        answers = self._real(held, lease_for=lease_for)
        self.answers += answers
        self._seen.release()
        return answers

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self._seen.acquire(timeout=PATIENCE), "No renewal came."


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> Renewals:
    return Renewals(monkeypatch)


def test_a_stop_lets_the_handler_finish(plant: Plant, door: Callable[[str], Gate]) -> None:
    gate = door("a")
    workflow_id = plant.enqueue(activities.pass_gate, "a")
    with running() as (worker, future):
        gate.wait_for_arrival()
        worker.stop()
        gate.open()
        assert future.result(PATIENCE) is WorkerExit.CLEAN
    assert plant.look(workflow_id).result == '"through"'


def test_what_outlasts_the_grace_is_released_uncounted_and_its_late_result_dropped(
    plant: Plant, door: Callable[[str], Gate], settings: Any
) -> None:
    settings.DURABLE = settings.DURABLE | {"GRACE_FOR": timedelta()}
    gate = door("b")
    workflow_id = plant.enqueue(activities.pass_gate, "b")
    with running() as (worker, future):
        gate.wait_for_arrival()
        worker.stop()
        assert future.result(PATIENCE) is WorkerExit.CLEAN
        row = plant.row(workflow_id)
        assert (row.status, row.deliveries, row.delivery_failures) == (OutboxStatus.PENDING.value, 0, 0)
        gate.open()
    assert plant.look(workflow_id).status is WorkflowStatus.RUNNING


@pytest.mark.parametrize("definition", [activities.pass_gate, activities.pass_gate_async], ids=["sync", "async"])
def test_an_activity_of_many_leases_runs_once(
    plant: Plant, door: Callable[[str], Gate], settings: Any, renewals: Renewals, definition: Any
) -> None:
    """Faults X1, X4: also when an async handler blocks its event loop."""
    settings.DURABLE = settings.DURABLE | {"LEASE_FOR": timedelta(seconds=1)}
    gate = door("c")
    workflow_id = plant.enqueue(definition, "c")
    with running(name="one"), running(name="two"):
        gate.wait_for_arrival()
        renewals.wait(15)
        gate.open()
        until_closed(plant, workflow_id)
    assert plant.labels() == ["c"]
    assert Renewal.LOST not in renewals.answers[:15]
    assert plant.row(workflow_id).deliveries == 1


def test_the_lease_is_renewed_while_the_acknowledgement_waits(
    plant: Plant, settings: Any, monkeypatch: pytest.MonkeyPatch, renewals: Renewals
) -> None:
    """Specification A5.7: the lease is shorter than the waits, another worker is there, and does not get it."""
    settings.DURABLE = settings.DURABLE | {
        "LEASE_FOR": timedelta(seconds=1),
        "RECONCILE_EVERY": timedelta(seconds=0.1),
    }
    real = acknowledge.acknowledge
    tries: list[None] = []

    def faulty(endings: Sequence[Ending]) -> list[AckOutcome]:
        tries.append(None)
        if len(tries) < 5:
            raise retryable()
        return real(endings)

    monkeypatch.setattr(acknowledge, "acknowledge", faulty)
    workflow_id = plant.enqueue(activities.note, "d")
    with running(name="one"), running(name="two"):
        until_closed(plant, workflow_id)
    assert plant.labels() == ["d"]
    assert len(tries) == 5
    row = plant.row(workflow_id)
    assert (row.deliveries, row.delivery_failures) == (1, 0)


def test_a_cancel_request_reaches_a_sync_handler_and_no_attempt_follows(
    plant: Plant, door: Callable[[str], Gate], settings: Any
) -> None:
    """Faults N1."""
    settings.DURABLE = settings.DURABLE | {"LEASE_FOR": timedelta(seconds=1)}
    gate = door("e")
    workflow_id = plant.enqueue(activities.wait_for_cancel, "e", budget=5)
    with running():
        gate.wait_for_arrival()
        gate.open()
        cancel.cancel(workflow_id, reason="enough", actor="test")
        until_closed(plant, workflow_id)
    assert plant.labels() == ["e"]
    assert plant.look(workflow_id).status is WorkflowStatus.CANCELLED
    assert plant.row(workflow_id).status == OutboxStatus.CANCELLED.value


def test_cancelled_async_handlers_give_their_slots_back(
    plant: Plant, door: Callable[[str], Gate], settings: Any
) -> None:
    """Faults N3: more cancellations than slots; afterwards the pool still runs something."""
    settings.DURABLE = settings.DURABLE | {"LEASE_FOR": timedelta(seconds=1), "CONCURRENCY": 2}
    gate = door("f")
    gate.open()
    ids = [plant.enqueue(activities.wait_forever_async, "f") for _ in range(6)]
    with running() as (worker, _):
        for workflow_id in ids:
            cancel.cancel(workflow_id, reason="enough", actor="test")
        for workflow_id in ids:
            until_closed(plant, workflow_id)
        after = plant.enqueue(activities.add, 1, 1)
        until_closed(plant, after)
    assert worker.handlers.busy == 0
    assert {plant.look(workflow_id).status for workflow_id in ids} == {WorkflowStatus.CANCELLED}


def test_a_handler_whose_row_was_settled_learns_it_and_is_dropped(
    plant: Plant, door: Callable[[str], Gate], settings: Any
) -> None:
    """Specification B7: the workflow is terminated; the next renewal finds the token gone."""
    from durable.flow.operator import terminate

    settings.DURABLE = settings.DURABLE | {"LEASE_FOR": timedelta(seconds=1)}
    gate = door("g")
    workflow_id = plant.enqueue(activities.wait_for_cancel, "g")
    with running() as (worker, _):
        gate.wait_for_arrival()
        gate.open()
        terminate.terminate(workflow_id, reason="enough", actor="test")
        until(lambda: worker.handlers.busy == 0)
    assert plant.labels() == ["g"]
    assert plant.row(workflow_id).status == OutboxStatus.CANCELLED.value


def test_trouble_in_the_store_ends_no_loop(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults C3, C5, X3: every verb of every loop fails three times, each in its own way; then all is as ever."""
    from django.db import IntegrityError, InterfaceError, OperationalError

    from durable.flow.delivery import claim
    from durable.flow.turns import turn
    from durable.flow.upkeep import reconcile

    for module, verb in ((claim, "claim"), (reconcile, "reconcile"), (turn, "turn")):
        errors = iter([OperationalError("gone"), InterfaceError("closed"), IntegrityError("constraint")])
        monkeypatch.setattr(module, verb, failing_first(getattr(module, verb), errors))
    workflow_id = plant.enqueue(activities.add, 2, 2)
    with running() as (worker, _):
        until_closed(plant, workflow_id)
        until(lambda: worker.complaints() == [])
    assert plant.look(workflow_id).result == "4"


def test_a_stop_without_a_store_says_so_and_names_what_stays_leased(
    plant: Plant, door: Callable[[str], Gate], settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Faults C6."""
    from django.db import OperationalError

    from durable.flow.delivery import release

    settings.DURABLE = settings.DURABLE | {"GRACE_FOR": timedelta()}
    monkeypatch.setattr(release, "release", failing_first(release.release, iter([OperationalError("refused")])))
    gate = door("h")
    workflow_id = plant.enqueue(activities.pass_gate, "h")
    with running() as (worker, future):
        gate.wait_for_arrival()
        worker.stop()
        assert future.result(PATIENCE) is WorkerExit.STORE
        gate.open()
    assert f"{workflow_id}:1:1" in caplog.text


def failing_first(real: Callable[..., Any], errors: Iterator[Exception]) -> Callable[..., Any]:
    def verb(*args: Any, **kwargs: Any) -> Any:
        if (error := next(errors, None)) is not None:
            raise error
        return real(*args, **kwargs)

    return verb


def test_a_worker_knows_whether_another_one_serves_its_queues(plant: Plant, settings: Any) -> None:
    """Only then does it leave to others what they may have in memory (ADR 013)."""
    settings.DURABLE = settings.DURABLE | {"RECONCILE_EVERY": timedelta(milliseconds=50)}
    with running(name="one") as (one, _):
        until(one.ready.is_set)
        assert one.housekeeping.company is Company.ALONE
        with running(name="elsewhere", queues=["elsewhere"]), running(name="two", queues=["default"]) as (two, _):
            until(lambda: one.housekeeping.company is two.housekeeping.company is Company.OTHERS)
        until(lambda: one.housekeeping.company is Company.ALONE)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no row locks.")
def test_a_new_worker_is_ready_and_works_while_somebody_holds_one_of_sixty_lost_rows(plant: Plant) -> None:
    """The 59 others run again, what is new runs at once, and the last one when nobody holds it."""
    lost = [plant.enqueue(activities.add, number, 1) for number in range(60)]
    claims = claim.claim(worker="gone", limit=60, queues=None, lease_for=timedelta(minutes=1))
    assert len(claims) == 60
    WorkItem.objects.update(locked_until=claims[0].created_at - timedelta(hours=1))
    held = claims[30].workflow_id
    with locked_elsewhere("durable_outboxrow", "id", claims[30].row_id), running() as (worker, _):
        until(worker.ready.is_set)
        until_closed(plant, plant.enqueue(activities.add, 1, 1))
        assert worker.complaints() == []
        for workflow_id in lost:
            if workflow_id != held:
                until_closed(plant, workflow_id)
    assert plant.look(held).closed_at is None
    with running():
        until_closed(plant, held)
