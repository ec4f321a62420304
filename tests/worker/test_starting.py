"""A worker that is starting, or is held up in its first round, is there: health says so."""

from __future__ import annotations

from typing import Any

import pytest

from durable.flow.looks import look
from durable.flow.upkeep import settle
from tests.waiting import Gate
from tests.worker.conftest import Plant
from tests.worker.plant import activities
from tests.worker.threads import running, until_closed


def test_a_worker_that_waits_at_its_start_is_no_missing_worker(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate("start")
    real = settle.settle_closed

    def settle_closed(**options: Any) -> int:
        gate.pass_through()
        return real(**options)

    monkeypatch.setattr(settle, "settle_closed", settle_closed)
    waits = plant.enqueue(activities.add, 1, 1)
    with running(name="starting") as (worker, _):
        gate.wait_for_arrival()
        found = look.health()
        assert not worker.ready.is_set()
        assert found.workers == ("starting",)
        assert not found.unserved
        assert not any("No live worker" in problem for problem in found.problems)
        assert "starting: not ready yet" in worker.complaints()
        gate.open()
        until_closed(plant, waits)
