"""`manage.py runworker` as processes: deaths, signals, the supervisor, exit codes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durable.outcomes import OutboxStatus, WorkflowStatus
from tests.conftest import ROOT
from tests.settings import VENDOR
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows
from tests.worker.processes import Pipes, Start, answer_of, code_of
from tests.worker.threads import until, until_closed


def test_a_burst_works_until_nothing_is_due_and_exits_0(plant: Plant, runworker: Start) -> None:
    ids = [plant.start(workflows.three, f"a{number}") for number in range(5)]
    assert code_of(runworker("--burst")) == 0
    assert {plant.look(workflow_id).status for workflow_id in ids} == {WorkflowStatus.COMPLETED}


def test_several_processes_in_a_burst_share_the_work_and_run_each_once(plant: Plant, runworker: Start) -> None:
    """Faults Q1 at the level of workers."""
    ids = [plant.start(workflows.fan, f"b{number}", 10) for number in range(10)]
    assert code_of(runworker("--burst", "--processes", "3")) == 0
    assert {plant.look(workflow_id).status for workflow_id in ids} == {WorkflowStatus.COMPLETED}
    labels = plant.labels()
    assert len(labels) == len(set(labels)) == 100


def test_a_supervisor_tells_a_terminal_how_many_workers_there_are(
    plant: Plant, subprocess_environment: dict[str, str]
) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "manage.py", "runworker", "--processes", "2"],
        cwd=ROOT,
        env=subprocess_environment | {"DJANGO_SETTINGS_MODULE": "tests.worker.plant_settings"},
        stdin=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        shown = b""
        while b"2 of 2 worker processes" not in shown:
            shown += os.read(ours, 1_000)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_sigterm_lets_the_handler_finish_and_exits_0(
    plant: Plant, runworker: Start, pipes: Callable[[str], Pipes]
) -> None:
    door = pipes("c")
    workflow_id = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "c")
    process = runworker()
    door.wait_for_arrival()
    process.send_signal(signal.SIGTERM)
    door.let_go()
    assert code_of(process) == 0
    assert plant.look(workflow_id).result == '"c"'


@pytest.mark.parametrize("arguments", [(), ("--processes", "1")], ids=["alone", "supervised"])
def test_a_second_signal_ends_the_process_now_and_more_of_them_do_not_change_how(
    plant: Plant, runworker: Start, pipes: Callable[[str], Pipes], arguments: tuple[str, ...]
) -> None:
    door = pipes("d")
    workflow_id = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "d")
    process = runworker(*arguments)
    door.wait_for_arrival()
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
    assert code_of(process) == 130
    row = plant.row(workflow_id)
    assert (row.status, row.deliveries) == (OutboxStatus.PENDING.value, 0), "and what it held is given back"


def test_grace_over_releases_and_exits_0_with_the_handler_still_running(
    plant: Plant, runworker: Start, pipes: Callable[[str], Pipes]
) -> None:
    door = pipes("e")
    workflow_id = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "e")
    process = runworker(PLANT_GRACE="0")
    door.wait_for_arrival()
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0
    row = plant.row(workflow_id)
    assert (row.status, row.deliveries) == (OutboxStatus.PENDING.value, 0)


def test_after_sigkill_another_worker_takes_it_over(
    plant: Plant, runworker: Start, pipes: Callable[[str], Pipes]
) -> None:
    """Faults S1: with no operator, and the lost attempt shown."""
    door = pipes("f")
    workflow_id = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "f")
    process = runworker(PLANT_LEASE="1")
    door.wait_for_arrival()
    process.kill()
    assert code_of(process) == -signal.SIGKILL
    runworker(PLANT_LEASE="1")
    door.wait_for_arrival()
    door.let_go()
    until_closed(plant, workflow_id)
    assert plant.labels() == ["f", "f"]
    row = plant.row(workflow_id)
    assert row.deliveries == 2
    [lost] = row.failed_attempts.all()
    assert lost.cause in ("worker_died", "lease_lost")


def test_a_handler_that_kills_its_process_spends_its_own_budget_only(
    plant: Plant, runworker: Start, tmp_path: Path
) -> None:
    """Faults O1, specification B7: three deliveries, then a dead letter; the others lose one delivery at most."""
    killed = tmp_path / "killed"
    killer = plant.enqueue(activities.die, str(killed))
    from durable.models import OutboxRow

    OutboxRow.objects.filter(workflow_id=killer).update(delivery_budget=3)
    ids = [plant.enqueue(activities.note, f"g{number}") for number in range(8)]
    process = runworker("--processes", "1", PLANT_LEASE="1")
    until(lambda: plant.row(killer).status == OutboxStatus.DEAD.value)
    for workflow_id in ids:
        until_closed(plant, workflow_id)
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0
    assert len(killed.read_text().splitlines()) == 3
    row = plant.row(killer)
    assert (row.deliveries, row.cause) == (3, "worker_died")
    assert all(plant.row(workflow_id).delivery_failures <= 1 for workflow_id in ids)


def test_the_supervisor_replaces_a_killed_child_and_forwards_the_stop(
    plant: Plant, runworker: Start, pipes: Callable[[str], Pipes]
) -> None:
    """Faults S8."""
    from tests.ledger.models import Entry

    door = pipes("h")
    workflow_id = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "h")
    process = runworker("--processes", "1", PLANT_LEASE="1")
    door.wait_for_arrival()
    os.kill(Entry.objects.get().amount, signal.SIGKILL)
    door.wait_for_arrival()
    door.let_go()
    until_closed(plant, workflow_id)
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0
    pids = set(Entry.objects.values_list("amount", flat=True))
    assert len(pids) == 2
    assert process.pid not in pids


@pytest.mark.parametrize("processes", [[], ["--processes", "2"]], ids=["one", "supervised"])
def test_health_is_green_when_all_are_ready_and_gone_after_the_stop(
    plant: Plant, runworker: Start, processes: list[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = runworker("--health", f"127.0.0.1:{port}", *processes)
    until(lambda: answer_of(port) == (200, "ok\n"))
    if processes:
        assert "Threads:\t1\n" in Path(f"/proc/{process.pid}/status").read_text(), "the supervisor starts no thread"
        opened = [str(entry.readlink()) for entry in Path(f"/proc/{process.pid}/fd").iterdir()]
        assert not [name for name in opened if "sqlite3" in name], "and opens no database"
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0
    assert answer_of(port) is None


@pytest.mark.parametrize(
    "arguments", [["--require-db"], ["--burst"], ["--require-db", "--processes", "2"]], ids=" ".join
)
def test_a_store_that_is_away_at_the_start_exits_3_where_asked_to(runworker: Start, arguments: list[str]) -> None:
    """And says why in a line for each worker, without the tracebacks of the driver and of Django."""
    process = runworker(*arguments, DURABLE_TEST_NAME="/nowhere/at/all")
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    if "--require-db" in arguments:
        lines = [line for line in said.splitlines() if "store_unreachable" in line]
        assert len(lines) == (2 if "--processes" in arguments else 1)
        assert all("OperationalError" in line for line in lines)
    assert "Traceback" not in said


def test_a_turn_that_never_comes_back_restarts_the_worker_and_is_counted_until_it_blocks(
    plant: Plant, runworker: Start
) -> None:
    """The CPU limit: the worker starts itself anew, and other work goes on."""
    spinning = plant.start(workflows.hang)
    after: list[Any] = [plant.enqueue(activities.add, 1, 1)]
    process = runworker(PLANT_TURN="0.1", PLANT_GRACE="0", PLANT_POISON="1", PLANT_LEASE="2")
    until(lambda: plant.look(spinning).blocked_reason != "")
    after.append(plant.start(workflows.three, "i"))
    for workflow_id in after:
        until_closed(plant, workflow_id)
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0


def test_a_child_that_hangs_in_its_boot_is_killed_and_replaced(tmp_path: Path) -> None:
    """Faults S7."""
    script = f"""
import pathlib, signal, sys
import django
django.setup()
from datetime import timedelta
from durable.worker.process.modes import WorkerMode
from durable.worker.process.reports import Report, State
from durable.worker.process.supervisor import Supervisor

def child(number, reporter):
    marker = pathlib.Path({str(tmp_path / "started")!r})
    if not marker.exists():
        marker.touch()
        signal.pause()
    reporter.tell(Report(State.WELL, ""))
    return 0

supervisor = Supervisor(
    child, processes=1, mode=WorkerMode.BURST, grace=timedelta(), ready_within=timedelta(milliseconds=100)
)
sys.exit(supervisor.run())
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "started").exists()


def test_reload_starts_anew_when_code_changes_and_waits_out_what_does_not_compile(
    plant: Plant, runworker: Start, tmp_path: Path
) -> None:
    """Faults J11."""
    code, starts = tmp_path / "changing_settings.py", tmp_path / "starts"
    good = f"from tests.worker.plant_settings import *\nwith open({str(starts)!r}, 'a') as file:\n    file.write('x')\n"
    code.write_text(good)
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = runworker(
        "--reload", "--health", f"127.0.0.1:{port}", DJANGO_SETTINGS_MODULE="changing_settings", PYTHONPATH=path
    )
    until(lambda: answer_of(port) == (200, "ok\n"))
    code.write_text(f"{good}this does not compile")
    os.utime(code, (1, 1))
    plant_id = plant.enqueue(activities.add, 1, 2)
    until_closed(plant, plant_id)
    code.write_text(f"{good}# changed\n")
    until(lambda: starts.read_text() == "xx")
    until(lambda: answer_of(port) == (200, "ok\n"))
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0


@pytest.mark.skipif(VENDOR != "postgresql", reason="Django's pool is PostgreSQL's")
@pytest.mark.parametrize("pool", ["true", '{"min_size": 1, "max_size": 1}'])
def test_supervised_workers_a_burst_and_health_live_with_the_hosts_pool(
    plant: Plant, runworker: Start, subprocess_environment: dict[str, str], pool: str
) -> None:
    """Faults K1: each process has a pool of its own, and a listener beside it."""
    pooled = {"PLANT_OPTIONS": f'{{"pool": {pool}}}', "PLANT_NOTIFY": "1", "PLANT_CONCURRENCY": "16"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serving = runworker("--processes", "2", "--health", f"127.0.0.1:{port}", **pooled)
    until(lambda: answer_of(port) == (200, "ok\n"))
    ids = [plant.start(workflows.fan, f"p{number}", 5) for number in range(10)]
    for workflow_id in ids:
        until_closed(plant, workflow_id)
    health = subprocess.run(
        [sys.executable, "manage.py", "durable", "health"],
        cwd=ROOT,
        env=subprocess_environment | {"DJANGO_SETTINGS_MODULE": "tests.worker.plant_settings"} | pooled,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (health.returncode, "Traceback" in health.stderr) == (0, False)
    serving.send_signal(signal.SIGTERM)
    assert code_of(serving) == 0
    ids += [plant.start(workflows.journey, "burst")]
    plant.signal(ids[-1], "go", "home")
    assert code_of(runworker("--burst", "--processes", "2", **pooled)) == 0
    assert {plant.look(workflow_id).status for workflow_id in ids} == {WorkflowStatus.COMPLETED}
    labels = plant.labels()
    assert len(labels) == len(set(labels))
