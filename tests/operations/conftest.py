"""Fixtures of the operators' tests."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.flow.driver import Driver


@pytest.fixture
def driver() -> Driver:
    """A worker's hands."""
    return Driver()


@pytest.fixture
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """What was logged, each entry with `event` and `log_level`."""
    with capture_logs() as entries:
        yield entries
