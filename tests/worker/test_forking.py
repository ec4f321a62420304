"""What a process has open when it forks, or becomes another program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import SyncToAsync
from django.db import connection, connections, transaction

from durable.outcomes import WorkflowStatus
from durable.store.connections import unpooled
from durable.worker.process import forking, reload
from tests.conftest import ROOT
from tests.hosting import hosted
from tests.settings import VENDOR
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows
from tests.worker.processes import Start, code_of

on_postgresql = pytest.mark.skipif(VENDOR != "postgresql", reason="Django's pool is PostgreSQL's")
POOLS = ["{}", *(['{"pool": true}'] if VENDOR == "postgresql" else [])]


@pytest.mark.parametrize("early", ["query", "query async", "query async threads"])
@pytest.mark.parametrize("options", POOLS)
def test_workers_forked_after_a_query_in_ready_have_sessions_of_their_own(
    plant: Plant, runworker: Start, tmp_path: Path, early: str, options: str
) -> None:
    """Faults K4: nobody reads another's reply, and nobody waits for a thread that is the parent's."""
    sessions = tmp_path / "sessions"
    ids = [plant.start(workflows.journey, f"k{number}") for number in range(12)]
    for workflow_id in ids:
        plant.signal(workflow_id, "go", "home")
    told = [plant.enqueue(activities.tell_session) for _ in range(12)]
    process = runworker(
        *("--processes", "3", "--burst"),
        DJANGO_SETTINGS_MODULE="tests.worker.early_settings",
        EARLY=early,
        EARLY_SESSIONS=str(sessions),
        PLANT_OPTIONS=options,
        PLANT_CONCURRENCY="16",
    )
    assert code_of(process) == 0
    for workflow_id in ids:
        assert plant.look(workflow_id).result == f'"k{ids.index(workflow_id)} arrived"'
        assert plant.history(workflow_id).count(workflow_closed()) == 1
    assert {plant.look(workflow_id).status for workflow_id in told} == {WorkflowStatus.COMPLETED}
    labels = plant.labels()
    assert len(labels) == len(set(labels)) == 12 * 6
    if VENDOR == "postgresql":
        parents = {int(line) for line in sessions.read_text().splitlines()}
        used = {int(plant.look(workflow_id).result) for workflow_id in told}
        assert parents
        assert not parents & used


def workflow_closed() -> Any:
    from durable.kernel.history.events import EventType

    return EventType.WORKFLOW_COMPLETED


SUPERVISED = """
import sys, django
django.setup()
from datetime import timedelta
from pathlib import Path
from django.db import connection
from durable.worker.process.modes import WorkerMode
from durable.worker.process.supervisor import Supervisor

runs = Path(sys.argv[1])

def ask():
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")

def child(number, reporter):
    inherited = connection.connection is not None
    ask()
    with runs.open("a") as file:
        file.write(f"{inherited}\\n")
    return 0 if len(runs.read_text().splitlines()) == 3 else 1

ask()
supervisor = Supervisor(child, processes=1, mode=WorkerMode.BURST, grace=timedelta(), on_tick=lambda _: ask())
sys.exit(supervisor.run())
"""


def test_each_fork_of_a_supervisor_closes_what_was_opened_since_the_last_one(
    subprocess_environment: dict[str, str], tmp_path: Path
) -> None:
    """A log handler that writes to the database opens a connection in the supervisor, when it tells of a death."""
    runs = tmp_path / "runs"
    done = subprocess.run(
        [sys.executable, "-c", SUPERVISED, str(runs)],
        cwd=ROOT,
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert runs.read_text().split() == ["False"] * 3


@pytest.mark.django_db(transaction=True)
def test_a_process_that_starts_itself_anew_closes_its_connections_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server would otherwise keep the session until it notices."""
    connection.ensure_connection()
    open_at_the_end: list[bool] = []
    monkeypatch.setattr(os, "execv", lambda *given: open_at_the_end.append(connection.connection is not None))
    reload.start_anew()
    assert open_at_the_end == [False]


@pytest.mark.django_db(transaction=True)
def test_letting_go_closes_a_connection_that_is_in_a_transaction_too(
    second_connection: Callable[..., Future[Any]],
) -> None:
    def leave_one() -> bool:
        transaction.atomic().__enter__()
        connection.ensure_connection()
        forking.let_go()
        return connections["default"].connection is None and not connections["default"].in_atomic_block

    assert second_connection(leave_one).result(PATIENCE)


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_letting_go_closes_the_pools_and_forgetting_leaves_them_to_the_parent() -> None:
    with hosted(options={"pool": True}):
        connection.ensure_connection()
        [pool] = unpooled.pools().values()
        forking.let_go()
        assert pool.closed
        assert unpooled.pools() == {}
        connection.ensure_connection()
        [another] = unpooled.pools().values()
        connection.close()
        executor = SyncToAsync.single_thread_executor
        try:
            forking.forget()
            assert SyncToAsync.single_thread_executor is not executor
        finally:
            SyncToAsync.single_thread_executor = executor
        assert not another.closed
        assert unpooled.pools() == {}
        another.close()
