"""A PostgreSQL server that ends idle sessions, turns read-only, deadlocks with its host, or has no session left."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from durable.models import OutboxRow
from tests import postgresql
from tests.chaos import evidence
from tests.chaos.fleet import Fleet, free_port, health_of, only_full, pass_time, tell, until
from tests.chaos.outage import Site
from tests.chaos.sessions import end_all_sessions
from tests.chaos.stand import Stand
from tests.waiting import PATIENCE, in_thread
from tests.worker.conftest import Plant
from tests.worker.plant import activities

pytestmark = pytest.mark.skipif(
    os.environ.get("DURABLE_TEST_DATABASE") != "postgresql", reason="a server of PostgreSQL's"
)

DEADLOCKS = 5


def test_the_result_of_an_activity_longer_than_the_servers_idle_timeout_is_stored_at_once(
    plant: Plant, fleet: Fleet, tmp_path: Path
) -> None:
    """Faults C4: with CONN_MAX_AGE=None and no health checks; nobody looks at the connection before the result."""
    stand = Stand(tmp_path, deliveries=1)
    worker = fleet.hire(PLANT_KEEPS_CONNECTIONS="1", PGOPTIONS="-c idle_session_timeout=1s")
    before = plant.enqueue(activities.note, "before")
    until(lambda: not evidence.open_ones([before]), within=180, stuck=fleet.tails)
    held = plant.enqueue(activities.stand, str(tmp_path), "a")
    stand.wait_for_arrival(1)
    pass_time(2.5)
    stand.let_go(1)
    until(lambda: not evidence.open_ones([held]), within=180, stuck=fleet.tails)
    assert plant.labels() == ["before", "a"]
    assert set(OutboxRow.objects.values_list("deliveries", flat=True)) == {1}
    assert evidence.lost_attempts() == {}
    assert worker.stop() == 0


def said_to_be_read_only(port: int) -> bool:
    """A loop meets it in a statement; a worker that is still beginning asks the server for it."""
    told = health_of(port)[1]
    return "read-only transaction" in told or "default_transaction_read_only" in told


def test_sessions_with_a_node_that_became_read_only_are_left_when_it_writes_again(plant: Plant, fleet: Fleet) -> None:
    """Faults C8: after a failover the old sessions stay read-only for ever; nobody restarts anything."""
    name = connection.settings_dict["NAME"]
    port = free_port()
    worker = fleet.hire("--health", f"127.0.0.1:{port}", PLANT_LEASE="1")
    until(worker.has_begun, within=180, stuck=fleet.tails)
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        try:
            end_all_sessions()
            # Not in the log: a loop that the end of its session has hit in mid-statement has told its trouble already.
            until(lambda: said_to_be_read_only(port), within=180, stuck=fleet.tails)
        finally:
            cursor.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    ids = [plant.enqueue(activities.note, f"b{number}") for number in range(20)]
    until(lambda: not evidence.open_ones(ids), within=180, stuck=fleet.tails)
    evidence.assert_nothing_is_left()
    assert worker.stop() == 0


class Rude:
    """Somebody of the host's who locks rows of ours in the wrong order: the row first, then its workflow."""

    def __init__(self) -> None:
        settings = connection.settings_dict
        place = {"host": settings["HOST"], "user": settings["USER"], "dbname": settings["NAME"]}
        # Who looks for a deadlock first finds it, and loses: that is never this one.
        self._connection = psycopg.connect(**place, options="-c deadlock_timeout=30s")
        self._met: list[int] = []
        self.stopped = threading.Event()

    def go_on(self) -> None:
        """Until stopped. Each row is met once: nobody's patience is tried twice."""
        with self._connection as mine:
            while not self.stopped.is_set():
                with mine.transaction():
                    taken = mine.execute(
                        "SELECT id, workflow_id FROM durable_outboxrow WHERE status = 'claimed' AND id <> ALL(%s) "
                        "LIMIT 1 FOR UPDATE SKIP LOCKED",
                        [self._met],
                    ).fetchone()
                    if taken is None:
                        self.stopped.wait(0.002)
                        continue
                    self._met.append(taken[0])
                    self.stopped.wait(0.05)  # so that its acknowledgement waits here, with the workflow locked
                    mine.execute("SELECT 1 FROM durable_workflow WHERE id = %s FOR UPDATE", [taken[1]])


def deadlocks() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        count: int = cursor.fetchone()[0]
        return count


def test_a_deadlock_with_somebody_elses_order_repeats_the_transaction_and_not_the_handler(
    plant: Plant, fleet: Fleet
) -> None:
    """Faults D3, specification A1: the loser is ours each time, and no handler runs twice for it."""
    rude, before = Rude(), deadlocks()
    worker = fleet.hire(PGOPTIONS="-c deadlock_timeout=200ms")
    until(worker.has_begun, within=180, stuck=fleet.tails)
    other = in_thread(rude.go_on)
    ids: list[uuid.UUID] = []

    def met() -> bool:
        ids.append(plant.enqueue(activities.note, f"c{len(ids)}"))
        return deadlocks() - before >= DEADLOCKS

    try:
        until(met, within=180, stuck=fleet.tails)
    finally:
        rude.stopped.set()
        other.result(PATIENCE)
    until(
        lambda: not evidence.open_ones(ids), within=180, stuck=lambda: f"{evidence.what_is_stuck(ids)}{fleet.tails()}"
    )
    assert sorted(plant.labels()) == sorted(f"c{number}" for number in range(len(ids)))
    assert set(OutboxRow.objects.values_list("deliveries", flat=True)) == {1}
    assert "Traceback" not in worker.told
    evidence.assert_nothing_is_left()
    assert worker.stop() == 0
    tell(f"{deadlocks() - before} deadlocks under {len(ids)} activities")


@pytest.fixture
def small_site(tmp_path: Path) -> Iterator[Site]:
    """A server that has few sessions to give."""
    server = postgresql.start()
    server.stop()
    with (server.directory / "postgresql.conf").open("a") as configuration:
        configuration.write("max_connections = 30\nsuperuser_reserved_connections = 0\n")
    server.start_again()
    made = Site(server, tmp_path)
    yield made
    made.fleet.disband()
    server.stop()


@only_full
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_handler_that_takes_every_session_takes_neither_its_renewal_nor_its_result(
    small_site: Site, tmp_path: Path
) -> None:
    """Faults C10: what renews and what acknowledges have connections of their own, and had them before."""
    stand = Stand(tmp_path, deliveries=1)
    site, fleet = small_site, small_site.fleet
    worker = fleet.hire(PLANT_LEASE="1")
    warm = site.start("plant.three", '["warm"]')
    until(lambda: site.is_completed(warm), within=180, stuck=fleet.tails)
    workflow_id = site.start("yard.take_all_connections", f'["{tmp_path}", "d"]')
    stand.wait_for_arrival(1)
    pass_time(3)
    stand.let_go(1)
    assert worker.stop() == 0
    assert site.is_completed(workflow_id)
    found = site.ask("SELECT deliveries, delivery_failures FROM durable_outboxrow WHERE workflow_id = %s", workflow_id)
    assert found == [(1, 0)]
