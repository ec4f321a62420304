"""`heartbeat_timeout`: an attempt that is silent for longer has failed; what it says later is dropped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from durable.outcomes import WorkflowStatus
from durable.worker.handlers.deadlines import Deadlines
from tests.settings import VENDOR
from tests.waiting import Gate
from tests.worker import making
from tests.worker.conftest import Plant
from tests.worker.plant import quiet

pytestmark = pytest.mark.django_db(transaction=True)


# On SQLite a transactional handler holds the write lock of the whole file: nobody can write that it was silent.
SILENT: list[Any] = [quiet.silent, quiet.silent_async]
SILENT += [] if VENDOR == "sqlite" else [quiet.silent_and_transactional]


@pytest.mark.parametrize("definition", SILENT)
def test_an_attempt_that_falls_silent_has_failed_and_its_late_end_is_dropped(
    plant: Plant, door: Callable[[str], Gate], definition: Any
) -> None:
    gate = door("s")
    workflow_id = plant.enqueue(definition, "s", budget=1)
    plant.burst()
    gate.open()
    found = plant.look(workflow_id)
    assert (found.status, found.failure.type) == (WorkflowStatus.FAILED, "TimeoutError")
    assert "heartbeat_timeout" in found.failure.message
    assert [failed.cause for failed in plant.row(workflow_id).failed_attempts.all()] == ["heartbeat_timeout"]
    assert plant.labels() == []


class Counting:
    """A clock that waiting moves."""

    def __init__(self) -> None:
        self.at = 0
        self.waited: list[int] = []
        self.meanwhile: list[Callable[[], None]] = []

    def now(self) -> int:
        return self.at

    def wait(self, condition: Any, microseconds: int | None) -> None:
        assert microseconds is not None
        self.waited.append(microseconds)
        if self.meanwhile:
            self.at += microseconds // 2
            self.meanwhile.pop(0)()
            self.at += microseconds - microseconds // 2
        else:
            self.at += microseconds


def test_each_heartbeat_gives_the_whole_span_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted from the beat itself, not from the last look."""
    clock = Counting()
    said: list[int] = []
    deadlines = Deadlines(timing=clock)
    delivery = making.delivery()
    clock.meanwhile = [lambda: delivery.beat("1"), lambda: delivery.beat("2")]
    monkeypatch.setattr("threading.Thread.start", lambda thread: None)
    deadlines.watch_silence(delivery, timedelta(microseconds=100), lambda: said.append(clock.at))
    due = deadlines._next()  # one step of a thread that is never started
    assert due is not None
    due()
    assert (clock.waited, said) == ([100, 50, 75], [225])
    assert delivery.longest_silence == 75
