"""The fleet, and the plant whose work it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.fleet import Fleet
from tests.worker.conftest import Plant, door, plant

__all__ = ["Plant", "door", "fleet", "plant"]


@pytest.fixture
def fleet(subprocess_environment: dict[str, str], tmp_path: Path) -> Iterator[Fleet]:
    """Worker processes on this test's database; what still runs at the end is killed."""
    made = Fleet(subprocess_environment, tmp_path)
    yield made
    made.disband()
