"""A worker that stood still past its lease wakes up, and changes nothing."""

from __future__ import annotations

import signal
import uuid
from pathlib import Path

import pytest

from durable.kernel.history.events import EventType
from tests.chaos import evidence
from tests.chaos.fleet import Fleet, Member, chance, only_full, pass_time, tell, until
from tests.chaos.stand import Stand
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows

FREEZES = 40


NEVER_TOLD = """
import django

django.setup()
from durable.worker.loops.leases import Leases

Leases._lost = lambda self, delivery: None  # so that the renewal does not learn it first
"""
FAILING_ACKNOWLEDGEMENTS = """
from durable.flow.delivery import acknowledge

def acknowledge_nothing(endings):
    raise RuntimeError("permanent")

acknowledge.acknowledge = acknowledge_nothing
"""
RENEWAL, ACKNOWLEDGEMENT, ABANDONMENT, RELEASE = "renewal", "acknowledgement", "abandonment", "release"
SAID = {RENEWAL: "lease_lost", ACKNOWLEDGEMENT: "late_acknowledgement", ABANDONMENT: "answer=token_missing"}


def hire_late(fleet: Fleet, verb: str) -> Member:
    """A worker that will be late, and of which that verb is the first to say so."""
    match verb:
        case "acknowledgement":
            return fleet.hire(before=NEVER_TOLD, PLANT_LEASE="1")
        case "abandonment":
            return fleet.hire(before=NEVER_TOLD + FAILING_ACKNOWLEDGEMENTS, PLANT_LEASE="1")
        case "release":
            return fleet.hire(PLANT_LEASE="1", PLANT_GRACE="0")
        case _:
            return fleet.hire(PLANT_LEASE="1")


@pytest.mark.parametrize("verb", [RENEWAL, ACKNOWLEDGEMENT, ABANDONMENT, RELEASE])
def test_what_a_frozen_worker_does_late_changes_no_row(plant: Plant, fleet: Fleet, tmp_path: Path, verb: str) -> None:
    """Faults X3, S5: it stood still past its lease, and wakes while the next delivery runs elsewhere."""
    stand = Stand(tmp_path, deliveries=2)
    workflow_id = plant.enqueue(activities.stand, str(tmp_path), "a")
    late = hire_late(fleet, verb)
    stand.wait_for_arrival(1)
    late.send(signal.SIGSTOP)
    fleet.hire(PLANT_LEASE="1")
    stand.wait_for_arrival(2)
    before = evidence.standing()
    if verb == RELEASE:
        late.send(signal.SIGTERM)
    late.send(signal.SIGCONT)
    if verb in (ACKNOWLEDGEMENT, ABANDONMENT):
        stand.let_go(1)
    if verb == RELEASE:
        assert late.process.wait(PATIENCE) == 0
    else:
        until(lambda: SAID[verb] in late.told, within=180, stuck=fleet.tails)
    assert evidence.standing() == before
    if verb == RENEWAL:
        stand.let_go(1)
    assert verb == RELEASE or late.stop() == 0, "and it works on"
    assert evidence.standing() == before
    [item] = before["WorkItem"]
    assert (plant.row(workflow_id).deliveries, item["outbox_row_id"]) == (2, plant.row(workflow_id).id)
    stand.let_go(2)
    until(lambda: not evidence.open_ones([workflow_id]), within=180, stuck=fleet.tails)
    assert plant.look(workflow_id).result == '"a of delivery 2"'
    evidence.assert_nothing_is_left()
    assert plant.history(workflow_id).count(EventType.WORKFLOW_COMPLETED) == 1


@only_full
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_frozen_at_random_moments_lose_nothing_and_record_nothing_twice(plant: Plant, fleet: Fleet) -> None:
    """Faults X3: past their leases and not, in turns, claims, handlers and transactions."""
    rng = chance("freezes")
    crew = [fleet.hire(PLANT_LEASE="1") for _ in range(3)]
    for member in crew:
        until(member.has_begun, within=180, stuck=fleet.tails)
    labels: dict[uuid.UUID, str] = {}
    for _ in range(FREEZES):
        for _ in range(10):
            label = f"journey {len(labels)}"
            workflow_id = plant.start(workflows.journey, label)
            labels[workflow_id] = label
            plant.signal(workflow_id, "go", "home")
        frozen = rng.sample(crew, rng.choice([1, 2]))
        pass_time(rng.uniform(0, 0.2))
        for member in frozen:
            member.send(signal.SIGSTOP)
        pass_time(rng.uniform(0.5, 2.5))
        for member in frozen:
            member.send(signal.SIGCONT)
    until(
        lambda: not evidence.open_ones(labels),
        within=500,
        stuck=lambda: f"{evidence.what_is_stuck(labels)}\n{fleet.tails()}",
    )
    assert [member.stop() for member in crew] == [0] * 3
    lost = evidence.lost_attempts()
    tell(f"{len(labels)} workflows, {FREEZES} freezes, lost deliveries: {dict(lost)}")
    evidence.assert_journeys_ended_well(labels)
