"""What customers and couriers do, and what becomes of the services that the shop depends on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from django.db import transaction

from project.shop.models import Card, Order, OrderLine, Outside, Product, Service
from project.shop.workflows import checkout

CATALOGUE = {"Tea": Decimal("4.90"), "Teapot": Decimal("29.00"), "Cup": Decimal("7.50"), "Honey": Decimal("8.20")}


def stock_the_shelves(stock: int = 1_000) -> list[Product]:
    """Make sure that there is something to sell; products that exist already are left alone."""
    return [
        Product.objects.get_or_create(name=name, defaults={"price": price, "stock": stock})[0]
        for name, price in CATALOGUE.items()
    ]


def place_order(
    customer: str,
    products: Sequence[Product],
    *,
    card: Card = Card.GOOD,
    address: str = "Harbour Street 1",
    receipt_to: str = "",
    courier_has: timedelta = timedelta(minutes=1),
) -> Order:
    """Write the order and start its workflow: both are committed, or neither is."""
    with transaction.atomic():
        order = Order.objects.create(customer=customer, card=card, address=address, receipt_to=receipt_to)
        OrderLine.objects.bulk_create(OrderLine(order=order, product=product) for product in products)
        handle = checkout.options(key=_key(order)).start(order.pk, courier_has, receipt_to)
        order.workflow_id = handle.id
        order.save(update_fields=["workflow_id"])
    return order


def switch_off(outside: Outside) -> None:
    """From now on the service does not answer."""
    Service.objects.update_or_create(name=outside, defaults={"answers": False})


def switch_on(outside: Outside) -> None:
    """From now on the service answers."""
    Service.objects.update_or_create(name=outside, defaults={"answers": True})


def deliver(order: Order) -> None:
    """The courier has delivered. Raises `durable.WorkflowClosed` when the order has already ended."""
    checkout.get(_key(order)).signal("courier", {"order": order.pk})


def _key(order: Order) -> str:
    return f"order-{order.pk}"
