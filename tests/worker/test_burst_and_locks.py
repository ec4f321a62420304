"""`--burst` beside rows that somebody else has locked: it says what it waits for, and comes to an end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from durable.flow.looks import probe
from durable.models import OutboxRow
from durable.outcomes import WorkflowStatus
from durable.worker.loops import aside, burst
from durable.worker.process.modes import WorkerExit, WorkerMode
from durable.worker.process.worker import Worker
from tests.flow.state import locked_elsewhere
from tests.settings import VENDOR
from tests.waiting import PATIENCE, Gate, in_thread
from tests.worker.conftest import Plant
from tests.worker.hearing import Ear, listening
from tests.worker.plant import activities, workflows

pytestmark = pytest.mark.skipif(VENDOR != "postgresql", reason="SQLite has no row locks.")


@pytest.fixture
def locks() -> Iterator[ExitStack]:
    with ExitStack() as locks:
        yield locks


@pytest.fixture
def ear() -> Iterator[Ear]:
    with listening() as ear:
        yield ear


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives up soon."""
    monkeypatch.setattr(burst, "LOCKED_FOR", 0.5)
    monkeypatch.setattr(burst, "SAID_AFTER", 0.1)


def lock(locks: ExitStack, what: str, workflow_id: uuid.UUID, row_id: int) -> None:
    table = f"durable_{what}"
    locks.enter_context(locked_elsewhere(table, "id", workflow_id if what == "workflow" else row_id))


def run() -> WorkerExit:
    return Worker(mode=WorkerMode.BURST).run()


def begun(plant: Plant, what: str) -> tuple[uuid.UUID, int, str]:
    """Something that is due, and how it is named."""
    if what == "workflow":
        workflow_id = plant.start(workflows.three, "x")
        return workflow_id, 0, f"workflow {workflow_id}"
    workflow_id = plant.enqueue(activities.note, "x")
    row_id: int = plant.row(workflow_id).id
    return workflow_id, row_id, f"outbox row {row_id}"


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("what", ["workflow", "outboxrow"])
def test_a_burst_ends_beside_due_work_that_stays_locked_and_names_it(
    plant: Plant, locks: ExitStack, ear: Ear, what: str
) -> None:
    """What is free is done. Once nobody holds it, the next burst does the rest."""
    workflow_id, row_id, name = begun(plant, what)
    lock(locks, what, workflow_id, row_id)
    others = [plant.enqueue(activities.note, str(number)) for number in range(3)]
    assert run() is WorkerExit.STORE
    assert {plant.look(other).status for other in others} == {WorkflowStatus.COMPLETED}
    assert [said for said in ear.said() if said[1].startswith("burst")] == [
        ("WARNING", "burst_waits_for_locks"),
        ("ERROR", "burst_left_what_is_locked"),
    ]
    [left] = ear.of("burst_left_what_is_locked")
    assert (vars(left)["due"], vars(left)["results"], vars(left)["first"]) == (1, 0, [name])
    locks.close()
    assert run() is WorkerExit.CLEAN
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("what", ["workflow", "outboxrow"])
def test_a_burst_does_what_was_locked_for_a_while(
    plant: Plant, locks: ExitStack, ear: Ear, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(burst, "SAID_AFTER", 0.1)
    monkeypatch.setattr(burst, "LOCKED_FOR", PATIENCE)
    workflow_id, row_id, _ = begun(plant, what)
    lock(locks, what, workflow_id, row_id)
    ear.also = lambda record: locks.close() if record.msg == "burst_waits_for_locks" else None
    assert run() is WorkerExit.CLEAN
    assert ear.of("burst_waits_for_locks")
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED


@pytest.mark.usefixtures("hasty")
def test_a_burst_ends_beside_a_result_that_stays_locked(
    plant: Plant, locks: ExitStack, ear: Ear, door: Callable[[str], Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is lost with the process, and its lease runs out: it says that it left it."""
    monkeypatch.setattr(aside, "LAST_PATIENCE", timedelta())
    gate = door("x")
    workflow_id = plant.enqueue(activities.pass_gate, "x")
    running = in_thread(run)
    gate.wait_for_arrival()
    lock(locks, "outboxrow", workflow_id, plant.row(workflow_id).id)
    gate.open()
    assert running.result(PATIENCE) is WorkerExit.STORE
    [left] = ear.of("burst_left_what_is_locked")
    assert (vars(left)["due"], vars(left)["results"]) == (0, 1)
    [stopped] = ear.of("stopped_with_work_left")
    assert vars(stopped)["unwritten"] == 1
    assert OutboxRow.objects.get().status == "claimed"


def test_time_spent_at_work_is_no_time_spent_waiting_for_locks() -> None:
    """The clock of patience begins with the first look that finds nothing else."""
    now = [1000.0]
    watch: Any = burst._Locks(lambda: now[0])  # its clock is given: nobody waits for real
    now[0] += 60
    left = probe.DueNow(1, 0, ["outbox row 1"])
    assert watch.is_time
    assert watch.seen(left, 0) is burst.Quiet.NOT_YET
    assert not watch.is_time, "Looks cost statements."
    now[0] += burst.LOCKED_FOR
    assert watch.is_time
    assert watch.seen(left, 0) is burst.Quiet.LOCKED
