"""What the shop does to the world: its own tables, a bank, a packing table.

An activity may run more than once when a worker dies. Each of these is safe against that: three write through the
transaction that also records their completion, the others look for the idempotency key (or their own mark) first.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from enum import StrEnum

from django.db.models import F, Sum
from django.utils import timezone

import durable
from durable import Retry, activity
from project.shop.models import Card, Order, OrderLine, OrderStatus, Outside, Payment, Product, Service, Shipment

PACKING_SECONDS = float(os.environ.get("DEMO_PACKING_SECONDS", "0.3"))


class SoldOut(Exception):
    """There is less in stock than the order wants."""


class AddressUnknown(Exception):
    """The parcel service knows no such address."""


class NoAnswer(Exception):
    """An outside service is down."""


class BankSays(StrEnum):
    """What the bank answers. A refusal is an answer like any other, not an error: nobody has to look into it."""

    PAID = "paid"
    REFUSED = "refused"


HANGS_FOR = float(os.environ.get("DEMO_HANGS_SECONDS", "2.5"))
"""Seconds that a payment service which dies keeps its first caller waiting. More than `PAYMENT_WITHIN`."""

PAYMENT_WITHIN = timedelta(seconds=2)

SEEN_WHEN_DOWN = ("no answer", "502 Bad Gateway", "connection refused")
"""What the successive attempts meet at a service that is down."""

SOON = Retry(max_attempts=3, first=timedelta(milliseconds=200), cap=timedelta(seconds=1))
"""A real shop would be more patient; the demo's audience is not."""


@activity(transactional=True, retry=Retry(no_retry=(SoldOut,)))
def reserve_stock(order_id: int) -> list[int]:
    """Take the order's products out of stock, exactly once; answers the ids of its lines."""
    lines = list(OrderLine.objects.filter(order_id=order_id).select_related("product").order_by("product_id"))
    for line in lines:
        left = Product.objects.filter(pk=line.product_id, stock__gte=line.quantity)
        if not left.update(stock=F("stock") - line.quantity):
            raise SoldOut(f"{line.product} is sold out")
    Order.objects.filter(pk=order_id).update(status=OrderStatus.RESERVED)
    return [line.pk for line in lines]


# Whether a provider that does not answer has taken the money, nobody knows: after the last attempt the payment is held,
# so that a person looks, and neither the customer nor the parcel is told anything that may be wrong.
@activity(retry=SOON, on_exhausted="hold", start_to_close=PAYMENT_WITHIN)
def charge(order_id: int) -> BankSays:
    """Have the bank take the order's total. It knows the idempotency key, so it takes it once."""
    order = Order.objects.get(pk=order_id)
    if order.card == Card.REFUSED:
        return BankSays.REFUSED
    if order.card == Card.WALLET:
        _ask(Outside.WALLET)
    total = order.lines.aggregate(total=Sum(F("quantity") * F("product__price")))["total"]
    Payment.objects.get_or_create(
        idempotency_key=durable.activity_info().idempotency_key, defaults={"order": order, "amount": total}
    )
    Order.objects.filter(pk=order_id).update(status=OrderStatus.PAID)
    return BankSays.PAID


@activity(retry=SOON, on_exhausted="hold")
def send_receipt(order_id: int) -> None:
    """Mail the receipt, unless it was mailed before."""
    _ask(Outside.MAIL)
    Order.objects.filter(pk=order_id, receipt_sent_at=None).update(receipt_sent_at=timezone.now())


@activity(queue="parcels", retry=Retry(max_attempts=3, first=timedelta(milliseconds=200), no_retry=(AddressUnknown,)))
def ship(line_id: int) -> str:
    """Pack one line and give it to the parcel service; answers the parcel's number."""
    line = OrderLine.objects.select_related("order").get(pk=line_id)
    if line.order.address == "nowhere":
        raise AddressUnknown("the parcel service knows no such address")
    key = durable.activity_info().idempotency_key
    shipment, made = Shipment.objects.get_or_create(line=line, defaults={"idempotency_key": key})
    if not made:
        Shipment.objects.filter(pk=shipment.pk).update(packed_times=F("packed_times") + 1)
    time.sleep(PACKING_SECONDS)  # the packing itself: this is where the demo's worker is killed
    Shipment.objects.filter(pk=shipment.pk).update(sent=True)
    return f"parcel-{shipment.pk}"


@activity(transactional=True)
def refund(order_id: int, why: str) -> None:
    """Give back what was paid, put the products back, and close the order, exactly once."""
    Payment.objects.filter(order_id=order_id).update(refunded=F("amount"))
    _put_back(order_id)
    Order.objects.filter(pk=order_id).update(status=OrderStatus.REFUNDED, note=why)


@activity(transactional=True)
def turn_away(order_id: int, status: str, why: str) -> None:
    """Close an order that could not be paid or reserved; what was reserved goes back, exactly once."""
    if status != OrderStatus.SOLD_OUT:
        _put_back(order_id)
    Order.objects.filter(pk=order_id).update(status=status, note=why)


@activity
def tell_customer(order_id: int, status: str) -> None:
    """Show the customer how far the order is. Doing it twice changes nothing."""
    Order.objects.filter(pk=order_id).update(status=status)


def _put_back(order_id: int) -> None:
    for line in OrderLine.objects.filter(order_id=order_id).order_by("product_id"):
        Product.objects.filter(pk=line.product_id).update(stock=F("stock") + line.quantity)


def _ask(outside: Outside) -> None:
    """Raises `NoAnswer` when the service is switched off."""
    if not Service.objects.filter(name=outside, answers=False).exists():
        return
    turn = (durable.activity_info().attempt - 1) % len(SEEN_WHEN_DOWN)
    if outside is Outside.WALLET and turn == 0:
        time.sleep(HANGS_FOR)  # the engine finds out: this attempt has failed with a timeout
    raise NoAnswer(f"{outside.label}: {SEEN_WHEN_DOWN[turn]}")
