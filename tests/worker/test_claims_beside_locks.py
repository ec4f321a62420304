"""How much is claimed while results wait for locks of somebody else's."""

from __future__ import annotations

import pytest

from durable.worker.loops import claims as claims_module
from tests.worker.floors import Floor
from tests.worker.making import claim


def test_results_that_wait_for_locks_take_room_once_there_are_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workflows that somebody has locked do not keep their single activities from being claimed: all of them would run,
    and their results stay in memory.
    """
    floor = Floor(monkeypatch)
    monkeypatch.setattr(claims_module, "MOST_ASIDE", 4)
    floor.ordinary = [claim(row) for row in range(1, 60)]
    for _ in range(20):
        floor.claims.step()
        for delivery in list(floor.slots.running):
            floor.slots.running.remove(delivery)
            floor.leases.set_aside(delivery)
    assert floor.leases.aside == 4 + claims_module.IN_FLIGHT * floor.slots.size
    for delivery in floor.leases.all()[:2]:
        floor.leases.end(delivery)
    assert floor.claims.room == 2
