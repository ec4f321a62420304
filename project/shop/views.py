"""The shop's public page: choose, order, watch."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from durable.errors import WorkflowClosed
from project.shop.models import Order, OrderStatus, Product
from project.shop.orders import deliver, place_order

SHOWN_ORDERS = 20
STEPS = (OrderStatus.RESERVED, OrderStatus.PAID, OrderStatus.SHIPPED, OrderStatus.DELIVERED)
ENDED_EARLY = (OrderStatus.SOLD_OUT, OrderStatus.REFUSED, OrderStatus.REFUNDED)


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Everything on one page."""
    return render(request, "shop/home.html", {"products": Product.objects.order_by("name"), "orders": latest_orders()})


@require_safe
def orders(request: HttpRequest) -> HttpResponse:
    """The list of orders alone; the page's script fetches it every other second."""
    return render(request, "shop/orders.html", {"orders": latest_orders()})


@require_POST
def order(request: HttpRequest) -> HttpResponse:
    """Place an order."""
    asked_for = set(request.POST.getlist("product"))
    chosen = [product for product in Product.objects.order_by("pk") if str(product.pk) in asked_for]
    customer = request.POST.get("customer", "").strip()[:100] or "A guest"
    if not chosen:
        messages.error(request, "Choose at least one product.")
    else:
        card = "refused" if request.POST.get("card") == "refused" else "good"
        placed = place_order(customer, chosen, card=card)
        messages.success(request, f"{placed} is on its way.")
    return redirect("shop:home")


@require_POST
def courier(request: HttpRequest, order_id: int) -> HttpResponse:
    """The courier has delivered."""
    delivered = get_object_or_404(Order, pk=order_id)
    try:
        deliver(delivered)
    except WorkflowClosed as closed:
        messages.error(request, str(closed))
    return redirect("shop:home")


def latest_orders() -> list[dict[str, Any]]:
    """The last orders as the template draws them: an order, and its steps with done or not."""
    latest = Order.objects.prefetch_related("lines__product").order_by("-id")[:SHOWN_ORDERS]
    return [{"order": order, "steps": _steps(order), "ended_early": order.status in ENDED_EARLY} for order in latest]


def _steps(order: Order) -> list[tuple[str, str]]:
    reached = STEPS.index(OrderStatus(order.status)) if order.status in STEPS else -1
    return [(step.label, "done" if place <= reached else "open") for place, step in enumerate(STEPS)]
