"""What staff see of the shop. The workflows behind the orders are in the `durable` part of the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html

from project.shop import trouble
from project.shop.models import Order, OrderLine, Payment, Product, Service

if TYPE_CHECKING:
    # Django's own classes can not be subscribed at run time.
    Lines = admin.TabularInline[OrderLine, Order]
    OrderPages = admin.ModelAdmin[Order]
    ProductPages = admin.ModelAdmin[Product]
    PaymentPages = admin.ModelAdmin[Payment]
    ServicePages = admin.ModelAdmin[Service]
else:
    Lines = admin.TabularInline
    OrderPages = ProductPages = PaymentPages = ServicePages = admin.ModelAdmin


class OrderLines(Lines):
    """The lines of an order."""

    model = OrderLine
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return False


class OrderList(ChangeList):
    """The list of orders, each with what waits for staff."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        trouble.look(self.result_list)


@admin.register(Order)
class OrderAdmin(OrderPages):
    """Orders, each with a link to its workflow. They are written by activities, so staff only look."""

    list_display = ["__str__", "status", "dead_letter", "note", "workflow", "placed_at"]
    readonly_fields = ["workflow", "dead_letter"]
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

    @admin.display(description="dead letter")
    def dead_letter(self, order: Order) -> str:
        if order.trouble is None:
            return "–"
        try:
            page = reverse("admin:durable_deadletter_change", args=[order.trouble.letter])
        except NoReverseMatch:
            return order.trouble.for_staff
        return format_html('<a href="{}">{}</a>', page, order.trouble.for_staff)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return OrderList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Order | None:
        order = super().get_object(request, object_id, from_field)
        if order is not None:
            trouble.look([order])
        return order

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


@admin.register(Service)
class ServiceAdmin(ServicePages):
    """Outside services: what is ticked answers. Take a tick away to see what becomes of orders meanwhile."""

    list_display = ["__str__", "answers"]
    list_editable = ["answers"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Service | None = None) -> bool:
        return False
