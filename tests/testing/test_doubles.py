"""Fakes in place of activities."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

import durable
from durable import testing
from tests.ledger.models import Entry
from tests.testing import plant

pytestmark = pytest.mark.django_db


def test_fakes_are_called_with_decoded_arguments_and_remembered() -> None:
    ship = Mock(return_value="by hand")
    with testing.replaced({plant.charge: _charge, "plant.ship": ship, plant.note: lambda label: None}) as calls:
        assert testing.run(plant.checkout, 5) == "fake 5: by hand, by hand, by hand"
    assert [call.args for call in calls.of(plant.charge)] == [(5, Decimal("9.90"))]
    assert [call.args for call in calls.of("plant.ship")] == [(0,), (1,), (2,)]
    assert [call.activity for call in calls.calls] == ["plant.charge", *["plant.ship"] * 3, "plant.note"]
    assert not Entry.objects.exists()
    assert testing.run(plant.checkout, 5).startswith("R-5: parcel 0")


def _charge(order_id: int, amount: Decimal) -> plant.Receipt:
    assert durable.activity_info().attempt == 1
    return plant.Receipt(f"fake {order_id}", amount)


def test_an_async_fake_stands_for_a_sync_handler_and_the_other_way_round() -> None:
    fakes: dict[Any, Any] = {plant.slow: AsyncMock(return_value="from a coroutine"), plant.ship: lambda item: "plain"}
    with testing.replaced(fakes):
        assert testing.run(plant.limited) == "from a coroutine"
        assert testing.run(plant.ship, 1) == "plain"


def test_an_inner_block_goes_first() -> None:
    with testing.replaced({plant.slow: lambda: "outer"}):
        with testing.replaced({plant.slow: lambda: "inner"}):
            assert testing.run(plant.slow) == "inner"
        assert testing.run(plant.slow) == "outer"


def test_a_fake_that_answers_another_type_than_the_handler_fails_like_one() -> None:
    with testing.replaced({plant.slow: lambda: 42}), pytest.raises(durable.WorkflowFailed) as caught:
        testing.run(plant.slow)
    assert "PayloadError" in caught.value.type


def test_a_fake_that_raises_is_retried() -> None:
    charge = Mock(side_effect=[ConnectionError("no"), plant.Receipt("second", Decimal(1))])
    with testing.replaced({plant.charge: charge}):
        assert testing.run(plant.charge, 1, Decimal(1)).number == "second"


def test_what_pytest_raises_in_a_fake_ends_the_test_and_is_not_retried() -> None:
    fake = Mock(side_effect=lambda: pytest.fail("not to be called"))
    with testing.replaced({plant.slow: fake}), pytest.raises(pytest.fail.Exception, match="not to be called"):
        testing.run(plant.slow)
    assert fake.call_count == 1


def test_what_can_not_be_called_or_is_not_registered_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be called"), testing.replaced({plant.slow: "no"}):  # type: ignore[dict-item]
        pass
    with pytest.raises(durable.NotRegistered), testing.replaced({"plant.nobody": lambda: None}):
        pass


def test_slots_say_how_many_are_claimed_together() -> None:
    """With one slot a turn comes after each activity, so that the first result can cancel the others."""
    seen: list[int] = []

    def ship(item: int) -> str:
        seen.append(item)
        return str(item)

    with testing.replaced({plant.ship: ship}):
        assert testing.run(_first_of_three, slots=1) == "0"
    assert seen == [0]


@durable.workflow(name="plant.first_of_three")
async def _first_of_three() -> str:
    import asyncio

    tasks = [asyncio.create_task(_shipped(item)) for item in range(3)]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await durable.sleep(timedelta(hours=1))
    return next(iter(done)).result()


async def _shipped(item: int) -> str:
    return await plant.ship.execute(item)
