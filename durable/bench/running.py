"""A worker on a thread of this process, and how to wait until it has done what was asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connections

from durable.worker.worker import Worker

PATIENCE = 300.0
LOOK_EVERY = 0.002


class Stuck(Exception):
    """The worker did not come to an end of what was asked of it."""


class Running:
    """A worker that runs. Its counters are read without asking the database, so that waiting costs next to nothing."""

    def __init__(self, worker: Worker, alias: str) -> None:
        self.worker = worker
        self._alias = alias

    def done(self) -> int:
        """How many activities this worker has acknowledged."""
        return self.worker.tally.done

    def wait_done(self, count: int) -> None:
        """Wait until `count` activities in all have been acknowledged."""
        _wait(lambda: self.done() >= count, f"{count} acknowledgements, of which {self.done()} came")

    def wait_closed(self) -> None:
        """Wait until no workflow is live."""
        _wait(self._nothing_is_live, "the end of all workflows")

    def _nothing_is_live(self) -> bool:
        with connections[self._alias].cursor() as cursor:
            cursor.execute("SELECT 1 FROM durable_workflow WHERE status IN ('running', 'paused') LIMIT 1")
            return cursor.fetchone() is None


@contextmanager
def running(alias: str) -> Iterator[Running]:
    """A worker with the project's settings, ready, inside the block."""
    worker = Worker(name="durable-bench")
    thread = threading.Thread(target=worker.run, name="durable-bench-worker")
    thread.start()
    try:
        if not worker.ready.wait(PATIENCE):
            raise Stuck("The worker did not become ready.")
        yield Running(worker, alias)
    finally:
        worker.stop()
        thread.join()


def _wait(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise Stuck(f"Waited {PATIENCE:.0f} s for {what}.")
        time.sleep(LOOK_EVERY)
