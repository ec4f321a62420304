"""The shop's public page: choose, order, watch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from durable.errors import WorkflowClosed
from project.shop import trouble
from project.shop.models import Card, Order, OrderStatus, Outside, Product, Service
from project.shop.orders import deliver, place_order

SHOWN_ORDERS = 20
SHOWN_HELD = 5
STEPS = (OrderStatus.RESERVED, OrderStatus.PAID, OrderStatus.SHIPPED, OrderStatus.DELIVERED)
ENDED_EARLY = (OrderStatus.SOLD_OUT, OrderStatus.REFUSED, OrderStatus.REFUNDED, OrderStatus.CANCELLED)
COURIER_HAS = timedelta(hours=1)


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Everything on one page."""
    down = set(Service.objects.filter(answers=False).values_list("name", flat=True))
    shown = {
        "products": Product.objects.order_by("name"),
        "orders": latest_orders(),
        "cards": [(card, card == Card.WALLET and Outside.WALLET in down) for card in Card],
        "mail_is_down": Outside.MAIL in down,
    }
    return render(request, "shop/home.html", shown)


@require_safe
def orders(request: HttpRequest) -> HttpResponse:
    """The list of orders alone; the page's script fetches it every other second."""
    return render(request, "shop/orders.html", {"orders": latest_orders()})


@require_safe
def no_icon(request: HttpRequest) -> HttpResponse:
    """Browsers ask for one behind every page of the admin; without an answer each of them is a warning in the log."""
    return HttpResponse(status=204)


@require_POST
def order(request: HttpRequest) -> HttpResponse:
    """Place an order."""
    asked_for = set(request.POST.getlist("product"))
    chosen = [product for product in Product.objects.order_by("pk") if str(product.pk) in asked_for]
    customer = request.POST.get("customer", "").strip()[:100] or "A guest"
    receipt_to = request.POST.get("receipt_to", "").strip()
    if not chosen:
        messages.error(request, "Choose at least one product.")
    elif receipt_to and not _is_address(receipt_to):
        messages.error(request, "The receipt can not be mailed to that address.")
    else:
        asked = request.POST.get("card", "")
        card = Card(asked) if asked in Card.values else Card.GOOD
        placed = place_order(customer, chosen, card=card, receipt_to=receipt_to, courier_has=COURIER_HAS)
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
    """The last orders as the template draws them: an order, and its steps with done or not. Those that staff have to
    look into come first, so that newer ones do not push them off the page.
    """
    orders = Order.objects.prefetch_related("lines__product").order_by("-id")
    held = trouble.held(most=SHOWN_HELD)
    latest = [*orders.filter(workflow_id__in=held), *orders.exclude(workflow_id__in=held)[:SHOWN_ORDERS]]
    trouble.look(latest)
    return [{"order": order, "steps": _steps(order), "ended_early": order.status in ENDED_EARLY} for order in latest]


def _steps(order: Order) -> list[tuple[str, str]]:
    reached = STEPS.index(OrderStatus(order.status)) if order.status in STEPS else -1
    return [(step.label, "done" if place <= reached else "open") for place, step in enumerate(STEPS)]


def _is_address(text: str) -> bool:
    try:
        validate_email(text)
    except ValidationError:
        return False
    return len(text) <= 254
