"""The shop's page, and what its forms do."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from durable import WorkflowStatus
from durable.operations import terminate
from project.shop.models import Order, OrderStatus, Product
from project.shop.orders import place_order, stock_the_shelves
from project.shop.workflows import checkout

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("project.urls")]


@pytest.fixture
def shelves() -> list[Product]:
    return stock_the_shelves(10)


def test_an_empty_shop_says_what_to_do(client: Client) -> None:
    page = client.get("/").content.decode()
    assert "The shelves are empty" in page
    assert "Place the first one" in page


def test_an_order_from_the_page_starts_its_workflow(client: Client, shelves: list[Product]) -> None:
    answer = client.post(reverse("shop:order"), {"product": [shelves[0].pk, shelves[1].pk], "customer": "Ada"})
    assert answer.status_code == 302
    (order,) = Order.objects.all()
    assert checkout.get(f"order-{order.pk}").status() is WorkflowStatus.RUNNING
    assert "Order" in client.get("/").content.decode()
    assert "stock reserved" in client.get(reverse("shop:orders")).content.decode()


@pytest.mark.parametrize("product", ["", "0", "x", "99999999999999999999"])
def test_an_order_of_nothing_is_refused_in_words(client: Client, shelves: list[Product], product: str) -> None:
    answer = client.post(reverse("shop:order"), {"product": [product]}, follow=True)
    assert "Choose at least one product" in answer.content.decode()
    assert not Order.objects.exists()


def test_a_customers_name_is_only_text(client: Client, shelves: list[Product]) -> None:
    client.post(reverse("shop:order"), {"product": [shelves[0].pk], "customer": "<script>alert(1)</script>"})
    assert "<script>alert(1)" not in client.get("/").content.decode()


def test_a_courier_for_an_order_that_ended_is_told_so(client: Client, shelves: list[Product]) -> None:
    order = place_order("Ada", shelves[:1])
    terminate(checkout.get(f"order-{order.pk}").id, reason="test")
    answer = client.post(reverse("shop:courier", args=[order.pk]), follow=True)
    assert "needs a live workflow" in answer.content.decode()


def test_forms_need_a_post(client: Client, shelves: list[Product]) -> None:
    assert client.get(reverse("shop:order")).status_code == 405
    assert client.get(reverse("shop:courier", args=[1])).status_code == 405
    assert client.post("/").status_code == 405


def test_staff_see_orders_but_can_not_change_them(admin_client: Client, shelves: list[Product]) -> None:
    order = place_order("Ada", shelves[:1])
    page = admin_client.get(reverse("admin:shop_order_changelist")).content.decode()
    assert str(order.workflow_id) in page
    assert admin_client.get(reverse("admin:shop_order_add")).status_code == 403
    assert admin_client.get(reverse("admin:shop_order_delete", args=[order.pk])).status_code == 403
    assert admin_client.get(reverse("admin:shop_payment_changelist")).status_code == 200
    assert admin_client.get(reverse("admin:shop_product_changelist")).status_code == 200


def test_the_stock_can_not_become_negative(shelves: list[Product]) -> None:
    from django.db import IntegrityError

    with pytest.raises(IntegrityError):
        Product.objects.filter(pk=shelves[0].pk).update(stock=-1)


def test_every_status_of_an_order_is_drawn(client: Client, shelves: list[Product]) -> None:
    for status in OrderStatus.values:
        Order.objects.create(customer=status, status=status)
    page = client.get("/").content.decode()
    assert [status for status in OrderStatus.values if f"of {status}" not in page] == []
