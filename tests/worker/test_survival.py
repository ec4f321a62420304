"""What must not leave half a worker behind: threads that end, loops that stop, processes that can not be made."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from durable.worker.handlers.async_pool import AsyncPool
from durable.worker.handlers.deadlines import Deadlines
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.pool import HandlerPool
from durable.worker.loops.acks import Acks
from durable.worker.process import supervisor as supervising
from durable.worker.process.modes import WorkerExit, WorkerMode
from durable.worker.process.reports import Reporter
from durable.worker.process.supervisor import Supervisor
from durable.worker.process.worker import Worker
from durable.worker.threads.loop import Loop
from tests.waiting import PATIENCE, Gate
from tests.worker.conftest import Plant
from tests.worker.making import delivery
from tests.worker.plant import activities, workflows
from tests.worker.threads import running, until, until_closed

EVENTS_OF_LOOPS = {"loop_raised", "loop_works_again", "store_trouble", "store_answers_again"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_no_loop_ends_by_what_its_step_raises(end: BaseException) -> None:
    steps: list[None] = []

    def step() -> float:
        steps.append(None)
        if len(steps) == 1:
            raise end
        return 60.0

    loop = Loop("tested", step)
    loop.start()
    until(lambda: len(steps) == 2 and loop.pulse.trouble == "")
    assert loop.alive
    loop.stop()
    loop.join(PATIENCE)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (KeyError("a"), ["loop_raised", "loop_works_again"]),
        (OperationalError("connection refused"), ["store_trouble", "store_answers_again"]),
    ],
    ids=["a bug", "the database"],
)
def test_a_bug_in_a_loop_is_not_said_to_be_the_databases_fault(
    error: Exception, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    complaints: list[str] = []

    def step() -> float:
        complaints.append(loop.pulse.complaint(stuck_after=PATIENCE))
        if len(complaints) == 1:
            raise error
        return 60.0

    loop = Loop("tested", step, prepare=lambda: None)
    with caplog.at_level("INFO", logger="durable.worker"):
        loop.start()
        until(lambda: len(complaints) == 2 and loop.pulse.trouble == "")
        loop.stop()
        loop.join(PATIENCE)
    assert [record.msg for record in caplog.records if record.msg in EVENTS_OF_LOOPS] == lines
    assert ("bug of the engine" in complaints[1]) is isinstance(error, KeyError)
    assert ("cannot reach the database" in complaints[1]) is isinstance(error, OperationalError)


@pytest.mark.parametrize("lost", ["claim", "turn", "lease", "housekeeping", "ack"])
def test_a_worker_that_has_lost_one_of_its_threads_starts_anew(plant: Plant, lost: str) -> None:
    """A worker without one of them would look alive, hold rows, and never finish them."""
    with running() as (worker, future):
        until(worker.ready.is_set)
        if lost == "ack":
            worker.acks.finish(PATIENCE)
        else:
            next(loop for loop in worker.loops if loop.pulse.name == lost).stop()
        assert future.result(PATIENCE) is WorkerExit.RESTART


def test_an_end_that_is_asked_for_outranks_a_restart_that_is_under_way(
    plant: Plant, door: Callable[[str], Gate]
) -> None:
    gate = door("a")
    plant.enqueue(activities.pass_gate, "a")
    with running() as (worker, future):
        gate.wait_for_arrival()
        worker.stop(WorkerExit.RESTART)
        worker.stop()
        gate.open()
        assert future.result(PATIENCE) is WorkerExit.CLEAN
    supervisor = Supervisor(_no_child, processes=1, mode=WorkerMode.SERVE, grace=timedelta())
    supervisor.stop(WorkerExit.RESTART)
    supervisor.stop()
    assert supervisor.run() == 0


@pytest.mark.parametrize("how", ["exit", "stop"])
def test_a_handler_that_ends_the_event_loop_takes_no_other_along(plant: Plant, how: str) -> None:
    """Faults N3: each later async delivery would be claimed, renewed for ever, and never run."""
    plant.enqueue(activities.end_the_loop, how)
    after = [plant.enqueue(activities.note_async, f"b{number}") for number in range(5)]
    with running() as (worker, _):
        for workflow_id in after:
            until_closed(plant, workflow_id)
        until_closed(plant, plant.enqueue(activities.note_async, "last"))
        until(lambda: worker.handlers.busy == 0)


def test_an_async_pool_that_was_stopped_by_a_handler_still_closes() -> None:
    ran = threading.Event()

    async def work(_: Delivery) -> None:
        import asyncio

        asyncio.get_running_loop().stop()
        ran.set()

    pool = AsyncPool(work=work)
    pool.submit(delivery())
    assert ran.wait(PATIENCE)
    pool.close(PATIENCE)
    assert not any(thread.name == "durable-async-handlers" for thread in threading.enumerate())


class NoThreads:
    """The system has no more threads, for handlers, until told otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refuse = True
        self.refused = 0
        self._real = threading.Thread.start
        no_threads = self

        def start(thread: threading.Thread) -> None:
            if no_threads.refuse and thread.name.startswith("durable-handler"):
                no_threads.refused += 1
                raise RuntimeError("can't start new thread")
            no_threads._real(thread)

        monkeypatch.setattr(threading.Thread, "start", start)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> NoThreads:
    return NoThreads(monkeypatch)


def test_without_a_thread_to_be_had_deliveries_go_back_and_no_slot_is_lost(plant: Plant, no_threads: NoThreads) -> None:
    """Faults N3."""
    ids = [plant.enqueue(activities.add, number, 1) for number in range(6)]
    with running() as (worker, _):
        until(lambda: no_threads.refused > 0)
        no_threads.refuse = False
        for workflow_id in ids:
            until_closed(plant, workflow_id)
        until(lambda: worker.handlers.busy == 0)
    assert worker.leases.count == 0


def test_threads_that_are_there_do_for_those_that_can_not_be_had(no_threads: NoThreads) -> None:
    gate, done = Gate(), threading.Semaphore(0)

    def work(_: Delivery) -> None:
        gate.pass_through()
        done.release()

    pool = HandlerPool(3, work=work)
    with pytest.raises(RuntimeError, match="can't start"):
        pool.submit(delivery(1))
    no_threads.refuse = False
    pool.submit(delivery(2))
    gate.wait_for_arrival()
    no_threads.refuse = True
    pool.submit(delivery(3))
    gate.open()
    for _ in range(2):
        assert done.acquire(timeout=PATIENCE)
    assert not done.acquire(blocking=False), "what was refused is not run behind the caller's back"
    pool.close(PATIENCE)


def test_an_overrun_that_goes_wrong_is_not_the_end_of_all_time_limits() -> None:
    called = threading.Event()

    def wrong() -> None:
        raise KeyError("bug")

    deadlines = Deadlines()
    deadlines.watch(delivery(1), timedelta(), wrong)
    deadlines.watch(delivery(2), timedelta(microseconds=1), called.set)
    assert called.wait(PATIENCE)
    deadlines.stop()


@pytest.mark.django_db(transaction=True)
def test_a_fault_while_acknowledging_ends_neither_the_thread_nor_the_renewal_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []
    acks = Acks(ended=lambda given, outcome: ended.append(given.claim.row_id))
    real = acks._write  # the moment between the locks and the commit
    faults = iter([KeyError("bug")])

    def write(batch: Any) -> None:
        if (fault := next(faults, None)) is not None:
            raise fault
        real(batch)

    monkeypatch.setattr(acks, "_write", write)
    from durable.outcomes import Cancelled

    acks.start()
    first, second = delivery(1), delivery(2)
    acks.submit(first, Cancelled(first.claim))
    until(lambda: ended == [1])
    acks.submit(second, Cancelled(second.claim))
    until(lambda: ended == [1, 2])
    assert acks.alive
    assert acks.finish(PATIENCE) == 0


def test_a_burst_with_debug_on_keeps_no_statements(plant: Plant, settings: Any) -> None:
    """Faults J10: Django would keep the text of the last 9,000 of each connection."""
    from django.db import connections

    settings.DEBUG = True
    longest: list[int] = []

    def look(worker: Worker) -> None:
        longest.append(len(connections["default"].queries_log))

    for number in range(3):
        plant.start(workflows.three, f"c{number}")
    plant.burst(on_tick=look)
    assert max(longest) < 50


def _no_child(number: int, reporter: Reporter) -> int:
    raise AssertionError("no child is forked here")


def test_a_system_without_processes_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The supervisor goes on, answers the probe, and can be stopped."""
    tries: list[None] = []

    def fork() -> int:
        tries.append(None)
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(supervising, "LONGEST_WAIT", 0.0)
    monkeypatch.setattr(supervising, "TICK", 0.01)
    seen: list[list[str]] = []

    def tick(supervisor: Supervisor) -> None:
        seen.append(supervisor.complaints())
        if len(tries) >= 3:
            supervisor.stop()

    supervisor = Supervisor(_no_child, processes=1, mode=WorkerMode.SERVE, grace=timedelta(), on_tick=tick)
    assert supervisor.run() == 0
    assert seen[0] == ["worker 1 is missing; it is being replaced"]
    assert "worker_process_not_forked" in caplog.text
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGTERM, signal.SIGINT}


@pytest.mark.parametrize("threads", ["one thread", "another thread takes the signal"])
def test_a_stop_that_comes_with_the_fork_reaches_the_child(monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    """Else the child would go on until it was killed, the grace period and more after everybody else.

    Blocking the signal in the thread that forks does not hold it back where the process has other threads.
    """

    def fork() -> int:
        pid = os.posix_spawn("/bin/sleep", ["sleep", "600"], os.environ, setsigmask=[])
        if threads == "one thread":
            signal.raise_signal(signal.SIGTERM)
        else:
            supervisor.stop()
        return pid

    monkeypatch.setattr(os, "fork", fork)
    supervisor = Supervisor(_no_child, processes=1, mode=WorkerMode.SERVE, grace=timedelta(seconds=600))
    assert supervisor.run() == 128 + signal.SIGTERM
