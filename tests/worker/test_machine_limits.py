"""Limits of a machine that a worker's process meets: descriptors, threads, disk, output, its clock."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from durable import clock
from durable.outcomes import OutboxStatus, WorkflowStatus
from durable.worker.loops import folders, notes
from durable.worker.loops.hostclock import HostClock
from durable.worker.process.modes import WorkerExit
from durable.worker.process.worker import Worker
from tests.conftest import ROOT
from tests.waiting import PATIENCE, Gate
from tests.worker.conftest import Plant
from tests.worker.launching import SUPERVISED, Launch, begun, launch, said_by
from tests.worker.plant import activities, workflows
from tests.worker.processes import answer_of, code_of, free_port
from tests.worker.threads import running, until, until_closed

__all__ = ["launch"]


# --- descriptors ---


class Descriptors:
    """The descriptors of another process: none is left, and then there are some again."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = resource.prlimit(pid, resource.RLIMIT_NOFILE)

    def none(self) -> None:
        opened = {int(entry.name) for entry in Path(f"/proc/{self._pid}/fd").iterdir()}
        lowest = min(set(range(max(opened) + 2)) - opened)
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, (lowest, self._before[1]))

    def as_before(self) -> None:
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, self._before)


@SUPERVISED
def test_without_descriptors_the_probe_is_red_and_says_so_and_later_all_goes_on(
    plant: Plant, launch: Launch, processes: list[str]
) -> None:
    """Faults K12: a probe that cannot be accepted ended the thread that answers, or the supervisor."""
    port = free_port()
    process = launch("--health", f"127.0.0.1:{port}", *processes)
    until(lambda: answer_of(port) == (200, "ok\n"))
    descriptors = Descriptors(process.pid)

    def is_red_for_that() -> bool:
        descriptors.none()  # what was being answered a moment ago may have left a free one
        code, said = answer_of(port) or (0, "")
        return code == 503 and "no file descriptors left" in said

    for _ in range(3):
        until(is_red_for_that)
    descriptors.as_before()
    until(lambda: answer_of(port) == (200, "ok\n"))
    until_closed(plant, plant.enqueue(activities.add, 1, 2))
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0


def test_work_that_came_while_there_were_no_descriptors_is_done_when_there_are_some(
    plant: Plant, launch: Launch, tmp_path: Path
) -> None:
    """An event loop needs three of them. Its first delivery would be held, renewed for ever, and never run."""
    process = launch()
    until_closed(plant, plant.enqueue(activities.add, 1, 2))
    descriptors = Descriptors(process.pid)
    descriptors.none()
    late = [plant.enqueue(activities.note_async, "a"), plant.enqueue(activities.note, "b")]
    until(lambda: "delivery_not_started" in said_by(tmp_path))
    descriptors.as_before()
    for workflow_id in late:
        until_closed(plant, workflow_id)
    assert {plant.look(workflow_id).status for workflow_id in late} == {WorkflowStatus.COMPLETED}
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0


def test_a_worker_that_begins_with_thousands_of_open_files_works(plant: Plant, launch: Launch) -> None:
    """`select` refuses descriptors above 1023."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3000:
        pytest.skip("this machine gives no process so many")
    workflow_id = plant.enqueue(activities.add, 1, 2)
    many = (
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (3000, {hard})); "
        "[os.set_inheritable(os.open('/dev/null', os.O_RDONLY), True) for _ in range(1500)]"
    )
    port = free_port()
    process = launch("--health", f"127.0.0.1:{port}", "--processes", "1", prefix=begun(many))
    until_closed(plant, workflow_id)
    until(lambda: answer_of(port) == (200, "ok\n"))
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0


# --- threads ---


@pytest.mark.parametrize("refused", ["durable-outbound", "durable-ack", "durable-claim"])
def test_a_start_without_threads_holds_nothing_and_exits_4(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    workflow_id = plant.enqueue(activities.add, 1, 2)
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == refused:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert Worker().run() is WorkerExit.MACHINE
    assert plant.row(workflow_id).status == OutboxStatus.PENDING.value


def test_a_stop_without_threads_gives_back_all_the_same(
    plant: Plant, door: Callable[[str], Gate], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DURABLE = settings.DURABLE | {"GRACE_FOR": timedelta()}
    gate = door("a")
    held = plant.enqueue(activities.pass_gate, "a")
    with running() as (worker, future):
        gate.wait_for_arrival()
        monkeypatch.setattr(threading.Thread, "start", no_more)
        worker.stop()
        assert future.result(PATIENCE) is WorkerExit.CLEAN
        monkeypatch.undo()
        row = plant.row(held)
        assert (row.status, row.deliveries) == (OutboxStatus.PENDING.value, 0)
        gate.open()


def no_more(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


class Refusing:
    """No thread of this name, the first time."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            if thread.name == name and not self.times:
                self.times += 1
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse)


@pytest.mark.parametrize(
    ("name", "definition"),
    [("durable-async-handlers", activities.note_async), ("durable-deadlines", activities.limited)],
)
def test_a_thread_that_was_refused_once_is_tried_again_for_the_next_delivery(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, name: str, definition: Any
) -> None:
    """Else each later async delivery would be held and never run, and no time limit would hold any more."""
    refusing = Refusing(name, monkeypatch)
    first, second = (plant.enqueue(definition, label) for label in ("a", "b"))
    with running():
        for workflow_id in (first, second):
            until_closed(plant, workflow_id)
    assert refusing.times == 1
    assert {plant.look(workflow_id).status for workflow_id in (first, second)} == {WorkflowStatus.COMPLETED}


def test_a_small_limit_of_the_stack_is_not_that_of_our_threads(plant: Plant, launch: Launch) -> None:
    """A handler that goes a thousand calls deep would end the process."""
    workflow_id = plant.enqueue(activities.deep, 400)
    small = begun("resource.setrlimit(resource.RLIMIT_STACK, (128 * 1024, resource.RLIM_INFINITY))")
    assert code_of(launch("--burst", prefix=small)) == 0
    assert plant.look(workflow_id).result == "400"


# --- disk ---

MOUNT = 'mount -t tmpfs -o size=16k tmpfs "$0" && (head -c 100000 /dev/zero >"$0/full"; true) 2>/dev/null && exec "$@"'


def alone(folder: Path) -> list[str]:
    """A prefix: the folder is a full file system of its own."""
    inside = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount"]
    command = [*inside, "sh", "-c", MOUNT, str(folder)]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine mounts nothing for its users")
    return command


def test_a_full_folder_for_temporary_files_keeps_no_workflow_from_its_turns(
    plant: Plant, launch: Launch, tmp_path: Path
) -> None:
    """Faults K12: writing to a map of a file without space ended the process by SIGBUS."""
    place = tmp_path / "small"
    place.mkdir()
    workflow_id = plant.start(workflows.three, "a")
    assert code_of(launch("--burst", prefix=alone(place), TMPDIR=str(place))) == 0
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED


def test_a_note_without_space_is_an_error_and_no_signal(tmp_path: Path) -> None:
    script = f"""
import pathlib, resource
import django
django.setup()
from durable.worker.loops.notes import Note
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    Note(pathlib.Path({str(tmp_path)!r}))
except OSError as full:
    print(full.errno)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "27\n"), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_where_no_place_takes_a_note_workflows_turn_without_and_the_log_says_so_once(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A read-only root without shared memory."""
    monkeypatch.setattr(folders, "SHARED_MEMORY", tmp_path / "nowhere")

    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    ids = [plant.start(workflows.three, label) for label in ("a", "b")]
    plant.burst()
    assert {plant.look(workflow_id).status for workflow_id in ids} == {WorkflowStatus.COMPLETED}
    assert caplog.text.count("no_place_for_notes") == 1


def test_a_note_of_a_dead_process_is_found_in_each_place_that_notes_may_lie_in(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary, shared = tmp_path / "temporary", tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(folders, "SHARED_MEMORY", shared)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    places = notes.NotePlaces("default")
    note = places.open()
    assert note is not None
    assert note.path.is_relative_to(shared), "the folder for temporary files was missing"
    temporary.mkdir()
    import uuid

    died = uuid.uuid4()
    note.write(died)
    note._map.close()  # as the kernel closes it when a process dies
    os.close(note._file)  # as the kernel closes it when a process dies
    counted: list[uuid.UUID] = []

    def count(workflow_id: uuid.UUID) -> bool:
        counted.append(workflow_id)
        return True

    assert notes.NotePlaces("default").count_the_dead(count) == counted == [died]


# --- the clock of the host ---


class Clock:
    """The host's clock, set by a test; nothing waits by it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.off = timedelta()
        real = clock.host_now
        monkeypatch.setattr(clock, "host_now", lambda: self.now(real()))

    def now(self, real: datetime) -> datetime:
        return real + self.off


@pytest.mark.parametrize("hours", [5, -5])
def test_a_clock_that_is_set_takes_nothing_from_those_who_run(
    plant: Plant, door: Callable[[str], Gate], monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Set forward on SQLite, it ended the leases of all, and the handlers ran again beside themselves."""
    host = Clock(monkeypatch)
    gate = door("a")
    held = plant.enqueue(activities.pass_gate, "a")
    with running() as (worker, _):
        gate.wait_for_arrival()
        until(worker.ready.is_set)
        host.off = timedelta(hours=hours)
        worker.housekeeping.reconcile()
        row = plant.row(held)
        assert (row.status, row.deliveries) == (OutboxStatus.CLAIMED.value, 1)
        gate.open()
        until_closed(plant, held)
        after = plant.start(workflows.three, "b")
        until_closed(plant, after)
    row = plant.row(held)
    assert (row.deliveries, row.delivery_failures) == (1, 0)
    assert plant.labels().count("a") == 1


def test_leases_are_judged_again_a_lease_after_the_clock_has_jumped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    host = Clock(monkeypatch)
    real = clock.host_now()
    monkeypatch.setattr(clock, "host_now", lambda: real + timedelta(seconds=now[0]) + host.off)
    watched, lease = HostClock(monotonic=lambda: now[0]), timedelta(seconds=60)
    now[0] += 500
    assert watched.leases_can_be_judged(lease)
    host.off = timedelta(hours=1)
    assert not watched.leases_can_be_judged(lease)
    now[0] += 59
    assert not watched.leases_can_be_judged(lease)
    now[0] += 1
    assert watched.leases_can_be_judged(lease)
    host.off = timedelta(hours=-1)
    assert watched.leases_can_be_judged(lease)
