"""The acts about dead letters: two services die, and what staff can and can not do about the work that is stranded."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

import durable
from durable.admin.words import refusals, wording
from durable.errors import (
    HistoryRecordsOutcome,
    NotDeadLettered,
    RedriveRefused,
    RowNotFound,
    WorkflowTerminal,
)
from durable.models import FailedAttempt
from durable.operations import RedriveMode, discard, list_dead_letters, redrive
from project.demo.telling import Say, StoryBroken, expect, wait_for
from project.shop.models import Card, Order, OrderStatus, Outside, Payment, Product
from project.shop.orders import deliver, place_order, switch_off, switch_on

STAFF = "Olga"
NO_SUCH_ACTIVITY = 99
COURIER_HAS = timedelta(minutes=10)
"""These orders stay open through all acts."""


class AtTheDesk:
    """Three orders that need services which are down, and the person who looks after them."""

    def __init__(self, say: Say) -> None:
        self.say = say

    def services_that_die(self, products: list[Product]) -> None:
        switch_off(Outside.WALLET)
        switch_off(Outside.MAIL)
        self.judy = place_order("Judy", products, card=Card.WALLET, courier_has=COURIER_HAS)
        self.ken = place_order("Ken", products, card=Card.WALLET, courier_has=COURIER_HAS)
        self.lena = place_order("Lena", products, receipt_to="lena@example.com", courier_has=COURIER_HAS)
        self.say(
            f"2. Harbour Pay and the mail server are down. {self.judy} and {self.ken} pay with Harbour Pay, "
            f"{self.lena} wants a receipt; more of them at 10."
        )

    def letters_that_wait(self) -> None:
        self.say("10. Meanwhile the attempts are spent. The admin now lists, under Dead letters:")
        self.judys_payment = self._letter(self.judy, "shop.charge", judged=False)
        self.kens_payment = self._letter(self.ken, "shop.charge", judged=False)
        self.lenas_receipt = self._letter(self.lena, "shop.send_receipt", judged=True)
        self._comes_to(self.lena, OrderStatus.SHIPPED)

    def a_payment_that_goes_through_after_all(self) -> None:
        switch_on(Outside.WALLET)
        switch_on(Outside.MAIL)
        done = redrive(_workflow(self.judy), self.judys_payment, actor=STAFF, reason="Harbour Pay is back")
        expect("whether the workflow had been told of the redriven payment", done.was_judged, False)
        self._comes_to(self.judy, OrderStatus.SHIPPED)
        expect("payments of the redriven order", Payment.objects.filter(order=self.judy).count(), 1)
        self.say(f"11. Both are back. {STAFF} redrives the payment of {self.judy}: paid once, and shipped.")

    def redrives_that_are_refused(self) -> None:
        self.say(f"12. What {STAFF} tries next is refused, and she reads why:")
        forced = RedriveMode.FORCED
        self._refused(HistoryRecordsOutcome, "Redrive the receipt", self.lena, self.lenas_receipt)
        self._refused(NotDeadLettered, "Force the payment that went through", self.judy, self.judys_payment, forced)
        self._refused(RowNotFound, f"Redrive activity {NO_SUCH_ACTIVITY}", self.judy, NO_SUCH_ACTIVITY)
        expect("payments after the refusals", Payment.objects.filter(order=self.judy).count(), 1)

    def a_payment_that_is_given_up(self) -> None:
        discard(_workflow(self.ken), self.kens_payment, reason="Ken has changed his mind", actor=STAFF)
        self._comes_to(self.ken, OrderStatus.CANCELLED)
        self.say(f"13. {STAFF} discards the payment of {self.ken}: the order ends, its goods are back on the shelf.")
        self._has_ended(self.ken)
        forced = RedriveMode.FORCED
        self._refused(WorkflowTerminal, "Force it all the same", self.ken, self.kens_payment, forced)
        expect("payments of the order that was given up", Payment.objects.filter(order=self.ken).count(), 0)

    def a_receipt_that_is_forced(self) -> None:
        reason = "the customer asked for it"
        done = redrive(_workflow(self.lena), self.lenas_receipt, mode=RedriveMode.FORCED, actor=STAFF, reason=reason)
        expect("whether the workflow had ended the forced receipt", done.was_judged, True)
        unsent = Order.objects.filter(pk=self.lena.pk, receipt_sent_at=None)
        wait_for("the receipt", lambda: not unsent.exists())
        self.say(f"14. {STAFF} forces the receipt of {self.lena} ({reason}): it is mailed; the order stays as it was.")

    def orders_that_end(self, ends: Callable[[Order, OrderStatus], None]) -> None:
        for order in (self.judy, self.lena):
            deliver(order)
            ends(order, OrderStatus.DELIVERED)
            expect(f"dead letters left at {order}", len(list_dead_letters(_workflow(order))), 0)
        ends(self.ken, OrderStatus.CANCELLED)

    def _letter(self, order: Order, activity: str, *, judged: bool) -> int:
        """Wait for the order's dead letter and tell of it; answers its ordinal."""
        workflow = _workflow(order)
        wait_for(
            f"the dead letter of {order}",
            lambda: [letter.failure_delivered for letter in list_dead_letters(workflow)] == [judged],
        )
        (letter,) = list_dead_letters(workflow)
        expect(f"the activity that {order} is stuck at", letter.activity, activity)
        errors = [
            attempt.error["message"].rstrip(".")
            for attempt in FailedAttempt.objects.filter(outbox_row=letter.id).order_by("number")
            if attempt.error
        ]
        expect(f"errors kept of {order}", len(errors), letter.attempts)
        stands = "the order has moved on without it" if judged else "the order is waiting"
        self.say(f"    {activity} of {order}: {wording.cause(letter.cause).lower()} ({'; '.join(errors)}); {stands}")
        return letter.ordinal

    def _refused(
        self,
        refused_as: type[RedriveRefused],
        attempted: str,
        order: Order,
        ordinal: int,
        mode: RedriveMode = RedriveMode.ELIGIBLE,
    ) -> None:
        """Try a redrive and print its refusal as the admin words it. Raises `StoryBroken` when it is not the one."""
        try:
            redrive(_workflow(order), ordinal, mode=mode, actor=STAFF, reason="trying it out")
        except RedriveRefused as refusal:
            expect(f"the refusal of “{attempted}”", refusal.code, refused_as.code)
            words = refusals.of(refusal)
            self.say(f"    {attempted} ({order}): refused, {refusal.code}\n        {words.why}\n        {words.next}")
        else:
            raise StoryBroken(f"“{attempted}” at {order} was not refused.")

    def _comes_to(self, order: Order, status: OrderStatus) -> None:
        wait_for(f"{order} to be {status.label}", Order.objects.filter(pk=order.pk, status=status).exists)

    def _has_ended(self, order: Order) -> None:
        handle = durable.get_workflow(_workflow(order))
        wait_for(f"the end of {order}", lambda: handle.status().is_terminal)


def _workflow(order: Order) -> uuid.UUID:
    if order.workflow_id is None:
        raise StoryBroken(f"{order} has no workflow.")
    return order.workflow_id
