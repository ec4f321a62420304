"""A development worker that starts itself anew, or is killed, in the middle of a handler."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from durable.kernel.history.events import EventType
from tests.chaos import evidence
from tests.chaos.fleet import Fleet, Member, until
from tests.chaos.stand import Stand
from tests.conftest import ROOT
from tests.worker.conftest import Plant
from tests.worker.plant import activities

CODE = "from tests.chaos.plant_settings import *\n"


class Desk:
    """A file of code that the worker has loaded, and a worker that watches it."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self._fleet = fleet
        self._folder = folder
        self.file = folder / "desk_settings.py"
        self.file.write_text(CODE)

    def hire(self, **environment: str) -> Member:
        path = os.pathsep.join([str(ROOT), str(self._folder)])
        place = {"DJANGO_SETTINGS_MODULE": "desk_settings", "PYTHONPATH": path}
        return self._fleet.hire("--reload", **place, **environment)

    def save(self) -> None:
        self.file.write_text(f"{CODE}# changed\n")
        os.utime(self.file, (1, 1))


@pytest.fixture
def desk(fleet: Fleet, tmp_path: Path) -> Desk:
    return Desk(fleet, tmp_path)


def test_a_reload_in_mid_handler_gives_the_row_back_uncounted_and_runs_it_with_the_new_code(
    plant: Plant, fleet: Fleet, desk: Desk, tmp_path: Path
) -> None:
    """Faults J14: no hook for clean-up is needed."""
    stand = Stand(tmp_path, deliveries=1)
    workflow_id = plant.enqueue(activities.stand, str(tmp_path), "a")
    worker = desk.hire(PLANT_GRACE="0")
    stand.wait_for_arrival(1)
    desk.save()
    stand.wait_for_arrival(1)
    stand.let_go(1)
    until(lambda: not evidence.open_ones([workflow_id]), within=180, stuck=fleet.tails)
    assert plant.look(workflow_id).result == '"a of delivery 1"'
    assert worker.told.count("worker_started") == 2
    assert evidence.lost_attempts() == {}
    assert plant.history(workflow_id).count(EventType.WORKFLOW_COMPLETED) == 1
    evidence.assert_nothing_is_left()
    assert worker.stop() == 0


def test_a_development_worker_that_is_killed_loses_nothing(
    plant: Plant, fleet: Fleet, desk: Desk, tmp_path: Path
) -> None:
    """Faults J14: its leases run out, and the next start takes up what it held."""
    stand = Stand(tmp_path, deliveries=2)
    workflow_id = plant.enqueue(activities.stand, str(tmp_path), "b")
    killed = desk.hire(PLANT_LEASE="1")
    stand.wait_for_arrival(1)
    killed.kill()
    worker = desk.hire(PLANT_LEASE="1")
    stand.wait_for_arrival(2)
    stand.let_go(2)
    until(lambda: not evidence.open_ones([workflow_id]), within=180, stuck=fleet.tails)
    assert plant.look(workflow_id).result == '"b of delivery 2"'
    assert plant.history(workflow_id).count(EventType.WORKFLOW_COMPLETED) == 1
    evidence.assert_nothing_is_left()
    assert worker.stop() == 0
