"""What becomes of orders when a service dies: the workflow, the shop's page, the admin, and the acts of the story."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from durable import WorkflowStatus, testing
from durable.models import FailedAttempt
from durable.operations import RedriveMode, discard, list_dead_letters, redrive, terminate
from project.demo import business, telling
from project.demo.dead_letters import AtTheDesk
from project.demo.telling import StoryBroken
from project.shop import activities
from project.shop.models import Card, Order, OrderStatus, Outside, Payment, Product
from project.shop.orders import deliver, place_order, stock_the_shelves, switch_off, switch_on
from project.shop.workflows import RECEIPT_WITHIN, checkout

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("project.urls")]

LONG = timedelta(days=1)
A_WHILE = timedelta(seconds=4)
"""Enough for all attempts, and less than `RECEIPT_WITHIN`."""


@pytest.fixture(autouse=True)
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(activities, "HANGS_FOR", 0)
    monkeypatch.setattr(activities, "PACKING_SECONDS", 0)
    switch_off(Outside.WALLET)
    switch_off(Outside.MAIL)
    testing.freeze()
    yield
    testing.unfreeze()


@pytest.fixture
def shelves() -> list[Product]:
    return stock_the_shelves(10)


@pytest.fixture
def held(shelves: list[Product]) -> Order:
    order = place_order("Judy", shelves[:1], card=Card.WALLET, courier_has=LONG)
    testing.drain(until=A_WHILE)
    return order


@pytest.fixture
def judged(shelves: list[Product]) -> Order:
    order = place_order("Lena", shelves[:1], receipt_to="lena@example.com", courier_has=LONG)
    testing.drain(until=A_WHILE)
    testing.drain(until=RECEIPT_WITHIN)
    return order


def test_a_payment_whose_provider_died_is_held_with_every_error_kept(held: Order) -> None:
    (letter,) = list_dead_letters(workflow_of(held))
    assert (letter.activity, letter.attempts, letter.failure_delivered) == ("shop.charge", 3, False)
    errors = [
        attempt.error["message"] for attempt in FailedAttempt.objects.filter(outbox_row=letter.id).order_by("number")
    ]
    assert errors == ["Harbour Pay: no answer", "Harbour Pay: 502 Bad Gateway", "Harbour Pay: connection refused"]
    assert status_of(held) == OrderStatus.RESERVED
    assert not Payment.objects.exists()


def test_a_payment_redriven_too_early_comes_back_and_later_goes_through_once(held: Order) -> None:
    (letter,) = list_dead_letters(workflow_of(held))
    redrive(workflow_of(held), letter.ordinal)
    testing.drain(until=A_WHILE)
    (again,) = list_dead_letters(workflow_of(held))
    assert (again.attempts, again.redrive_count) == (6, 1)
    switch_on(Outside.WALLET)
    redrive(workflow_of(held), letter.ordinal)
    testing.drain()
    assert status_of(held) == OrderStatus.SHIPPED
    assert Payment.objects.filter(order=held).count() == 1


def test_a_held_payment_that_is_discarded_ends_the_order_and_puts_its_goods_back(
    held: Order, shelves: list[Product]
) -> None:
    (letter,) = list_dead_letters(workflow_of(held))
    discard(workflow_of(held), letter.ordinal, reason="the customer has paid in cash")
    testing.drain()
    held.refresh_from_db()
    assert held.status == OrderStatus.CANCELLED
    assert "cash" not in held.note, "what staff write to each other is not for the customer"
    assert Product.objects.get(pk=shelves[0].pk).stock == 10


def test_a_held_order_that_is_cancelled_puts_its_goods_back(held: Order, shelves: list[Product]) -> None:
    checkout.get(f"order-{held.pk}").cancel(reason="changed my mind")
    testing.drain()
    assert checkout.get(f"order-{held.pk}").status() is WorkflowStatus.CANCELLED
    assert status_of(held) == OrderStatus.CANCELLED
    assert Product.objects.get(pk=shelves[0].pk).stock == 10


def test_an_order_on_its_way_that_is_cancelled_is_refunded(shelves: list[Product]) -> None:
    order = place_order("Ada", shelves[:1], courier_has=LONG)
    testing.drain()
    checkout.get(f"order-{order.pk}").cancel(reason="changed my mind")
    testing.drain()
    assert status_of(order) == OrderStatus.REFUNDED
    payment = Payment.objects.get(order=order)
    assert payment.refunded == payment.amount


def test_an_order_does_not_wait_for_its_receipt_and_the_dead_letter_says_so(judged: Order) -> None:
    (letter,) = list_dead_letters(workflow_of(judged))
    assert (letter.activity, letter.failure_delivered) == ("shop.send_receipt", True)
    assert status_of(judged) == OrderStatus.SHIPPED


def test_a_forced_receipt_is_mailed_and_the_order_stays_as_it_was(judged: Order) -> None:
    (letter,) = list_dead_letters(workflow_of(judged))
    switch_on(Outside.MAIL)
    done = redrive(workflow_of(judged), letter.ordinal, mode=RedriveMode.FORCED, reason="asked for")
    assert done.was_judged
    testing.drain()
    judged.refresh_from_db()
    assert judged.receipt_sent_at is not None
    assert judged.status == OrderStatus.SHIPPED
    deliver(judged)
    testing.drain()
    assert status_of(judged) == OrderStatus.DELIVERED


def test_a_receipt_is_mailed_while_the_mail_server_answers(shelves: list[Product]) -> None:
    switch_on(Outside.MAIL)
    order = place_order("Lena", shelves[:1], receipt_to="lena@example.com", courier_has=LONG)
    testing.drain()
    order.refresh_from_db()
    assert order.receipt_sent_at is not None
    assert not list_dead_letters(workflow_of(order))


def test_the_shops_page_says_in_words_what_holds_an_order_up(client: Client, held: Order, judged: Order) -> None:
    page = client.get("/").content.decode()
    assert "Waiting for the payment service, which does not answer" in page
    assert "The receipt could not be mailed yet" in page
    assert "Harbour Pay (down at the moment)" in page


def test_held_orders_stay_on_the_page_however_many_come_behind_them(
    client: Client, held: Order, shelves: list[Product]
) -> None:
    Order.objects.bulk_create(Order(customer="Ada") for _ in range(50))
    page = client.get(reverse("shop:orders")).content.decode()
    assert page.count("of Judy") == 1
    assert page.index("of Judy") < page.index("of Ada")


def test_the_page_and_the_list_of_staff_take_as_many_queries_for_many_orders_as_for_one(
    client: Client, admin_client: Client, held: Order, shelves: list[Product]
) -> None:
    def queries() -> tuple[int, int]:
        with CaptureQueriesContext(connection) as page:
            client.get(reverse("shop:orders"))
        with CaptureQueriesContext(connection) as listed:
            admin_client.get(reverse("admin:shop_order_changelist"))
        return len(page), len(listed)

    before = queries()
    for name in ("Ken", "Ada", "Eve"):
        place_order(name, shelves[:1], card=Card.WALLET, courier_has=LONG)
    testing.drain(until=A_WHILE)
    assert queries() == before


def test_staff_see_at_the_order_what_waits_for_them(admin_client: Client, held: Order, judged: Order) -> None:
    listed = admin_client.get(reverse("admin:shop_order_changelist")).content.decode()
    assert "payment failed; the order is waiting" in listed
    assert "receipt failed; the order has moved on" in listed
    (letter,) = list_dead_letters(workflow_of(held))
    page = admin_client.get(reverse("admin:shop_order_change", args=[held.pk])).content.decode()
    assert reverse("admin:durable_deadletter_change", args=[letter.pk]) in page


def test_staff_switch_a_service_on_but_can_not_remove_it(admin_client: Client) -> None:
    page = reverse("admin:shop_service_changelist")
    services = admin_client.get(page).context["cl"].result_list
    form = {"form-TOTAL_FORMS": len(services), "form-INITIAL_FORMS": len(services), "_save": "Save"}
    for place, service in enumerate(services):
        form |= {f"form-{place}-id": service.pk, f"form-{place}-answers": "on"}
    assert admin_client.post(page, form).status_code == 302
    assert all(service.answers for service in type(services[0]).objects.all())
    assert admin_client.get(reverse("admin:shop_service_delete", args=[services[0].pk])).status_code == 403
    assert admin_client.get(reverse("admin:shop_service_add")).status_code == 403


@pytest.mark.parametrize("address", ["nowhere", "<b>@x", "a" * 300 + "@example.com"])
def test_a_receipt_to_no_address_is_refused_in_words(client: Client, shelves: list[Product], address: str) -> None:
    form = {"product": [shelves[0].pk], "receipt_to": address}
    answer = client.post(reverse("shop:order"), form, follow=True)
    assert "can not be mailed to that address" in answer.content.decode()
    assert not Order.objects.exists()


@pytest.mark.parametrize("card", [*Card.values, "", "x"])
def test_any_card_of_a_form_makes_an_order(client: Client, shelves: list[Product], card: str) -> None:
    client.post(reverse("shop:order"), {"product": [shelves[0].pk], "card": card})
    assert Order.objects.get().card == (card if card in Card.values else Card.GOOD)


def test_what_waits_for_the_visitor_is_made_up_for_and_not_piled_up(shelves: list[Product]) -> None:
    for _opening in range(2):
        business._trouble_for_the_visitor(shelves)
        testing.drain(until=A_WHILE)
        testing.drain(until=RECEIPT_WITHIN)
    letters = [letter for order in Order.objects.all() for letter in list_dead_letters(workflow_of(order))]
    told = sorted((letter.activity, letter.failure_delivered) for letter in letters)
    assert told == [("shop.charge", False)] * business.HELD_PAYMENTS + [("shop.send_receipt", True)]


def test_the_couriers_leave_the_order_that_waits_for_the_visitor(shelves: list[Product], judged: Order) -> None:
    assert not Order.objects.filter(~business.RECEIPT_MISSING, status=OrderStatus.SHIPPED).exists()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def desk(shelves: list[Product], told: list[str], monkeypatch: pytest.MonkeyPatch) -> AtTheDesk:
    """The story's person, with an engine that works whenever the story waits."""

    def work_until(what: str, has_come: object) -> None:
        assert callable(has_come)
        for _round in range(4):
            if has_come():
                return
            testing.drain(until=A_WHILE)
        raise StoryBroken(what)

    monkeypatch.setattr("project.demo.dead_letters.wait_for", work_until)
    desk = AtTheDesk(told.append)
    desk.services_that_die(shelves[:2])
    desk.letters_that_wait()
    return desk


def test_the_acts_print_each_refusal_as_staff_would_read_it(desk: AtTheDesk, told: list[str]) -> None:
    desk.a_payment_that_goes_through_after_all()
    desk.redrives_that_are_refused()
    desk.a_payment_that_is_given_up()
    desk.a_receipt_that_is_forced()
    said = "\n".join(told)
    assert "history_records_outcome\n        The workflow has already recorded how this activity ended" in said
    assert "not_dead_lettered\n        It has finished in the meantime" in said
    assert "row_not_found\n        It is not part of the workflow's current run" in said
    assert "workflow_terminal\n        This workflow has already completed" in said


def test_the_story_breaks_when_a_redrive_is_not_refused(desk: AtTheDesk) -> None:
    desk.lena, desk.lenas_receipt = desk.ken, desk.kens_payment
    with pytest.raises(StoryBroken, match="was not refused"):
        desk.redrives_that_are_refused()


def test_the_story_breaks_when_a_redrive_is_refused_for_another_reason(desk: AtTheDesk) -> None:
    terminate(workflow_of(desk.lena), reason="test")
    with pytest.raises(StoryBroken, match="promised 'history_records_outcome', found 'workflow_terminal'"):
        desk.redrives_that_are_refused()


def test_the_story_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "PATIENCE", timedelta())
    with pytest.raises(StoryBroken, match="for a parcel in vain"):
        telling.wait_for("a parcel", lambda: False)


def workflow_of(order: Order) -> UUID:
    assert order.workflow_id is not None
    return order.workflow_id


def status_of(order: Order) -> str:
    order.refresh_from_db()
    return order.status
