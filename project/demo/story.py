"""The demo as a story that is told once, and checked: every act ends as told, or `StoryBroken` is raised."""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from django.core.management import call_command
from django.db import connection
from django.db.models import F

import durable
from durable.errors import WorkflowClosed
from project.demo.business import WITH_CLUSTER
from project.demo.children import Children, take_port
from project.demo.dead_letters import AtTheDesk
from project.demo.telling import PATIENCE, Say, StoryBroken, expect, wait_for
from project.shop.models import Card, Order, OrderStatus, Payment, Product, Shipment
from project.shop.orders import deliver, place_order, stock_the_shelves

LAST_WORDS = 5_000
"""Characters of the children's log that are shown when the story breaks."""

STOCK = 10


def tell(*, port: int | None, say: Say, cluster: bool = False) -> None:
    """Tell the whole story on a temporary database; with a cluster, it is the one that packs parcels and is killed."""
    with tempfile.TemporaryDirectory(prefix="durable-demo-") as folder:
        before = connection.settings_dict["NAME"]
        connection.close()
        connection.settings_dict["NAME"] = str(Path(folder) / "story.sqlite3")
        try:
            call_command("migrate", verbosity=0, interactive=False)
            # Refusals are told in words below; the engine's warnings of them would only come in between.
            logging.getLogger("durable.flow").setLevel(logging.ERROR)
            log = Path(folder) / "children.log"
            try:
                environment = {"DEMO_DATABASE": connection.settings_dict["NAME"], **(WITH_CLUSTER if cluster else {})}
                with Children(log=log, **environment) as children:
                    _Story(children, say, cluster=cluster).tell(port)
            except BaseException:
                # Whatever ended the story: what the children said last is the first thing that one wants to see.
                say(log.read_text(errors="replace")[-LAST_WORDS:] if log.exists() else "")
                raise
        finally:
            connection.close()
            connection.settings_dict["NAME"] = before


class _Story:
    def __init__(self, children: Children, say: Say, *, cluster: bool) -> None:
        self.children = children
        self.say = say
        self.packer, self.command = ("cluster", "qcluster") if cluster else ("worker", "runworker")
        self.tea, self.teapot, self.cup, self.honey = stock_the_shelves(STOCK)

    def tell(self, port: int | None) -> None:
        address = self.children.start_site(take_port(port or 0))
        # Packing takes this one long enough to be killed while it packs.
        slowly = {"DEMO_PACKING_SECONDS": "1"}
        first = self.children.start(f"{self.packer} A", self.command, environment=slowly)
        self.say(f"1. The shop answers on {address}, and {self.packer} A is process {first}.")
        if self.packer == "cluster":
            sender = self.children.start("worker", "runworker")
            self.say(f"   Worker {sender} does everything else, and sends it the parcels.")
        desk = AtTheDesk(self.say)
        desk.services_that_die([self.tea, self.cup])
        self.an_order_that_goes_well()
        self.a_card_that_is_refused()
        self.a_courier_who_is_late()
        self.an_address_that_does_not_exist()
        self.shelves_that_are_empty()
        self.a_worker_that_is_killed()
        desk.letters_that_wait()
        desk.a_payment_that_goes_through_after_all()
        desk.redrives_that_are_refused()
        desk.a_payment_that_is_given_up()
        desk.a_receipt_that_is_forced()
        desk.orders_that_end(self._ends)
        self.say(self.the_books())

    def an_order_that_goes_well(self) -> None:
        order = place_order("Ada", [self.tea, self.cup])
        deliver(order)
        self._ends(order, OrderStatus.DELIVERED)
        self.say(f"3. {order}: reserved, paid, shipped as two parcels, delivered.")

    def a_card_that_is_refused(self) -> None:
        order = place_order("Bob", [self.teapot], card=Card.REFUSED)
        self._ends(order, OrderStatus.REFUSED)
        expect("teapots on the shelf", self._stock(self.teapot), STOCK)
        self.say(f"4. {order}: the bank refused the card; the teapot is back on the shelf.")

    def a_courier_who_is_late(self) -> None:
        order = place_order("Carol", [self.tea], courier_has=timedelta(seconds=1))
        self._ends(order, OrderStatus.REFUNDED)
        try:
            deliver(order)
        except WorkflowClosed:
            self.say(f"5. {order}: no courier within a second, refunded; the late courier was turned away.")
        else:
            raise StoryBroken("A courier delivered an order that had been refunded.")

    def an_address_that_does_not_exist(self) -> None:
        order = place_order("Dan", [self.honey], address="nowhere")
        self._ends(order, OrderStatus.REFUNDED)
        self.say(f"6. {order}: paid, but the parcel service knows no such address; refunded.")

    def shelves_that_are_empty(self) -> None:
        Product.objects.filter(pk=self.honey.pk).update(stock=0)
        cups = self._stock(self.cup)
        order = place_order("Eve", [self.cup, self.honey])
        self._ends(order, OrderStatus.SOLD_OUT)
        expect("cups on the shelf", self._stock(self.cup), cups)
        Product.objects.filter(pk=self.honey.pk).update(stock=STOCK)
        self.say(f"7. {order}: no honey left, so nothing was reserved and nothing was paid.")

    def a_worker_that_is_killed(self) -> None:
        orders = [place_order(name, [self.tea, self.cup]) for name in ("Faye", "Grace", "Heidi", "Ivan")]
        table = Shipment.objects.filter(line__order__in=orders, sent=False)
        wait_for("two parcels on the packing table", lambda: table.count() > 1)
        self.children.kill(f"{self.packer} A")
        half_packed = Shipment.objects.filter(sent=False).count()
        self.say(f"8. {self.packer.title()} A was killed (SIGKILL) with {half_packed} parcels half packed.")
        second = self.children.start(f"{self.packer} B", self.command)
        for order in orders:
            deliver(order)
        for order in orders:
            self._ends(order, OrderStatus.DELIVERED)
        again = Shipment.objects.filter(packed_times__gt=1).count()
        expect("half packed parcels that were packed again", again >= half_packed > 0, True)
        self.say(
            f"9. {self.packer.title()} B (process {second}) packed {again} parcels again and finished orders "
            f"{orders[0].pk} to {orders[-1].pk}."
        )

    def the_books(self) -> str:
        ended = Counter(Order.objects.values_list("status", flat=True))
        paid = list(Payment.objects.values_list("order_id", flat=True))
        expect("orders that were paid twice", len(paid) - len(set(paid)), 0)
        expect("parcels left on the packing table", Shipment.objects.filter(sent=False).count(), 0)
        kept = {payment.order_id for payment in Payment.objects.filter(refunded=Decimal(0))}
        delivered = set(Order.objects.filter(status=OrderStatus.DELIVERED).values_list("pk", flat=True))
        expect("orders whose money the shop kept", kept, delivered)
        given_back = Payment.objects.filter(refunded=F("amount")).count()
        expect("refunds", given_back, ended[OrderStatus.REFUNDED])
        sold = 2 * STOCK - self._stock(self.tea) - self._stock(self.cup)
        expect("cups and teas that left the shelves", sold, 2 * len(delivered))
        return (
            f"{ended.total()} orders: {ended[OrderStatus.DELIVERED]} delivered, "
            f"{ended[OrderStatus.REFUNDED]} refunded, "
            f"{ended[OrderStatus.REFUSED]} refused, {ended[OrderStatus.SOLD_OUT]} sold out, "
            f"{ended[OrderStatus.CANCELLED]} cancelled; 1 {self.packer} killed, {len(paid)} payments, none twice."
        )

    def _ends(self, order: Order, status: OrderStatus) -> None:
        """Wait for the order's workflow, and see that both it and the order ended as told."""
        if order.workflow_id is None:
            raise StoryBroken(f"{order} has no workflow.")
        result = durable.get_workflow(order.workflow_id).result(timeout=PATIENCE)
        order.refresh_from_db()
        expect(f"the end of {order}", (result, order.status), (status.value, status.value))

    def _stock(self, product: Product) -> int:
        return Product.objects.get(pk=product.pk).stock
