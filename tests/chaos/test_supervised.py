"""Children of a supervisor die at random moments."""

from __future__ import annotations

import os
import signal
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos import evidence
from tests.chaos.fleet import FULL, Fleet, chance, free_port, health_of, pass_time, tell, until
from tests.worker.conftest import Plant
from tests.worker.plant import workflows

KILLS = 100 if FULL else 12

WITHOUT_BACK_OFF = """
from durable.worker.process import supervisor
supervisor.FIRST_WAIT = supervisor.LONGEST_WAIT = 0.05
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_children_killed_at_random_moments_are_replaced_and_the_probe_knows_how_many_live(
    plant: Plant, fleet: Fleet
) -> None:
    """Faults S8."""
    rng = chance("supervised kills")
    port = free_port()
    parent = fleet.hire("--processes", "3", "--health", f"127.0.0.1:{port}", before=WITHOUT_BACK_OFF, PLANT_LEASE="1")
    labels: dict[uuid.UUID, str] = {}
    for number in range(KILLS):
        label = f"journey {number}"
        workflow_id = plant.start(workflows.journey, label)
        labels[workflow_id] = label
        plant.signal(workflow_id, "go", "home")
        until(lambda: bool(parent.children()), within=180, stuck=fleet.tails)
        with suppress(ProcessLookupError):
            os.kill(rng.choice(parent.children()), signal.SIGKILL)
        pass_time(rng.uniform(0, 0.5))
    until(
        lambda: not evidence.open_ones(labels),
        within=300,
        stuck=lambda: f"{evidence.what_is_stuck(labels)}\n{fleet.tails()}",
    )
    until(lambda: health_of(port) == (200, "ok\n"), within=180, stuck=lambda: f"{health_of(port)}\n{fleet.tails()}")
    assert len(parent.children()) == 3
    os.kill(parent.children()[0], signal.SIGKILL)
    until(lambda: health_of(port)[0] == 503, within=180, stuck=fleet.tails)
    until(lambda: health_of(port) == (200, "ok\n"), within=180, stuck=fleet.tails)
    assert len(parent.children()) == 3
    assert parent.stop() == 0
    evidence.assert_journeys_ended_well(labels)
    tell(
        f"{KILLS} kills of 3 children under {len(labels)} workflows, lost deliveries: {dict(evidence.lost_attempts())}"
    )


HANGS_ONCE = """
import signal
from datetime import timedelta
from pathlib import Path

import django

django.setup()
from durable.worker.process.supervisor import Supervisor
from durable.worker.process.worker import Worker

Supervisor.__init__.__kwdefaults__["ready_within"] = timedelta(seconds=3)
run = Worker.run

def hang_once(worker):
    try:
        Path({marker!r}).touch(exist_ok=False)
    except FileExistsError:
        return run(worker)
    while True:
        signal.pause()

Worker.run = hang_once
"""


def test_a_child_that_hangs_in_its_boot_makes_the_probe_red_until_it_is_replaced(
    plant: Plant, fleet: Fleet, tmp_path: Path
) -> None:
    """Faults S7."""
    port = free_port()
    before = HANGS_ONCE.format(marker=str(tmp_path / "hung"))
    parent = fleet.hire("--processes", "2", "--health", f"127.0.0.1:{port}", before=before)
    until(lambda: health_of(port)[0] == 503, within=180, stuck=fleet.tails)
    until(lambda: "is not ready yet" in health_of(port)[1], within=180, stuck=fleet.tails)
    first = set(parent.children())
    workflow_id = plant.start(workflows.three, "a")
    until(lambda: not evidence.open_ones([workflow_id]), within=180, stuck=fleet.tails)
    until(lambda: "worker_process_not_ready" in parent.told, within=180, stuck=fleet.tails)
    until(lambda: health_of(port) == (200, "ok\n"), within=180, stuck=lambda: f"{health_of(port)}\n{fleet.tails()}")
    assert len(set(parent.children()) - first) >= 1
    assert parent.stop() == 0
