"""The network between a worker and PostgreSQL drops connections, or carries nothing and says nothing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from tests.chaos import evidence
from tests.chaos.fleet import Fleet, free_port, health_of, only_full, pass_time, tell, until
from tests.chaos.stand import Stand
from tests.chaos.wire import Wire, wire_to
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows

pytestmark = pytest.mark.skipif(os.environ.get("DURABLE_TEST_DATABASE") != "postgresql", reason="no network in SQLite")

SILENT_SECONDS = 120.0
LOOPS = ("claim", "turn", "lease", "housekeeping")
STUCK_SOON = """
import django

django.setup()
from durable.worker.process import worker

worker.STUCK_AFTER = 1.0
"""
GREEN = (200, "ok\n")


@pytest.fixture
def wire(plant: Plant) -> Iterator[Wire]:
    """From workers to the server under test; the test itself talks to the server directly."""
    with wire_to(connection.settings_dict["HOST"]) as made:
        yield made


def all_ended(fleet: Fleet, ids: list[uuid.UUID]) -> None:
    until(
        lambda: not evidence.open_ones(ids),
        within=300,
        stuck=lambda: f"{evidence.what_is_stuck(ids)}\n{fleet.tails()}",
    )


def test_connections_dropped_under_an_idle_worker_are_told_at_most_once_for_each_loop(
    plant: Plant, fleet: Fleet, wire: Wire
) -> None:
    """Faults C3: a balancer forgets them, each loop finds a dead one, and takes up work on a new one."""
    worker = fleet.hire(DURABLE_TEST_PG_SOCKET=str(wire.folder))
    all_ended(fleet, [plant.start(workflows.three, "a")])
    wire.cut()
    all_ended(fleet, [plant.start(workflows.three, "b")])
    assert plant.labels() == ["a-0", "a-1", "a-2", "b-0", "b-1", "b-2"]
    troubles = [line for line in worker.told.splitlines() if "store_trouble" in line]
    assert len(troubles) == len({loop for line in troubles for loop in LOOPS if f"loop={loop}" in line})
    assert "Traceback" not in worker.told
    assert worker.stop() == 0


@only_full
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("then", ["all that was sent arrives", "the connections are gone"])
def test_a_worker_outlives_a_network_that_carries_nothing_and_says_nothing(
    plant: Plant, fleet: Fleet, wire: Wire, tmp_path: Path, then: str
) -> None:
    """Faults C5: its probe turns red; what it held is taken over by its lease; afterwards it works on by itself."""
    port, stand = free_port(), Stand(tmp_path, deliveries=2)
    socket = str(wire.folder)
    worker = fleet.hire(
        "--health", f"127.0.0.1:{port}", before=STUCK_SOON, PLANT_LEASE="1", DURABLE_TEST_PG_SOCKET=socket
    )
    held = plant.enqueue(activities.stand, str(tmp_path), "c")
    stand.wait_for_arrival(1)
    wire.fall_silent()
    ids = [plant.start(workflows.three, f"d{number}") for number in range(30)]
    until(lambda: health_of(port)[0] == 503, within=180, stuck=fleet.tails)
    other = fleet.hire(PLANT_LEASE="1")
    stand.wait_for_arrival(2)
    stand.let_go(1)
    pass_time(SILENT_SECONDS)
    if then == "the connections are gone":
        wire.cut()
    wire.carry_on()
    stand.let_go(2)
    all_ended(fleet, [held, *ids])
    until(lambda: health_of(port) == GREEN, within=180, stuck=lambda: f"{health_of(port)}\n{fleet.tails()}")
    assert plant.look(held).result == '"c of delivery 2"'
    assert other.stop() == 0
    all_ended(fleet, [plant.start(workflows.three, "e")])
    evidence.assert_nothing_is_left()
    for workflow_id in [held, *ids]:
        evidence.assert_each_outcome_once(evidence.history(workflow_id))
    assert worker.stop() == 0
    tell(f"silent for {SILENT_SECONDS:g} s under {len(ids) + 1} workflows, then {then}")


def test_a_server_that_hangs_while_an_acknowledgement_connects_makes_no_handler_run_twice(
    plant: Plant, fleet: Fleet, wire: Wire, tmp_path: Path
) -> None:
    """Faults K2: `connect_timeout` ends the try with an error class of its own, and the acknowledgement is repeated."""
    stand = Stand(tmp_path, deliveries=1)
    worker = fleet.hire(DURABLE_TEST_PG_SOCKET=str(wire.folder), PGCONNECT_TIMEOUT="2")
    held = plant.enqueue(activities.stand, str(tmp_path), "k")
    stand.wait_for_arrival(1)
    wire.fall_silent()
    wire.cut()
    stand.let_go(1)
    until(lambda: "acknowledgement_failed" in worker.told, within=60, stuck=fleet.tails)
    [failed] = [line for line in worker.told.splitlines() if "acknowledgement_failed" in line]
    assert "timeout expired" in failed
    wire.carry_on()
    all_ended(fleet, [held])
    assert plant.look(held).result == '"k of delivery 1"'
    assert plant.labels() == ["k"]
    assert "give_back" not in worker.told
    assert worker.stop() == 0
