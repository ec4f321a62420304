"""A worker on a thread of this process, and how to wait until it has done what was asked."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from durable.outcomes import WakesBy
from durable.worker.process.tally import Tally
from durable.worker.process.worker import Worker

PATIENCE = 900.0
LOOK_EVERY = 0.002


class Stuck(Exception):
    """The worker did not finish its work."""


class _Telling(Tally):
    """The worker's counters, which wake those that wait for them: polling would take the interpreter from the measured
    worker.
    """

    def __init__(self) -> None:
        self.waited_for = ""
        self.goal = sys.maxsize
        self.reached = threading.Event()
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == self.waited_for and value >= self.goal:
            self.reached.set()

    def wait(self, name: str, goal: int) -> None:
        """Waits until the counter of this name has come so far. Raises `Stuck` after `PATIENCE` seconds."""
        self.reached.clear()
        self.goal, self.waited_for = goal, name
        if getattr(self, name) < goal:
            self.reached.wait(PATIENCE)
        self.waited_for = ""
        if getattr(self, name) < goal:
            raise Stuck(f"Waited {PATIENCE:.0f} s for {goal} {name}, of which {getattr(self, name)} came.")


class Running:
    """A worker that runs. Its counters are read without asking the database, so that waiting costs next to nothing."""

    def __init__(self, worker: Worker, alias: str) -> None:
        self.worker = worker
        self._alias = alias
        self._tally = worker.tally = _Telling()

    def done(self) -> int:
        """How many activities this worker has acknowledged."""
        return self._tally.done

    def wait_done(self, count: int) -> None:
        """Waits until `count` activities in all have been acknowledged."""
        self._tally.wait("done", count)

    def closed(self) -> int:
        """How many workflows this worker has brought to their end, single activities left out."""
        return self._tally.closed

    def wait_workflows(self, count: int) -> None:
        """Waits until `count` workflows in all have ended in a turn of this worker."""
        self._tally.wait("closed", count)

    def wait_closed(self) -> None:
        """Waits until no workflow is live."""
        wait_closed(self._alias)

    def wait_for_notifications(self) -> None:
        """Waits until the worker has seen that notifications reach it."""
        wait_until(lambda: self.worker.listener.wakes_by is WakesBy.NOTIFICATION, "notifications")


@contextmanager
def running(alias: str) -> Iterator[Running]:
    """A worker with the project's settings, ready, inside the block."""
    worker = Worker(name="durable-bench")
    run = Running(worker, alias)
    thread = threading.Thread(target=worker.run, name="durable-bench-worker")
    thread.start()
    try:
        if not worker.ready.wait(PATIENCE):
            raise Stuck("The worker did not become ready.")
        yield run
    finally:
        worker.stop()
        thread.join()


def wait_closed(alias: str, *, look_every: float = LOOK_EVERY) -> None:
    """Waits until no workflow is live, whichever process ends them."""

    def nothing_is_live() -> bool:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT 1 FROM durable_workflow WHERE status IN ('running', 'paused') LIMIT 1")
            return cursor.fetchone() is None

    wait_until(nothing_is_live, "the end of all workflows", look_every=look_every)


def wait_until(condition: Callable[[], bool], what: str, *, look_every: float = LOOK_EVERY) -> None:
    """Looks again and again until it holds. Raises `Stuck` after `PATIENCE` seconds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise Stuck(f"Waited {PATIENCE:.0f} s for {what}.")
        time.sleep(look_every)
