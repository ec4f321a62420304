"""Fixtures of the crash points."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crashpoints import wire


@pytest.fixture(autouse=True)
def nobody_looks_on_afterwards() -> Iterator[None]:
    """The connections through which the ends of others were watched are closed."""
    yield
    wire.dismiss_witnesses()
