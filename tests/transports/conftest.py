"""The plant with a queue that is sent, and workers that serve it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.fleet import Fleet
from tests.transports.clusters import SETTINGS, Clusters
from tests.transports.doubles import Recorded, Subprocess
from tests.waiting import PATIENCE, in_thread
from tests.worker.conftest import Plant, door, plant

__all__ = ["Plant", "Served", "clusters", "door", "fleet", "plant", "recorded", "sent_to", "served"]

RECORDED = "tests.transports.doubles.Recorded"


@pytest.fixture
def sent_to(plant: Plant, settings: Any) -> Callable[..., None]:
    """`sent_to(transport, **options)`: the queue `reports` is sent by it."""

    def choose(transport: str, **options: Any) -> None:
        more = {key: options.pop(key) for key in list(options) if key.isupper()}
        queues = {"reports": {"transport": transport, "cluster": "default", **options}}
        settings.DURABLE = {**settings.DURABLE, "QUEUES": queues, **more}

    return choose


@pytest.fixture
def recorded(sent_to: Callable[..., None]) -> Iterator[type[Recorded]]:
    """The queue `reports` is given to a transport that records."""
    Recorded.reset()
    sent_to(RECORDED)
    yield Recorded
    if Recorded.hangs_at is not None:
        Recorded.hangs_at.open()


class Served:
    """A worker that serves in this process, in a thread."""

    def __init__(self, **options: Any) -> None:
        from durable.worker.process.worker import Worker

        self._looked = threading.Condition()
        self.worker = Worker(on_tick=self._tick, **options)
        self._code = in_thread(self.worker.run)

    def _tick(self, worker: Any) -> None:
        with self._looked:
            self._looked.notify_all()

    def stop(self) -> int:
        """Stop it cleanly; answers its exit code."""
        self.worker.stop()
        code: int = self._code.result(PATIENCE)
        return code


@contextmanager
def serving(**options: Any) -> Iterator[Served]:
    """A worker serves during a block."""
    made = Served(**options)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def served() -> Callable[..., Any]:
    """A context manager: in its block a worker serves."""
    return serving


@pytest.fixture(autouse=True)
def no_process_left_behind() -> Iterator[None]:
    yield
    for process in Subprocess.started:
        process.kill()
        process.wait(PATIENCE)
    Subprocess.started.clear()


@pytest.fixture
def clusters(subprocess_environment: dict[str, str], tmp_path: Path) -> Iterator[Clusters]:
    """Clusters on this test's database; what still runs at the end is killed."""
    made = Clusters(subprocess_environment, tmp_path)
    yield made
    made.disband()


@pytest.fixture
def fleet(subprocess_environment: dict[str, str], tmp_path: Path) -> Iterator[Fleet]:
    """Workers whose queue `reports` is sent to a cluster; what still runs at the end is killed."""
    made = Fleet(subprocess_environment, tmp_path, settings=SETTINGS)
    yield made
    made.disband()


SHORT = timedelta(seconds=1)
