"""Fixtures of the flow's tests."""

from __future__ import annotations

import pytest

from durable.flow.turns import turn
from tests.flow.driver import Driver


@pytest.fixture(autouse=True)
def batches_close_by_their_size_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a batch of turns is not closed for its time, unless a test asks for it."""
    monkeypatch.setattr(turn, "_CODE_FOR", 3600.0)


@pytest.fixture
def driver() -> Driver:
    """A worker's hands."""
    return Driver()
