"""Fixtures of the commands' tests."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

import durable
from durable.kernel.definitions.registry import registry


@pytest.fixture
def shop() -> Iterator[dict[str, Any]]:
    """A workflow and an activity, the only ones that this process knows."""
    with registry.isolated():

        @durable.workflow(name="shop.checkout")
        async def checkout(order_id: int, amount: Decimal = Decimal(0), *lines: int) -> str:
            return "done"

        @durable.activity(name="shop.charge")
        def charge(order_id: int) -> str:
            return "done"

        yield {"checkout": checkout, "charge": charge}
