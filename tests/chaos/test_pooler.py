"""Behind a pooler in transaction mode nothing that the engine does needs the session that it had before."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
from django.db import DatabaseError, connection, connections

from durable.models import OutboxRow
from durable.operations import redrive
from durable.outcomes import OutboxStatus, WorkflowStatus
from tests import postgresql
from tests.chaos import evidence
from tests.chaos.fleet import FULL, Fleet, only_full, tell, until
from tests.chaos.pooler import Pooler, pooler_before
from tests.conftest import ROOT
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows

pytestmark = pytest.mark.skipif(os.environ.get("DURABLE_TEST_DATABASE") != "postgresql", reason="poolers")

JOURNEYS = 200 if FULL else 20

SUITE = ("tests/flow", "tests/operations", "tests/client", "tests/store")
"""What passes through the pooler as it is."""

OF_A_SESSION = "not session_that_was_ended and not operators_with_uuid_keys"
"""Tests that themselves need one session: one ends its own, one lets Django read by a cursor of the server's."""


@pytest.fixture
def pooler(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pooler]:
    """Stands between this process, whatever its threads, and the server."""
    direct = connection.settings_dict["HOST"]
    with pooler_before(direct) as made:
        connections.close_all()
        monkeypatch.setitem(connection.settings_dict, "HOST", str(made.folder))
        yield made
        connections.close_all()
        monkeypatch.setitem(connection.settings_dict, "HOST", direct)


def test_the_pooler_takes_away_whatever_belongs_to_a_session(pooler: Pooler) -> None:
    """Or the tests below would show nothing."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '7s'")
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)
        cursor.execute("CREATE TEMPORARY TABLE mine (id int)")
        cursor.execute("SELECT to_regclass('pg_temp.mine')")
        assert cursor.fetchone() == (None,)
        cursor.execute("SELECT pg_backend_pid()")
        before = cursor.fetchone()
        cursor.execute("SELECT pg_backend_pid()")
        assert cursor.fetchone() != before
        cursor.execute("PREPARE one AS SELECT 1")
        with pytest.raises(DatabaseError, match="does not exist"):
            cursor.execute("EXECUTE one")
    assert pooler.switches > 5


def test_start_turn_claim_acknowledge_and_redrive_pass_through_a_pooler(plant: Plant, pooler: Pooler) -> None:
    """Faults J6: by one thread in a burst, commit for commit in another session."""
    three, single = plant.start(workflows.three, "a"), plant.enqueue(activities.note, "b")
    dead, signalled = plant.enqueue(activities.note, "c"), plant.start(workflows.journey, "d")
    cause = "worker_died"
    OutboxRow.objects.filter(workflow_id=dead).update(activity="plant.of_tomorrow")
    plant.burst()
    OutboxRow.objects.filter(workflow_id=dead).update(
        activity=activities.note.name, status=OutboxStatus.DEAD, cause=cause, dead_lettered_at="2026-01-01T00:00:00Z"
    )
    redrive(dead, 1)
    plant.signal(signalled, "go", "home")
    until(lambda: plant.burst() is not None and not evidence.open_ones([signalled]), within=180, stuck=str)
    for workflow_id in (three, single, dead, signalled):
        assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED
    evidence.assert_nothing_is_left()
    assert pooler.switches > 20


def test_workers_behind_a_pooler_lose_nothing_also_with_notify_on(plant: Plant, fleet: Fleet, pooler: Pooler) -> None:
    """Faults J6, C7: the channel is found not to carry, work is found by polling, and the end is as ever."""
    socket = str(pooler.folder)
    crew = [fleet.hire(DURABLE_TEST_PG_SOCKET=socket), fleet.hire(DURABLE_TEST_PG_SOCKET=socket, PLANT_NOTIFY="1")]
    labels: dict[uuid.UUID, str] = {}
    for number in range(JOURNEYS):
        workflow_id = plant.start(workflows.journey, f"journey {number}")
        labels[workflow_id] = f"journey {number}"
        plant.signal(workflow_id, "go", "home")
    until(
        lambda: not evidence.open_ones(labels),
        within=300,
        stuck=lambda: f"{evidence.what_is_stuck(labels)}\n{fleet.tails()}",
    )
    evidence.assert_journeys_ended_well(labels)
    until(lambda: "wake_up_channel_lost" in crew[1].told, within=180, stuck=fleet.tails)
    assert [member.stop() for member in crew] == [0, 0]
    assert "store_trouble" not in fleet.told
    tell(f"{JOURNEYS} workflows behind a pooler that changed the session {pooler.switches} times")


@only_full
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_suite_of_the_engine_passes_through_a_pooler() -> None:
    """Faults J6. But for tests that themselves hold on to a session."""
    server = postgresql.start()
    with pooler_before(server.socket_directory) as made:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-k", OF_A_SESSION, *SUITE],
            cwd=ROOT,
            env=os.environ | {"DURABLE_TEST_PG_SOCKET": str(made.folder), "DURABLE_TEST_FULL": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        tell(f"{', '.join(SUITE)}: {done.stdout.splitlines()[-1]}, with {made.switches} changes of the session")
    server.stop()


def test_no_code_of_ours_reads_by_a_cursor_that_lives_longer_than_a_transaction() -> None:
    """Faults J6: `.iterator()` opens a server-side cursor, which is gone with the commit, or held by one session."""
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / "durable").rglob("*.py"))
        if path.name != "isolation.py"  # it watches for those that handlers open
        for line in path.read_text().splitlines()
        if re.search(r"\.(iterator|aiterator)\(|chunked_cursor|scroll\(|\bDECLARE\b|WITH HOLD", line)
    ]
    assert found == []
