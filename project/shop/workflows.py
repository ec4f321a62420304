"""An order's way, from the basket to the customer's door."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import durable
from durable import ActivityError, workflow
from project.shop.activities import charge, refund, reserve_stock, ship, tell_customer, turn_away
from project.shop.models import OrderStatus


@workflow
async def checkout(order_id: int, courier_has: timedelta = timedelta(minutes=1)) -> str:
    """Reserve, charge, ship every line in parallel, wait for the courier; refund when that does not work out.

    Answers the status that the order ended in.
    """
    try:
        lines = await reserve_stock.execute(order_id)
    except ActivityError as sold_out:
        await turn_away.execute(order_id, OrderStatus.SOLD_OUT.value, sold_out.message)
        return OrderStatus.SOLD_OUT.value
    try:
        await charge.execute(order_id)
    except ActivityError as refused:
        await turn_away.execute(order_id, OrderStatus.REFUSED.value, refused.message)
        return OrderStatus.REFUSED.value
    try:
        await asyncio.gather(*(ship.execute(line) for line in lines))
        await tell_customer.execute(order_id, OrderStatus.SHIPPED.value)
        async with asyncio.timeout(courier_has.total_seconds()):
            await durable.wait_for_signal("courier")
    except ActivityError as failed:
        await refund.execute(order_id, failed.message)
        return OrderStatus.REFUNDED.value
    except TimeoutError:
        await refund.execute(order_id, "the courier did not come in time")
        return OrderStatus.REFUNDED.value
    await tell_customer.execute(order_id, OrderStatus.DELIVERED.value)
    return OrderStatus.DELIVERED.value
