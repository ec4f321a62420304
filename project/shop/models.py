"""The shop's own tables. The engine's rows know nothing of them, and the other way round."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from project.shop.trouble import Trouble


class Product(models.Model):
    """Something to sell, and how many of it are left."""

    name = models.CharField(max_length=100, unique=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.IntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(stock__gte=0), name="shop_stock_is_never_negative")]

    def __str__(self) -> str:
        return self.name


class OrderStatus(models.TextChoices):
    """How far an order has come. Written by the activities of its workflow."""

    PLACED = "placed", "placed"
    RESERVED = "reserved", "stock reserved"
    PAID = "paid", "paid"
    SHIPPED = "shipped", "with the courier"
    DELIVERED = "delivered", "delivered"
    SOLD_OUT = "sold_out", "sold out"
    REFUSED = "refused", "card refused"
    REFUNDED = "refunded", "refunded"
    CANCELLED = "cancelled", "cancelled"


class Card(models.TextChoices):
    """What an order is paid with."""

    GOOD = "good", "a good card"
    REFUSED = "refused", "a card that the bank refuses"
    WALLET = "wallet", "Harbour Pay"


class Outside(models.TextChoices):
    """Outside services that can be down."""

    WALLET = "harbour_pay", "Harbour Pay"
    MAIL = "mail", "Mail server"


class Service(models.Model):
    """An outside service, which staff of the demo can switch off and on. One without a row answers."""

    name = models.CharField(max_length=20, choices=Outside.choices, unique=True)
    answers = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.get_name_display()


class Order(models.Model):
    """What a customer wants. `workflow_id` is the workflow that carries it through, started in the same transaction."""

    customer = models.CharField(max_length=100)
    card = models.CharField(max_length=30, choices=Card.choices, default=Card.GOOD)
    receipt_to = models.EmailField(default="", blank=True)
    receipt_sent_at = models.DateTimeField(null=True, blank=True)
    address = models.CharField(max_length=100, default="Harbour Street 1")
    status = models.CharField(max_length=10, choices=OrderStatus.choices, default=OrderStatus.PLACED)
    note = models.CharField(max_length=300, default="", blank=True)
    workflow_id = models.UUIDField(null=True, editable=False)
    placed_at = models.DateTimeField(auto_now_add=True)

    trouble: Trouble | None = None
    """What waits for staff, once `trouble.look` has looked."""

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"Order {self.pk} of {self.customer}"


class OrderLine(models.Model):
    """One product of an order; shipped as a parcel of its own."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, models.PROTECT)
    quantity = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(quantity__gt=0), name="shop_quantity_is_positive")]

    def __str__(self) -> str:
        return f"{self.quantity} × {self.product}"


class Payment(models.Model):
    """What the bank did. The idempotency key is the engine's: the same for every attempt of the same activity."""

    order = models.ForeignKey(Order, models.CASCADE, related_name="payments")
    amount = models.DecimalField(max_digits=8, decimal_places=2)
    refunded = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    idempotency_key = models.CharField(max_length=100, unique=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(refunded__lte=F("amount")), name="shop_no_more_refunded_than_paid")
        ]

    def __str__(self) -> str:
        return f"{self.amount} for order {self.order_id}"


class Shipment(models.Model):
    """One parcel. `sent` is false while it is being packed."""

    line = models.OneToOneField(OrderLine, models.CASCADE, related_name="shipment")
    idempotency_key = models.CharField(max_length=100, unique=True)
    packed_times = models.PositiveIntegerField(default=1)
    sent = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"parcel of line {self.line_id}"
