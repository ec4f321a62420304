"""A worker on threads of this process, and the wait for what it does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from durable.worker.process.modes import WorkerExit
from durable.worker.process.worker import Worker
from tests.waiting import PATIENCE, in_thread
from tests.worker.conftest import Plant


@contextmanager
def running(**options: Any) -> Iterator[tuple[Worker, Future[WorkerExit]]]:
    """A worker in a thread of its own; stopped at the end of the block."""
    worker = Worker(**options)
    future = in_thread(worker.run)
    try:
        yield worker, future
    finally:
        worker.stop()
        future.result(PATIENCE)


def until(condition: Callable[[], bool]) -> None:
    """Look again and again until it holds; fails loudly when it never does."""
    look_again = threading.Event()
    for _ in range(int(PATIENCE * 100)):
        if condition():
            return
        look_again.wait(0.01)
    raise AssertionError("It never came to pass.")


def until_closed(plant: Plant, workflow_id: Any) -> None:
    until(lambda: plant.look(workflow_id).closed_at is not None)
