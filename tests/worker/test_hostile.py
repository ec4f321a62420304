"""Handlers and workflows that fight back: what they raise, pass or return fails them alone, and the worker goes on."""

from __future__ import annotations

from typing import Any

import pytest

from durable.models import FailedAttempt
from durable.outcomes import OutboxStatus, WorkflowStatus
from tests import hostile
from tests.ledger.models import Entry
from tests.worker.conftest import Plant
from tests.worker.plant import activities, fighters, workflows
from tests.worker.processes import Start, code_of
from tests.worker.threads import running, until, until_closed

pytestmark = pytest.mark.usefixtures("collected")

ALL = sorted(hostile.ERRORS)


def said_of(kind: str) -> str:
    """The name under which an error of this kind is stored."""
    from durable.kernel.texts.failure import describe

    return describe(hostile.ERRORS[kind]()).type


@pytest.mark.parametrize("fight", sorted(fighters.FIGHTS))
def test_whatever_a_handler_raises_is_an_attempt_that_failed_and_a_burst_ends(plant: Plant, fight: str) -> None:
    ids = {kind: plant.enqueue(fighters.FIGHTS[fight], kind) for kind in ALL}
    beside = [plant.enqueue(activities.add, number, 1) for number in range(5)]
    plant.burst()
    for kind, workflow_id in ids.items():
        found = plant.look(workflow_id)
        assert (kind, found.status) == (kind, WorkflowStatus.FAILED)
        assert (kind, found.failure.type) == (kind, said_of(kind))
        row = plant.row(workflow_id)
        assert (kind, row.attempts, row.deliveries) == (kind, 2, 2)
        assert row.failed_attempts.count() >= 1
    assert {plant.look(workflow_id).status for workflow_id in beside} == {WorkflowStatus.COMPLETED}
    assert not Entry.objects.exists()


@pytest.mark.parametrize("hand", sorted(fighters.HANDS))
def test_whatever_a_handler_returns_or_beats_with_is_an_attempt_that_failed(plant: Plant, hand: str) -> None:
    ids = [plant.enqueue(fighters.HANDS[hand], kind) for kind in hostile.VALUES]
    plant.burst()
    for workflow_id in ids:
        found = plant.look(workflow_id)
        assert (found.status, found.failure.type) == (WorkflowStatus.FAILED, "durable.errors.PayloadError")
        assert plant.row(workflow_id).attempts == 1
    assert not Entry.objects.exists()


@pytest.mark.parametrize("definition", [fighters.raise_it, fighters.raise_it_in_a_task], ids=lambda one: one.name)
def test_whatever_workflow_code_raises_ends_that_workflow_and_the_worker_turns_on(
    plant: Plant, definition: Any
) -> None:
    ids = {kind: plant.start(definition, kind) for kind in ALL}
    beside = plant.start(workflows.three, "a")
    plant.burst()
    for kind, workflow_id in ids.items():
        found = plant.look(workflow_id)
        assert (kind, found.status) == (kind, WorkflowStatus.FAILED)
        assert (kind, found.failure.type) == (kind, said_of(kind))
    assert plant.look(beside).status is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("definition", [fighters.pass_it, fighters.return_it], ids=lambda one: one.name)
def test_whatever_workflow_code_passes_or_returns_fails_that_workflow(plant: Plant, definition: Any) -> None:
    ids = [plant.start(definition, kind) for kind in hostile.VALUES]
    plant.burst()
    for workflow_id in ids:
        found = plant.look(workflow_id)
        assert (found.status, found.failure.type) == (WorkflowStatus.FAILED, "durable.errors.PayloadError")


def test_whatever_the_loop_is_told_of_the_workflow_goes_on(plant: Plant) -> None:
    ids = [plant.start(fighters.complain, kind) for kind in ALL]
    plant.burst()
    assert {plant.look(workflow_id).result for workflow_id in ids} == {'"went on"'}


def test_arguments_that_refuse_to_be_read_count_as_deliveries_and_block_workflows(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = plant.enqueue(fighters.take_reborn, hostile.Reborn("a"))
    began = plant.start(fighters.begin_reborn, hostile.Reborn("a"))
    monkeypatch.setattr(hostile.Reborn, "refuses", True)
    after = plant.start(workflows.three, "b")
    plant.burst()
    row = plant.row(single)
    assert (row.status, row.attempts, row.cause) == (OutboxStatus.DEAD, 0, "undecodable_input")
    assert "Reborn refused its stored fields by SystemExit" in plant.look(began).blocked_reason
    assert plant.look(after).status is WorkflowStatus.COMPLETED


def test_the_async_loop_lives_on_and_no_thread_of_the_worker_ends(plant: Plant) -> None:
    with running() as (worker, future):
        ids = [plant.enqueue(fighters.fight_in_a_task, kind) for kind in ALL]
        for workflow_id in ids:
            until_closed(plant, workflow_id)
        for definition in (activities.note_async, activities.note, activities.write_once):
            until_closed(plant, plant.enqueue(definition, "after"))
        until(lambda: worker.handlers.busy == 0)
        assert all(loop.alive for loop in worker.loops)
        assert not future.done()
    assert plant.labels() == ["after"] * 3


def test_a_worker_process_of_a_burst_ends_well(plant: Plant, runworker: Start) -> None:
    ids = [plant.enqueue(one, kind) for one in fighters.FIGHTS.values() for kind in ALL]
    ids += [plant.start(fighters.raise_it, kind) for kind in ALL]
    assert code_of(runworker("--burst", "--processes", "2")) == 0
    assert not [found for one in ids if (found := plant.look(one)).status is not WorkflowStatus.FAILED]
    assert not FailedAttempt.objects.filter(cause="worker_died").exists()
