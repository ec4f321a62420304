"""`--processes N`: forks workers and keeps their number. Opens no database connection, and has no thread except for the
moment in which a line is emitted; connections that the project has opened in this process are closed before each fork.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType

from durable.worker.process import forking, orphans, output, speaking
from durable.worker.process.health import HealthSocket
from durable.worker.process.measuring import SharedMeasures
from durable.worker.process.modes import WorkerExit, WorkerMode
from durable.worker.process.pages import Pages
from durable.worker.process.reports import Report, Reporter, State, read
from durable.worker.process.signals import HANDLED, TOGETHER, StopSignals, end_now
from durable.worker.threads.logs import get_logger
from durable.worker.threads.wakeup import Doorbell, readable

log = get_logger("durable.worker.supervisor")

TICK = 0.5
SILENT_AFTER = 10.0
"""Seconds without a report after which a child makes the supervisor red."""

LOST_AFTER = 60.0
"""Seconds without a report after which only a restart of all of them can mend it."""

LIVED_LONG = 10.0
"""A child that dies after this many seconds is replaced at once; one that dies sooner, with back-off."""

HURRIED = 3.0
"""Seconds after a second signal in which children have to give back what they hold."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
FINAL = frozenset({WorkerExit.CLEAN, WorkerExit.USAGE, WorkerExit.STORE})
"""Exit codes of a child that has finished, or for which another start would not help."""


@dataclass(slots=True)
class _Child:
    """One place among the N, and the process that fills it."""

    number: int
    pid: int = 0
    pipe: int = -1
    started_at: float = 0.0
    heard_at: float = 0.0
    was_ready: bool = False
    report: Report | None = None
    quick_deaths: int = 0
    start_at: float = 0.0
    code: int | None = None

    def complaint(self, now: float) -> str:
        if self.code is not None:
            return ""
        if not self.pid:
            return f"worker {self.number} is missing; it is being replaced"
        if now - self.heard_at > SILENT_AFTER:
            return f"worker {self.number} has been silent for {now - self.heard_at:.0f} s"
        if self.report is None:
            return f"worker {self.number} is not ready yet"
        return f"worker {self.number}: {self.report.text}" if self.report.state is not State.WELL else ""


class Supervisor:
    """Runs `child(number, reporter)` in `processes` forked processes; it returns their exit code.

    A child that dies is replaced, with back-off if it dies young; one that is not ready within `ready_within` is killed
    first. A child that waits for the database is not late. Signals are forwarded. In a burst, children that have
    finished are not replaced. `run` returns the worst exit code of the last children.
    """

    def __init__(
        self,
        child: Callable[[int, Reporter], int],
        *,
        processes: int,
        mode: WorkerMode,
        grace: timedelta,
        ready_within: timedelta = timedelta(seconds=60),
        health: HealthSocket | None = None,
        measures: SharedMeasures | None = None,
        on_tick: Callable[[Supervisor], None] | None = None,
        owns_process: bool = False,
    ) -> None:
        self._child = child
        self._children = [_Child(number) for number in range(1, processes + 1)]
        self._mode = mode
        self._grace = grace.total_seconds()
        self._ready_within = ready_within.total_seconds()
        self._health = health
        self._measures = measures
        self._pages = Pages(live=self.faults, metrics=None if measures is None else measures.page)
        self._on_tick = on_tick
        self._owns_process = owns_process
        self._doorbell = Doorbell()
        self._stopping: float | None = None
        self._code: WorkerExit = WorkerExit.CLEAN
        self._hurried: tuple[int, float] | None = None

    def run(self) -> int:
        """Supervises until stopped, or in a burst until all children are through."""
        speaking.start_without_a_thread()
        before = signal.signal(signal.SIGCHLD, self._on_child)
        try:
            with StopSignals(self.stop, second=self._hurry) as signals:
                while not self._is_over():
                    self._keep_up()
                    self._listen()
                    self._reap()
                    self._kill_the_late()
                    if self._on_tick is not None:
                        self._on_tick(self)
                if self._owns_process and self._code is not WorkerExit.RESTART:
                    signals.stay_deaf()
        finally:
            signal.signal(signal.SIGCHLD, before)
            self._doorbell.close()
        if self._hurried is not None:
            return 128 + self._hurried[0]
        return signals.code(max([int(self._code), *(child.code or 0 for child in self._children)]))

    def stop(self, code: WorkerExit = WorkerExit.CLEAN) -> None:
        """Asks all children to stop, and stops when they have. Safe in signal handlers."""
        if self._stopping is None:
            self._stopping = time.monotonic()
            self._code = code
        elif self._code is WorkerExit.RESTART:
            self._code = code  # a requested stop overrides a restart in progress
        self._send(signal.SIGTERM)
        self._doorbell.ring()

    def complaints(self) -> list[str]:
        """Why this is not the full number of healthy workers, in words; empty when it is."""
        now = time.monotonic()
        own = ["stopping"] if self._stopping is not None else []
        return own + [text for child in self._children if (text := child.complaint(now))]

    def faults(self) -> list[str]:
        """What only a restart of the supervisor and its workers can mend, in words. It replaces those that die."""
        now = time.monotonic()
        return [child.complaint(now) for child in self._children if child.pid and now - child.heard_at > LOST_AFTER]

    @property
    def pids(self) -> list[int]:
        """The processes of the living children."""
        return [child.pid for child in self._children if child.pid]

    # --- the parts of a round ---

    def _is_over(self) -> bool:
        if any(child.pid for child in self._children):
            return False
        return self._stopping is not None or all(child.code is not None for child in self._children)

    def _keep_up(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if not child.pid and child.code is None and self._stopping is None and now >= child.start_at:
                self._fork(child)

    def _fork(self, child: _Child) -> None:
        forking.let_go()
        forking.tell_of_threads()
        output.flush()
        # A signal that comes between the fork and the child's own handlers waits for them.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            inner, outer = os.pipe()
            try:
                parent = os.getpid()
                pid = os.fork()
                if pid == 0:
                    self._be_child(child, outer, parent)
            except OSError:
                os.close(inner)
                raise
            finally:
                os.close(outer)
            os.set_blocking(inner, False)
            child.pid, child.pipe = pid, inner
            child.started_at = child.heard_at = time.monotonic()
            child.report, child.was_ready = None, False
            if self._stopping is not None:  # it came before this child was known; sending it twice does no harm
                self._send(signal.SIGTERM)
        except OSError as full:  # no more processes or descriptors in this system, for now
            log.error("worker_process_not_forked", number=child.number, error=str(full))
            child.start_at = time.monotonic() + LONGEST_WAIT
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)

    def _be_child(self, child: _Child, outer: int, parent: int) -> None:
        """In the forked process. Never returns: the child must not run the rest of the parent's program."""
        code = 1
        try:
            # A Ctrl-C goes to the whole group of the terminal; the child shall hear it from its parent, once.
            os.setpgid(0, 0)
            forking.forget()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in HANDLED:
                if callable(signal.getsignal(number)):  # what `nohup` has ignored stays ignored
                    signal.signal(number, signal.SIG_DFL)
            orphans.follow(parent)
            for other in self._children:
                if other.pipe >= 0:
                    os.close(other.pipe)
            if self._health is not None:
                self._health.close()
            code = self._child(child.number, Reporter(outer))
        # The boundary of the process: whatever comes here would unwind into the parent's copy of the program.
        except BaseException:
            log.exception("worker_process_raised", number=child.number)
        finally:
            output.flush()
            os._exit(code)

    def _listen(self) -> None:
        pipes = {child.pipe: child for child in self._children if child.pipe >= 0}
        listening = self._health.filenos() if self._health is not None else []
        unsent = self._health.unsent() if self._health is not None else []
        ready = readable([self._doorbell.fileno(), *pipes, *listening], TICK, writable=unsent)
        self._doorbell.wait(0)
        for end in ready:
            if end in pipes:
                self._hear(pipes[end])
        if self._measures is not None:
            self._measures.chosen([child.number for child in self._children if child.pid])
        if self._health is not None:
            self._health.serve(self.complaints, self._pages)

    def _hear(self, child: _Child) -> None:
        reports = read(child.pipe)
        if reports:
            child.heard_at = time.monotonic()
            child.report = reports[-1]
            child.was_ready = child.was_ready or child.report.state is State.WELL

    def _reap(self) -> None:
        # All that have ended, not only ours: as the first process of a container this one adopts orphans.
        ended = orphans.reap()
        for child in self._children:
            if child.pid in ended:
                self._buried(child, ended[child.pid])

    def _buried(self, child: _Child, code: int) -> None:
        now = time.monotonic()
        lived = now - child.started_at
        os.close(child.pipe)
        pid, child.pid, child.pipe = child.pid, 0, -1
        if self._measures is not None:
            self._measures.ended(child.number)
        if self._stopping is not None:
            child.code = 128 - code if code < 0 else 0 if code == WorkerExit.RESTART else code
        elif code in FINAL and (self._mode is WorkerMode.BURST or not child.was_ready):
            child.code = code
            if self._mode is not WorkerMode.BURST:
                self.stop(WorkerExit(code))
        else:
            child.quick_deaths = 0 if lived > LIVED_LONG or code == WorkerExit.RESTART else child.quick_deaths + 1
            wait = min(FIRST_WAIT * 2.0 ** min(child.quick_deaths - 2, 16), LONGEST_WAIT)
            child.start_at = now + (wait if child.quick_deaths > 1 else 0.0)
            log.error("worker_process_died", number=child.number, pid=pid, code=code, lived=round(lived, 1))

    def _kill_the_late(self) -> None:
        now = time.monotonic()
        too_late = self._stopping is not None and now - self._stopping > self._grace + LIVED_LONG
        if too_late or (self._hurried is not None and now - self._hurried[1] > HURRIED):
            self._send(signal.SIGKILL)
        for child in self._children:
            late = child.pid and not child.was_ready and now - child.started_at > self._ready_within
            waits = child.report is not None and child.report.state is State.WAITING
            if late and not waits and self._stopping is None:
                log.error("worker_process_not_ready", number=child.number, pid=child.pid)
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)

    # --- signals ---

    def _send(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.pid:
                with suppress(ProcessLookupError):  # it died, and is about to be reaped
                    os.kill(child.pid, number)

    def _hurry(self, number: int) -> None:
        """A second signal, in its handler: the children release what they hold; after a further one nothing is waited
        for.
        """
        now = time.monotonic()
        if self._hurried is None:
            self._hurried = (number, now)
            self._send(signal.SIGQUIT)  # a second SIGTERM could reach them too soon after the first to count
            self._doorbell.ring()
        elif now - self._hurried[1] >= TOGETHER:
            self._send(signal.SIGKILL)
            end_now(number)

    def _on_child(self, number: int, frame: FrameType | None) -> None:
        self._doorbell.ring()
