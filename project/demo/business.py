"""The shop as it is open for business: orders come in, couriers come by, until somebody presses Ctrl-C."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.db.models import Q

from durable.errors import WorkflowClosed
from project.demo.children import Children, PortTaken, take_port
from project.shop.models import Card, Order, OrderStatus, Outside, Product
from project.shop.orders import deliver, place_order, stock_the_shelves, switch_off

DEFAULT_PORT = 8000
PORTS_TRIED = 20
ORDER_EVERY = 4.0
"""Seconds between two orders."""

CUSTOMERS = ("Ada", "Barbara", "Edsger", "Grace", "Hedy", "Katherine", "Radia", "Tony")
STAFF = "staff"

HELD_PAYMENTS = 3
VISITOR_HAS = timedelta(days=30)
"""How long the orders that wait for the visitor stay open."""

RECEIPT_MISSING = ~Q(receipt_to="") & Q(receipt_sent_at=None)

TO_TRY = """\
Dead letters to review: {letters}
  Harbour Pay and the mail server are down. In a few seconds you will find there
  {payments} payments whose orders are waiting. Open one: it shows all attempts with their errors.
    Try: Redrive one. It runs again and fails again, since Harbour Pay is still down.
    Try: tick “answers” at {services}, save, and redrive all. The orders go on.
    Try: Discard one. The order ends, and its goods are back on the shelf.
  1 receipt whose order has moved on: it did not wait for the mail.
    Try: Redrive it. It is refused, and the page says why.
    Try: tick “answers” of the mail server, too, and Force redrive it. The customer gets the receipt at last."""

Say = Callable[[str], None]


WITH_CLUSTER = {"DEMO_CLUSTER": "1"}
"""What the settings ask for in the environment."""


def open_shop(*, port: int | None, say: Say, cluster: bool = False) -> None:
    """Migrate, start site and worker, and a cluster for the parcels if asked for; take orders for ever. Raises
    `PortTaken` when an explicit port is not free.
    """
    free_port = _find_port(port, say)
    call_command("migrate", verbosity=0, interactive=False)
    shelves = stock_the_shelves()
    password = _staff_password()
    with Children(log=None, **(WITH_CLUSTER if cluster else {})) as children:
        address = children.start_site(free_port)
        worker = children.start("worker", "runworker")
        say(f"The shop:   {address}")
        say(f"The admin:  {address}admin/   (user {STAFF}, password {password})")
        say(f"The worker: process {worker}. Try: kill -9 {worker}")
        if cluster:
            packers = children.start("cluster", "qcluster")
            say(f"The cluster that packs parcels: process {packers}. Try: kill -9 -{packers}")
        say(f"The data:   {connection.settings_dict['NAME']}")
        _trouble_for_the_visitor(shelves)
        places = {"letters": f"{address}admin/durable/deadletter/", "services": f"{address}admin/shop/service/"}
        say(TO_TRY.format(payments=HELD_PAYMENTS, **places))
        say("Ctrl-C closes the shop.")
        while True:
            _do_business(children, say, shelves)


def _do_business(children: Children, say: Say, shelves: list[Product]) -> None:
    order = place_order(
        random.choice(CUSTOMERS),
        random.sample(shelves, k=random.randint(1, 3)),
        card=Card.REFUSED if random.random() < 0.15 else Card.GOOD,
        courier_has=timedelta(seconds=20),
    )
    say(f"{order} placed.")
    closes = time.monotonic() + ORDER_EVERY
    while time.monotonic() < closes:
        time.sleep(0.5)
        for name, code in children.ended().items():
            again = children.start_again(name)
            say(f"The {name} ended (exit code {code}); process {again} takes over.")
    # An order without its receipt stays, so that there is something to force.
    for shipped in Order.objects.filter(~RECEIPT_MISSING, status=OrderStatus.SHIPPED):
        if random.random() < 0.5:
            _send_courier(shipped)


def _trouble_for_the_visitor(shelves: list[Product]) -> None:
    """Let two services die and customers need them. What an earlier run left waiting is counted."""
    switch_off(Outside.WALLET)
    switch_off(Outside.MAIL)
    held = Order.objects.filter(card=Card.WALLET, status__in=(OrderStatus.PLACED, OrderStatus.RESERVED)).count()
    for name in random.sample(CUSTOMERS, k=max(0, HELD_PAYMENTS - held)):
        place_order(name, random.sample(shelves, k=2), card=Card.WALLET, courier_has=VISITOR_HAS)
    if not Order.objects.filter(RECEIPT_MISSING, status=OrderStatus.SHIPPED).exists():
        name = random.choice(CUSTOMERS)
        place_order(name, shelves[:1], receipt_to=f"{name.lower()}@example.com", courier_has=VISITOR_HAS)


def _send_courier(order: Order) -> None:
    try:
        deliver(order)
    except WorkflowClosed:
        # The order ran out of patience between the query and the signal; the page shows what became of it.
        return


def _find_port(asked: int | None, say: Say) -> int:
    if asked is not None:
        return take_port(asked)
    for port in range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED):
        try:
            return take_port(port)
        except PortTaken:
            say(f"Port {port} is taken by another program; trying the next one.")
    raise PortTaken(DEFAULT_PORT)


def _staff_password() -> str:
    """Give the demo's staff login a new password; answers it."""
    password = secrets.token_urlsafe(9)
    user, _ = get_user_model()._default_manager.get_or_create(
        **{get_user_model().USERNAME_FIELD: STAFF}, defaults={"is_staff": True, "is_superuser": True}
    )
    user.set_password(password)
    user.save()
    return password
