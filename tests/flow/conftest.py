"""Fixtures of the flow's tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from durable.flow.caller import signal
from durable.flow.turns import turn
from tests.flow.blocking import CODE, spinning
from tests.flow.driver import Driver


@pytest.fixture(autouse=True)
def batches_close_by_their_size_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a batch of turns is not closed for its time, unless a test asks for it."""
    monkeypatch.setattr(turn, "_CODE_FOR", 3600.0)  # how long a batch of turns may take is no setting


@pytest.fixture
def driver() -> Driver:
    """A worker's hands."""
    return Driver()


@pytest.fixture
def code() -> Iterator[dict[str, Any]]:
    """Afterwards the code is as it was."""
    before = dict(CODE)
    yield CODE
    CODE.update(before)


@pytest.fixture
def overrunning(driver: Driver, settings: Any, code: dict[str, Any]) -> uuid.UUID:
    """A workflow whose next turn spins until its CPU time is up."""
    settings.DURABLE = {"TURN_CPU_FOR": timedelta(milliseconds=20), "TURN_POISON_LIMIT": 3}
    workflow_id = driver.start(spinning)
    driver.turn()
    signal.signal(workflow_id, "go", payload="1")
    return workflow_id
