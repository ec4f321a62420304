"""Fixtures of the flow's tests."""

from __future__ import annotations

import pytest

from tests.flow.driver import Driver


@pytest.fixture
def driver() -> Driver:
    """A worker's hands."""
    return Driver()
