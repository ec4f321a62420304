"""A worker that stood still past its lease wakes up, and changes nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from durable.kernel.events import EventType
from durable.models import WorkItem
from durable.outcomes import OutboxStatus
from tests.chaos import evidence
from tests.chaos.fleet import Fleet, until
from tests.waiting import PATIENCE, in_thread
from tests.worker.conftest import Plant
from tests.worker.plant import activities

LOST = ("lease_lost", "late_acknowledgement", "late_outcome_dropped")


class Stand:
    """The pipes of `plant.stand`: each delivery says that it is there, and is let go."""

    def __init__(self, folder: Path, deliveries: int) -> None:
        self.folder = folder
        for number in range(1, deliveries + 1):
            os.mkfifo(folder / f"arrived-{number}")
            os.mkfifo(folder / f"opened-{number}")

    def wait_for_arrival(self, number: int) -> None:
        assert in_thread(Path(self.folder, f"arrived-{number}").read_text).result(PATIENCE) == "here\n"

    def let_go(self, number: int) -> None:
        with Path(self.folder, f"opened-{number}").open("w"):
            pass


def test_the_late_acknowledgement_and_renewal_of_a_frozen_worker_change_nothing(
    plant: Plant, fleet: Fleet, tmp_path: Path
) -> None:
    """BUGLOG X3, S5: it wakes while the next delivery runs elsewhere."""
    stand = Stand(tmp_path, deliveries=2)
    workflow_id = plant.enqueue(activities.stand, str(tmp_path), "a")
    late = fleet.hire(PLANT_LEASE="1")
    stand.wait_for_arrival(1)
    late.send(signal.SIGSTOP)
    fleet.hire(PLANT_LEASE="1")
    stand.wait_for_arrival(2)
    token = WorkItem.objects.get().lock_token
    late.send(signal.SIGCONT)
    stand.let_go(1)
    until(lambda: any(word in late.told for word in LOST), within=30, stuck=fleet.tails)
    assert WorkItem.objects.get().lock_token == token
    assert plant.row(workflow_id).status == OutboxStatus.CLAIMED.value
    assert late.stop() == 0, "and it works on"
    assert WorkItem.objects.get().lock_token == token
    stand.let_go(2)
    until(lambda: not evidence.open_ones([workflow_id]), within=30, stuck=fleet.tails)
    assert plant.look(workflow_id).result == '"a of delivery 2"'
    evidence.assert_nothing_is_left()
    assert plant.history(workflow_id).count(EventType.WORKFLOW_COMPLETED) == 1


@pytest.mark.parametrize("verb", ["release", "abandon"])
def test_what_a_frozen_worker_gives_back_late_stays_with_its_new_holder(
    plant: Plant, fleet: Fleet, tmp_path: Path, verb: str
) -> None:
    """A release at a stop without grace, and the abandonment of an acknowledgement that fails for good."""
    stand = Stand(tmp_path, deliveries=2)
    workflow_id = plant.enqueue(activities.stand, str(tmp_path), "b")
    if verb == "abandon":
        late = fleet.hire(before=FAILING_ACKNOWLEDGEMENTS, PLANT_LEASE="1")
    else:
        late = fleet.hire(PLANT_LEASE="1", PLANT_GRACE="0")
    stand.wait_for_arrival(1)
    late.send(signal.SIGSTOP)
    fleet.hire(PLANT_LEASE="1")
    stand.wait_for_arrival(2)
    token = WorkItem.objects.get().lock_token
    if verb == "release":
        late.send(signal.SIGTERM)
        late.send(signal.SIGCONT)
        assert late.process.wait(30) == 0
    else:
        late.send(signal.SIGCONT)
        stand.let_go(1)
        until(lambda: "given_back" in late.told, within=30, stuck=fleet.tails)
        assert "answer=token_missing" in late.told
    row = plant.row(workflow_id)
    assert (row.status, row.deliveries) == (OutboxStatus.CLAIMED.value, 2)
    assert WorkItem.objects.get().lock_token == token
    stand.let_go(2)
    until(lambda: not evidence.open_ones([workflow_id]), within=30, stuck=fleet.tails)
    assert plant.look(workflow_id).result == '"b of delivery 2"'


FAILING_ACKNOWLEDGEMENTS = """
import django

django.setup()
from durable.flow import acknowledge
from durable.worker.leases import Leases

def acknowledge_nothing(endings):
    raise RuntimeError("permanent")

acknowledge.acknowledge = acknowledge_nothing
Leases._lost = lambda self, delivery: None  # so that the renewal does not learn it first
"""
