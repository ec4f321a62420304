"""Workers die at random moments, and nothing is lost or recorded twice."""

from __future__ import annotations

import uuid

import pytest

from tests.chaos import evidence
from tests.chaos.fleet import FULL, Fleet, chance, pass_time, tell, until
from tests.worker.conftest import Plant
from tests.worker.plant import workflows

JOURNEYS, ROUNDS, MEMBERS = (500, 50, 3) if FULL else (100, 5, 2)

BEYOND_THE_BOOT = 0.8
"""The share of the killed that have begun to work; a boot takes longer than most work."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_killed_at_random_moments_lose_nothing_and_record_nothing_twice(plant: Plant, fleet: Fleet) -> None:
    """Faults S1, S4, S5: SIGKILL in the boot, in turns, in handlers, between effect and acknowledgement."""
    rng = chance("random kills")
    crew = [fleet.hire(PLANT_LEASE="1") for _ in range(MEMBERS)]
    labels: dict[uuid.UUID, str] = {}
    unsignalled: list[uuid.UUID] = []
    for number in range(ROUNDS):
        for _ in range(JOURNEYS // ROUNDS):
            label = f"journey {len(labels)}"
            workflow_id = plant.start(workflows.journey, label)
            labels[workflow_id] = label
            unsignalled.append(workflow_id)
        rng.shuffle(unsignalled)
        while len(unsignalled) > JOURNEYS // ROUNDS:
            plant.signal(unsignalled.pop(), "go", "home")
        victim = number % MEMBERS
        if rng.random() < BEYOND_THE_BOOT:
            until(crew[victim].has_begun, within=180, stuck=fleet.tails)
        pass_time(rng.uniform(0, 1))
        crew[victim].kill()
        crew[victim] = fleet.hire(PLANT_LEASE="1")
    for workflow_id in unsignalled:
        plant.signal(workflow_id, "go", "home")
    until(
        lambda: not evidence.open_ones(labels),
        within=300,
        stuck=lambda: f"{evidence.what_is_stuck(labels)}\n{fleet.tails()}",
    )
    assert [member.stop() for member in crew] == [0] * MEMBERS
    lost = evidence.lost_attempts()
    tell(f"{len(labels)} workflows, {ROUNDS} kills, lost deliveries: {dict(lost)}")
    assert set(lost) <= {"worker_died", "lease_lost"}
    evidence.assert_journeys_ended_well(labels)
