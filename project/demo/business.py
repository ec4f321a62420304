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

from durable.errors import WorkflowClosed
from project.demo.children import Children, PortTaken, take_port
from project.shop.models import Order, OrderStatus, Product
from project.shop.orders import deliver, place_order, stock_the_shelves

DEFAULT_PORT = 8000
PORTS_TRIED = 20
ORDER_EVERY = 4.0
"""Seconds between two orders."""

CUSTOMERS = ("Ada", "Barbara", "Edsger", "Grace", "Hedy", "Katherine", "Radia", "Tony")
STAFF = "staff"

Say = Callable[[str], None]


def open_shop(*, port: int | None, say: Say) -> None:
    """Migrate, start site and worker, take orders for ever. Raises `PortTaken` when an explicit port is not free."""
    found = _find_port(port, say)
    call_command("migrate", verbosity=0, interactive=False)
    shelves = stock_the_shelves()
    password = _staff_password()
    with Children() as children:
        address = children.start_site(found)
        worker = children.start("worker", "runworker")
        say(f"The shop:   {address}")
        say(f"The admin:  {address}admin/   (user {STAFF}, password {password})")
        say(f"The worker: process {worker}. Try: kill -9 {worker}")
        say(f"The data:   {connection.settings_dict['NAME']}")
        say("Ctrl-C closes the shop.")
        while True:
            _do_business(children, say, shelves)


def _do_business(children: Children, say: Say, shelves: list[Product]) -> None:
    order = place_order(
        random.choice(CUSTOMERS),
        random.sample(shelves, k=random.randint(1, 3)),
        card="refused" if random.random() < 0.15 else "good",
        courier_has=timedelta(seconds=20),
    )
    say(f"{order} placed.")
    closes = time.monotonic() + ORDER_EVERY
    while time.monotonic() < closes:
        time.sleep(0.5)
        for name, code in children.ended().items():
            again = children.start_again(name)
            say(f"The {name} ended (exit code {code}); process {again} takes over.")
    for shipped in Order.objects.filter(status=OrderStatus.SHIPPED):
        if random.random() < 0.5:
            _send_courier(shipped)


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
