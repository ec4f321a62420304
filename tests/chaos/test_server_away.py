"""The PostgreSQL server goes away: under an idle worker, in mid-work, before the start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgresql
from tests.chaos.fleet import FULL, free_port, health_of, pass_time, tell, until
from tests.chaos.outage import Site
from tests.chaos.stand import Stand

pytestmark = [
    pytest.mark.skipif(os.environ.get("DURABLE_TEST_DATABASE") != "postgresql", reason="a server of PostgreSQL's"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

AWAY_SECONDS, LONG_AWAY_SECONDS = (60.0, 120.0) if FULL else (3.0, 3.0)
GREEN = (200, "ok\n")


@pytest.fixture(scope="module")
def server() -> Iterator[postgresql.Server]:
    """A server that is this module's to stop."""
    made = postgresql.start()
    yield made
    made.stop()


@pytest.fixture
def site(server: postgresql.Server, tmp_path: Path) -> Iterator[Site]:
    """The engine's tables on it, empty, and no worker yet."""
    made = Site(server, tmp_path)
    yield made
    made.fleet.disband()


def test_a_worker_that_starts_without_a_server_waits_red_and_takes_up_work_when_it_comes(site: Site) -> None:
    """Faults C9."""
    workflow_id = site.start("plant.three", '["a"]')
    site.server.stop()
    port = free_port()
    worker = site.fleet.hire("--health", f"127.0.0.1:{port}")
    try:
        until(lambda: health_of(port)[0] == 503, within=180, stuck=site.fleet.tails)
        until(lambda: "cannot reach the database" in health_of(port)[1], within=180, stuck=site.fleet.tails)
        assert worker.process.poll() is None
    finally:
        site.server.start_again()
    until(lambda: site.is_completed(workflow_id), within=180, stuck=site.fleet.tails)
    until(lambda: health_of(port) == GREEN, within=180, stuck=site.fleet.tails)
    assert worker.stop() == 0


def test_an_idle_worker_outlives_its_server_and_says_so_once_for_each_loop(site: Site) -> None:
    """Faults C3, C5."""
    port = free_port()
    worker = site.fleet.hire("--health", f"127.0.0.1:{port}")
    until(lambda: health_of(port) == GREEN, within=180, stuck=site.fleet.tails)
    site.server.stop()
    try:
        until(lambda: health_of(port)[0] == 503, within=180, stuck=site.fleet.tails)
        pass_time(LONG_AWAY_SECONDS)
    finally:
        site.server.start_again()
    until(lambda: health_of(port) == GREEN, within=180, stuck=site.fleet.tails)
    workflow_id = site.start("plant.three", '["b"]')
    until(lambda: site.is_completed(workflow_id), within=180, stuck=site.fleet.tails)
    assert worker.stop() == 0
    troubles = [line for line in worker.told.splitlines() if "store_trouble" in line]
    loops = {loop for line in troubles for loop in ("claim", "turn", "lease", "housekeeping") if f"loop={loop}" in line}
    assert len(troubles) == len(loops) >= 2
    assert "Traceback" not in worker.told
    tell(f"the server was away for {LONG_AWAY_SECONDS:g} s")


def test_a_handler_that_ends_while_the_server_is_away_is_delivered_again_and_all_is_well(
    site: Site, tmp_path: Path
) -> None:
    """Faults C5: its acknowledgement was tried five times, its lease ran out, and nobody had to restart anything."""
    stand = Stand(tmp_path, deliveries=2)
    held = site.start("plant.stand", f'["{tmp_path}", "c"]')
    port = free_port()
    worker = site.fleet.hire("--health", f"127.0.0.1:{port}", PLANT_LEASE="1")
    stand.wait_for_arrival(1)
    site.server.stop()
    try:
        stand.let_go(1)
        until(lambda: "give_back_failed" in worker.told, within=180, stuck=site.fleet.tails)
        pass_time(AWAY_SECONDS)
    finally:
        site.server.start_again()
    stand.wait_for_arrival(2)
    stand.let_go(2)
    until(lambda: site.is_completed(held), within=180, stuck=site.fleet.tails)
    assert site.ask("SELECT result FROM durable_workflow") == [('"c of delivery 2"',)]
    assert site.ask("SELECT count(*) FROM durable_event WHERE type = 'workflow_completed'") == [(1,)]
    until(lambda: health_of(port) == GREEN, within=180, stuck=site.fleet.tails)
    assert worker.stop() == 0
    tell(f"the server was away for {AWAY_SECONDS:g} s, with a handler at work")


def test_a_stop_without_a_server_ends_in_time_and_says_what_stays_leased(site: Site, tmp_path: Path) -> None:
    """Faults C6."""
    stand = Stand(tmp_path, deliveries=1)
    held = site.start("plant.stand", f'["{tmp_path}", "d"]')
    worker = site.fleet.hire(PLANT_GRACE="0")
    stand.wait_for_arrival(1)
    site.server.stop()
    try:
        assert worker.stop() == 3
    finally:
        site.server.start_again()
    assert "stopped_with_work_left" in worker.told
    assert f"{held}:1:1" in worker.told
