"""What staff see of the shop. The workflows behind the orders are in the `durable` part of the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html

from project.shop.models import Order, OrderLine, Payment, Product

if TYPE_CHECKING:
    # Django's own classes can not be subscribed at run time.
    Lines = admin.TabularInline[OrderLine, Order]
    OrderPages = admin.ModelAdmin[Order]
    ProductPages = admin.ModelAdmin[Product]
    PaymentPages = admin.ModelAdmin[Payment]
else:
    Lines = admin.TabularInline
    OrderPages = ProductPages = PaymentPages = admin.ModelAdmin


class OrderLines(Lines):
    """The lines of an order."""

    model = OrderLine
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return False


@admin.register(Order)
class OrderAdmin(OrderPages):
    """Orders, each with a link to its workflow. They are written by activities, so staff only look."""

    list_display = ["__str__", "status", "note", "placed_at", "workflow"]
    list_filter = ["status"]
    search_fields = ["customer"]
    inlines = [OrderLines]

    @admin.display(description="workflow")
    def workflow(self, order: Order) -> str:
        if order.workflow_id is None:
            return "–"
        try:
            page = reverse("admin:durable_workflow_change", args=[order.workflow_id])
        except NoReverseMatch:
            return str(order.workflow_id)
        return format_html('<a href="{}">history</a>', page)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return False


@admin.register(Product)
class ProductAdmin(ProductPages):
    """Products and their stock."""

    list_display = ["name", "price", "stock"]


@admin.register(Payment)
class PaymentAdmin(PaymentPages):
    """What the bank did."""

    list_display = ["order", "amount", "refunded"]
    list_select_related = ["order"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Payment | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Payment | None = None) -> bool:
        return False
