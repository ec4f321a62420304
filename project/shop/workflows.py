"""An order's way, from the basket to the customer's door."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

import durable
from durable import ActivityError, workflow
from project.shop.activities import (
    BankSays,
    charge,
    refund,
    reserve_stock,
    send_receipt,
    ship,
    tell_customer,
    turn_away,
)
from project.shop.models import OrderStatus

RECEIPT_WITHIN = timedelta(seconds=5)
"""How long the parcels wait for the receipt."""


@workflow
async def checkout(order_id: int, courier_has: timedelta = timedelta(minutes=1), receipt_to: str = "") -> str:
    """Reserve, charge, ship every line in parallel, wait for the courier; refund when that does not work out.

    Answers the status that the order ended in.
    """
    try:
        lines = await reserve_stock.execute(order_id)
    except ActivityError as sold_out:
        return await _turned_away(order_id, OrderStatus.SOLD_OUT, sold_out.message)
    try:
        bank = await charge.execute(order_id)
    except ActivityError:
        # Spent attempts are held, not raised: this is what comes of it when staff discard the held payment.
        return await _turned_away(order_id, OrderStatus.CANCELLED, "the payment could not be made")
    except asyncio.CancelledError:
        await _turned_away(order_id, OrderStatus.CANCELLED, "before it was paid")
        raise
    if bank is BankSays.REFUSED:
        return await _turned_away(order_id, OrderStatus.REFUSED, "the bank said no")
    try:
        if receipt_to:
            await _mail_receipt(order_id)
        await asyncio.gather(*(ship.execute(line) for line in lines))
        await tell_customer.execute(order_id, OrderStatus.SHIPPED.value)
        async with asyncio.timeout(courier_has.total_seconds()):
            await durable.wait_for_signal("courier")
    except ActivityError as failed:
        return await _refunded(order_id, failed.message)
    except TimeoutError:
        return await _refunded(order_id, "the courier did not come in time")
    except asyncio.CancelledError:
        await _refunded(order_id, "the order was cancelled")
        raise
    await tell_customer.execute(order_id, OrderStatus.DELIVERED.value)
    return OrderStatus.DELIVERED.value


async def _mail_receipt(order_id: int) -> None:
    """Mail the receipt; when that does not work out soon, the order goes on without."""
    with contextlib.suppress(TimeoutError, ActivityError):
        async with asyncio.timeout(RECEIPT_WITHIN.total_seconds()):
            await send_receipt.execute(order_id)


async def _turned_away(order_id: int, status: OrderStatus, why: str) -> str:
    await turn_away.execute(order_id, status.value, why)
    return status.value


async def _refunded(order_id: int, why: str) -> str:
    await refund.execute(order_id, why)
    return OrderStatus.REFUNDED.value
