"""Fixtures for pytest: `pytest_plugins = ["durable.testing.fixtures"]` in the project's topmost `conftest.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from durable.testing.eager import Eager


@pytest.fixture
def durable_eager(db: None) -> Iterator[Eager]:
    """`durable.testing.eager()` around the test. Works with pytest-django's `transactional_db`, too."""
    from durable import testing

    with testing.eager() as made:
        yield made
