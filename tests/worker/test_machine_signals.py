"""What a terminal, a service manager or a container does to a worker's process (faults K12): real processes, real
signals. None leaves a row claimed that a second of work would have given back.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.worker.conftest import Plant
from tests.worker.launching import SUPERVISED, Launch, assert_given_back, begun, children, launch, said_by
from tests.worker.plant import activities
from tests.worker.processes import Pipes, answer_of, code_of, free_port
from tests.worker.threads import until, until_closed

__all__ = ["launch"]

Doors = Callable[[str], Pipes]
UNASKED = [signal.SIGALRM, signal.SIGRTMIN]
"""One that has a name, and one of those that have none; test_signals.py goes through all of them."""


ONE: list[str] = []
BENEATH = ["--processes", "1"]


@pytest.mark.parametrize(
    ("number", "processes"),
    [(signal.SIGINT, ONE), (signal.SIGTERM, BENEATH), (signal.SIGHUP, BENEATH)],
    ids=["SIGINT-one", "SIGTERM-supervised", "SIGHUP-supervised"],
)
def test_who_asks_for_a_stop_gets_one_in_good_order(
    plant: Plant, launch: Launch, pipes: Doors, number: signal.Signals, processes: list[str]
) -> None:
    """All three have one handler; SIGTERM to one process is in test_processes.py, SIGHUP to one further below."""
    door = pipes("a")
    held = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "a")
    process = launch(*processes, PLANT_GRACE="0")
    door.wait_for_arrival()
    process.send_signal(number)
    assert code_of(process) == 0
    assert_given_back(plant, held)


@SUPERVISED
def test_sigquit_ends_the_grace_and_gives_back_what_is_held(
    plant: Plant, launch: Launch, pipes: Doors, processes: list[str]
) -> None:
    door = pipes("b")
    held = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "b")
    process = launch(*processes, PLANT_GRACE="600")
    door.wait_for_arrival()
    process.send_signal(signal.SIGQUIT)
    assert code_of(process) == 128 + signal.SIGQUIT
    assert_given_back(plant, held)


def test_a_second_signal_to_a_supervisor_ends_the_grace_of_all_and_gives_back_what_they_hold(
    plant: Plant, launch: Launch, pipes: Doors
) -> None:
    door = pipes("c")
    held = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "c")
    port = free_port()
    process = launch(
        "--processes", "2", "--health", f"127.0.0.1:{port}", PLANT_GRACE="600",
        PLANT_TOGETHER="0",  # else one that comes soon after the first is the same one
    )  # fmt: skip
    door.wait_for_arrival()
    process.send_signal(signal.SIGTERM)
    until(lambda: "stopping" in (answer_of(port) or (0, ""))[1])
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 128 + signal.SIGTERM
    assert_given_back(plant, held)


@pytest.mark.parametrize("number", UNASKED, ids=lambda number: signal.Signals(number).name)
def test_a_signal_that_means_nothing_here_stops_in_good_order_and_shows_in_the_exit_code(
    plant: Plant, launch: Launch, pipes: Doors, number: int
) -> None:
    """By default each of them ends a process at once, and its rows stay claimed until the leases run out."""
    door = pipes("d")
    held = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "d")
    process = launch(PLANT_GRACE="0")
    door.wait_for_arrival()
    process.send_signal(number)
    assert code_of(process) == 128 + number
    assert_given_back(plant, held)


def test_such_a_signal_to_a_supervisor_stops_its_workers_in_good_order(
    plant: Plant, launch: Launch, pipes: Doors
) -> None:
    door = pipes("e")
    held = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "e")
    process = launch("--processes", "1", PLANT_GRACE="0")
    door.wait_for_arrival()
    process.send_signal(signal.SIGALRM)
    assert code_of(process) == 128 + signal.SIGALRM
    assert_given_back(plant, held)


def test_signals_that_are_ignored_leave_the_worker_at_work_and_a_crash_says_in_which_line(
    plant: Plant, launch: Launch, pipes: Doors, tmp_path: Path
) -> None:
    """SIGUSR1 writes the stacks of all threads to stderr."""
    door = pipes("f")
    held = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "f")
    process = launch()
    door.wait_for_arrival()
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCHLD, signal.SIGWINCH):
        process.send_signal(number)
    process.send_signal(signal.SIGUSR1)
    until(lambda: "in hold_pipe" in said_by(tmp_path))
    door.let_go()
    until_closed(plant, held)
    last = pipes("g")
    plant.enqueue(activities.hold_pipe, str(last.arrived), str(last.opened), "g")
    last.wait_for_arrival()
    process.send_signal(signal.SIGSEGV)
    assert code_of(process) == -signal.SIGSEGV
    crash = said_by(tmp_path).partition("Segmentation fault")[2]
    assert "in hold_pipe" in crash


def test_what_nohup_has_ignored_stays_ignored(plant: Plant, launch: Launch, pipes: Doors) -> None:
    door = pipes("h")
    held = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "h")
    process = launch("--processes", "1", prefix=["nohup"])
    door.wait_for_arrival()
    for pid in [process.pid, *children(process.pid)]:
        os.kill(pid, signal.SIGHUP)
    door.let_go()
    until_closed(plant, held)
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)]", signal.SIGINT),
        ("[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)]", signal.SIGTERM),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())", signal.SIGTERM),
    ],
    ids=["ignored-SIGINT", "ignored-SIGTERM", "blocked-SIGTERM"],
)
def test_a_parent_that_ignores_or_blocks_signals_makes_no_worker_that_cannot_be_stopped(
    plant: Plant, launch: Launch, pipes: Doors, statement: str, number: signal.Signals
) -> None:
    door = pipes("i")
    held = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "i")
    process = launch(prefix=begun(statement), PLANT_GRACE="0")
    door.wait_for_arrival()
    process.send_signal(number)
    assert code_of(process) == 0
    assert_given_back(plant, held)


IGNORING = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
"""Every process of theirs would have ended with 0."""


def test_a_parent_that_ignores_sigchld_does_not_hide_how_processes_of_handlers_end(
    plant: Plant, launch: Launch
) -> None:
    """A single worker; beneath a supervisor, in the test of those who adopt orphans."""
    workflow_id = plant.enqueue(activities.exit_code, 7)
    process = launch("--burst", prefix=begun(IGNORING))
    assert code_of(process) == 0
    assert plant.look(workflow_id).result == "7"


def test_children_stop_in_good_order_when_their_supervisor_was_killed(
    plant: Plant, launch: Launch, pipes: Doors
) -> None:
    door = pipes("j")
    held = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "j")
    process = launch("--processes", "2", PLANT_GRACE="0")
    door.wait_for_arrival()
    until(lambda: len(children(process.pid)) == 2)
    orphans = children(process.pid)
    process.kill()
    until(lambda: not any(_is_alive(pid) for pid in orphans))
    assert_given_back(plant, held)


ADOPTING = "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)"


@SUPERVISED
def test_who_adopts_orphans_reaps_them_and_leaves_handlers_the_ends_of_their_own(
    plant: Plant, launch: Launch, tmp_path: Path, processes: list[str]
) -> None:
    """A container whose first process does not reap fills with zombies, until no process can be started any more."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    left = plant.enqueue(activities.orphan, str(pipe))
    first = f"{ADOPTING}; {IGNORING}" if processes else ADOPTING
    process = launch(*processes, prefix=begun(first), PLANT_GRACE="0")
    until_closed(plant, left)
    adopted = int(plant.look(left).result)
    until(lambda: adopted in children(process.pid))
    pipe.write_text("go\n")
    until(lambda: not Path(f"/proc/{adopted}").exists())
    codes = [plant.enqueue(activities.exit_code, 9) for _ in range(20)]
    for workflow_id in codes:
        until_closed(plant, workflow_id)
    assert {plant.look(workflow_id).result for workflow_id in codes} == {"9"}
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0


@pytest.mark.parametrize(
    ("number", "code", "processes"),
    [
        (signal.SIGTERM, 0, ONE), (signal.SIGHUP, 0, ONE), (signal.SIGUSR2, 140, ONE),
        (signal.SIGTERM, 0, BENEATH), (signal.SIGQUIT, 131, BENEATH),
    ],
    ids=["SIGTERM-one", "SIGHUP-one", "SIGUSR2-one", "SIGTERM-supervised", "SIGQUIT-supervised"],
)  # fmt: skip
def test_the_first_process_of_a_container_stops_as_any_other(
    plant: Plant, launch: Launch, pipes: Doors, number: signal.Signals, code: int, processes: list[str]
) -> None:
    """For PID 1 no signal has a default action: what it does not handle never reaches anybody."""
    alone = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine gives no process namespace")
    door = pipes("k")
    held = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "k")
    outside = launch(*processes, prefix=alone, PLANT_GRACE="0")
    door.wait_for_arrival()
    [first] = children(outside.pid)
    os.kill(first, number)
    assert code_of(outside) == code
    assert_given_back(plant, held)


def test_a_killed_worker_beneath_the_first_process_ends_the_container(plant: Plant, launch: Launch) -> None:
    process = launch(prefix=begun(ADOPTING))
    until_closed(plant, plant.enqueue(activities.add, 1, 1))
    [worker] = children(process.pid)
    os.kill(worker, signal.SIGKILL)
    assert code_of(process) == 128 + signal.SIGKILL


def _is_alive(pid: int) -> bool:
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False
