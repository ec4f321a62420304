"""The backend in the settings of a test, and nothing of it in those of the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings

from durable.kernel.definitions.registry import registry
from durable.signals import activity_dead_lettered, workflow_closed
from tests.tasks import jobs
from tests.tasks.interface import task_enqueued, task_finished, task_started
from tests.waiting import Gate

TASKS: dict[str, Any] = {
    "default": {"BACKEND": "durable.tasks.DurableBackend", "QUEUES": ["default", "mails"]},
    "free": {"BACKEND": "durable.tasks.DurableBackend", "QUEUES": []},
}


@pytest.fixture(autouse=True)
def backend() -> Iterator[None]:
    """The backend is configured; afterwards this process knows nothing of tasks, as before."""
    finder = registry.finder
    with override_settings(TASKS=TASKS):
        yield
    registry.finder = finder
    workflow_closed.disconnect(dispatch_uid="durable.tasks")
    activity_dead_lettered.disconnect(dispatch_uid="durable.tasks")


@pytest.fixture(autouse=True)
def nothing_seen() -> Iterator[None]:
    jobs.seen.clear()
    jobs.doors.clear()
    yield
    for door in jobs.doors.values():
        door.open()


@pytest.fixture
def door() -> Gate:
    """The door at which `wait_at` waits."""
    return jobs.doors.setdefault("door", Gate())


class Heard(list[tuple[str, Any, Any]]):
    """What signals said, in order: name, sender, status at the time."""

    def names(self) -> list[str]:
        return [name for name, _, _ in self]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """The interface's signals, from all threads of this process."""
    told = Heard()
    receivers = []
    for name, signal in (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished)):

        def receive(sender: Any, task_result: Any, name: str = name, **rest: Any) -> None:
            told.append((name, sender, task_result.status.value))

        signal.connect(receive)
        receivers.append((signal, receive))
    yield told
    for signal, receive in receivers:
        signal.disconnect(receive)


def awaited(call: Any, /, *args: Any, **kwargs: Any) -> Any:
    """What an async call returns or raises, awaited on this thread's connections.

    An error crosses the bridge as a value, without the frames of the bridge: they would keep its thread alive.
    """

    async def run() -> tuple[Any, Exception | None]:
        try:
            return await call(*args, **kwargs), None
        except Exception as error:
            error.__cause__ = error.__context__ = None
            return None, error

    value, error = async_to_sync(run)()
    if error is not None:
        raise error.with_traceback(None) from None
    return value


def burst(**options: Any) -> Any:
    """A real worker, here, until nothing is due."""
    from durable.worker.process.modes import WorkerMode
    from durable.worker.process.worker import Worker

    worker = Worker(mode=WorkerMode.BURST, **options)
    assert worker.run() == 0
    return worker
