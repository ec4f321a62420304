"""A stop that comes while something is being claimed: what it takes goes back, or the exit code says so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from durable.flow.delivery import claim, release
from durable.models import OutboxRow, WorkItem
from durable.outcomes import Claim, GiveBack
from durable.worker.process import stopping
from durable.worker.process.modes import WorkerExit
from tests.waiting import PATIENCE, Gate
from tests.worker.conftest import Plant
from tests.worker.plant import activities
from tests.worker.threads import running, until


@pytest.fixture(autouse=True)
def no_grace(plant: Plant, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop that waits for nothing longer than it must."""
    settings.DURABLE = settings.DURABLE | {"GRACE_FOR": timedelta()}
    monkeypatch.setattr(stopping, "SHORT_CLAIM", 0.05)
    monkeypatch.setattr(stopping, "LAST_WORDS", PATIENCE)


def slow_commit(monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    """Claims whose commit takes until the test opens the gate: the rows are taken, and nobody has heard of it yet."""
    real = claim.claim

    def slowly(**options: Any) -> list[Claim]:
        taken = real(**options)
        if taken:
            gate.pass_through()
        return taken

    monkeypatch.setattr(claim, "claim", slowly)


def test_a_claim_whose_commit_outlasts_the_grace_goes_back_when_it_comes(
    plant: Plant, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uncounted, and no handler begins."""
    slow_commit(monkeypatch, gate)
    for number in range(3):
        plant.enqueue(activities.note, f"late {number}")
    with running() as (worker, future):
        gate.wait_for_arrival()
        worker.stop()
        until(lambda: worker.claims._over)  # the moment in which it has heard of the stop
        gate.open()
        assert future.result(PATIENCE) is WorkerExit.CLEAN
    assert list(OutboxRow.objects.values_list("status", "deliveries")) == [("pending", 0)] * 3
    assert not WorkItem.objects.exists()
    assert plant.labels() == []


def test_a_claim_that_does_not_come_to_its_end_is_said_and_makes_the_exit_code_3(
    plant: Plant, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Its thread is there still, and gives it back if the process lives on."""
    slow_commit(monkeypatch, gate)
    monkeypatch.setattr(stopping, "LAST_WORDS", 0.3)
    plant.enqueue(activities.note, "lost")
    with running() as (worker, future):
        gate.wait_for_arrival()
        worker.stop()
        assert future.result(PATIENCE) is WorkerExit.STORE
        gate.open()
    assert "a claim had not finished" in caplog.text
    until(lambda: not WorkItem.objects.exists())
    assert plant.labels() == []


def test_what_came_late_and_can_not_be_given_back_is_said(
    plant: Plant, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """By name."""
    slow_commit(monkeypatch, gate)
    monkeypatch.setattr(release, "release", lambda claims: [GiveBack.BUSY for _ in claims])
    workflow_id = plant.enqueue(activities.note, "held")
    with running() as (worker, future):
        gate.wait_for_arrival()
        worker.stop()
        until(lambda: worker.claims._over)
        gate.open()
        assert future.result(PATIENCE) is WorkerExit.STORE
    assert f"could not be given back: {workflow_id}:1:1" in caplog.text


def test_what_is_locked_at_a_stop_is_said_and_the_rest_goes_back(
    plant: Plant, door: Callable[[str], Gate], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Tried again and again while there is time."""
    real, tries = release.release, []

    def busy(claims: Any) -> list[GiveBack]:
        tries.append(len(claims))
        return [GiveBack.BUSY, *real(claims[1:])]

    monkeypatch.setattr(release, "release", busy)
    monkeypatch.setattr(stopping, "LAST_WORDS", 2.0)
    gates = [door(name) for name in "ab"]
    for name in "ab":
        plant.enqueue(activities.pass_gate, name)
    with running() as (worker, future):
        for gate in gates:
            gate.wait_for_arrival()
        worker.stop()
        assert future.result(PATIENCE) is WorkerExit.STORE
        for gate in gates:
            gate.open()
    assert tries[0] == 2
    assert set(tries[1:]) == {1}
    assert "another session has locked 1" in caplog.text
    assert sorted(OutboxRow.objects.values_list("status", flat=True)) == ["claimed", "pending"]


def test_what_a_claim_took_without_learning_it_is_found_by_the_next_one(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs at once, and is no failed delivery: nobody waits for its lease to run out."""
    real, failed = claim.claim, list[str]()

    def failing_once(**options: Any) -> list[Claim]:
        taken = real(**options)
        if taken and not failed:
            failed.append("once")
            raise OperationalError("the connection is lost")
        return taken

    monkeypatch.setattr(claim, "claim", failing_once)
    workflow_id = plant.enqueue(activities.note, "found")
    with running() as (worker, future):
        until(lambda: plant.look(workflow_id).closed_at is not None)
        worker.stop()
        assert future.result(PATIENCE) is WorkerExit.CLEAN
    assert failed == ["once"]
    row = plant.row(workflow_id)
    assert (row.status, row.deliveries, row.delivery_failures) == ("done", 1, 0)


def test_a_claim_in_doubt_that_nobody_can_look_up_at_a_stop_makes_the_exit_code_3(
    plant: Plant, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """And is said."""
    real = claim.claim

    def lost(**options: Any) -> list[Claim]:
        if real(**options):
            gate.pass_through()
            raise OperationalError("the connection is lost")
        return []

    def away(commit: Any) -> list[Claim]:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(claim, "claim", lost)
    monkeypatch.setattr(claim, "made_in_doubt", away)
    plant.enqueue(activities.note, "in doubt")
    with running() as (worker, future):
        gate.wait_for_arrival()
        worker.stop()
        gate.open()
        assert future.result(PATIENCE) is WorkerExit.STORE
    assert "it is not known whether the last claim was committed" in caplog.text
