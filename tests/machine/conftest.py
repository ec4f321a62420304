"""The crew, and an engine that does nothing by chance."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from durable import clock
from durable.flow.delivery import abandon
from durable.flow.turns import turn
from durable.flow.upkeep import reconcile
from durable.store.runs import due
from tests.machine import state
from tests.machine.crew import Crew
from tests.machine.machine import Machine

BUDGETS = {
    "DELIVERY_ATTEMPTS": 2,
    "TURN_POISON_LIMIT": 2,
    "DELIVERY_BACKOFF": (timedelta(seconds=1), 4.0, timedelta(minutes=15)),
    "LEASE_FOR": timedelta(minutes=1),
}
"""Small ones, so that dead letters and blocked workflows are frequent."""


@pytest.fixture
def machine(transactional_db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Machine]]:
    """The machine with a crew of this test's own. The same program does the same again, jitter included."""
    settings.DURABLE = BUDGETS
    for module in (abandon, reconcile):
        monkeypatch.setattr(module, "random", SimpleNamespace(Random=lambda: random.Random(1)))
    monkeypatch.setattr(turn, "_CODE_FOR", 3600.0)  # how long a batch of turns may take is no setting
    monkeypatch.setattr(due, "owners", _in_one_order(due.owners))
    crew = Crew()
    yield type("Machine", (Machine,), {"crew": crew, "reached": Counter()})
    crew.leave()
    clock.unfreeze()
    state.empty()


def _in_one_order(owners: Callable[..., Any]) -> Callable[..., Any]:
    """Those that are due at the same instant, by age. The database answers them in any order."""
    return lambda *args, **named: sorted(owners(*args, **named), key=lambda one: (-one.waited, one.owner.int))
