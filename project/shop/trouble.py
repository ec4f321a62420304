"""What holds an order up: the dead letters of its workflow, in words for customers and for staff."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from durable.models import DeadLetter

if TYPE_CHECKING:
    from project.shop.models import Order

_FOR_CUSTOMERS = {
    "shop.charge": "Waiting for the payment service, which does not answer. Our staff look into it.",
    "shop.send_receipt": "The receipt could not be mailed yet; the parcels do not wait for it.",
}
_FOR_STAFF = {"shop.charge": "payment", "shop.send_receipt": "receipt"}


@dataclass(frozen=True, slots=True)
class Trouble:
    """The dead letter that an order is stuck at, or has gone on without. `judged`: the workflow waits no more."""

    letter: int
    activity: str
    judged: bool

    @property
    def for_customers(self) -> str:
        """One sentence for the shop's page."""
        return _FOR_CUSTOMERS.get(self.activity, "Held up. Our staff look into it.")

    @property
    def for_staff(self) -> str:
        """A few words for the admin."""
        what = _FOR_STAFF.get(self.activity, self.activity)
        return f"{what} failed; the order has moved on" if self.judged else f"{what} failed; the order is waiting"


def held(*, most: int) -> list[UUID]:
    """The workflows of the latest orders that wait for staff."""
    letters = DeadLetter.objects.dead_letters().filter(workflow__type="shop.checkout", failure_delivered=False)
    return list(letters.order_by("-dead_lettered_at", "-id").values_list("workflow_id", flat=True)[:most])


def look(orders: Iterable[Order]) -> None:
    """Set `trouble` on each of the orders, with one query for all. One that is held comes before one that is judged."""
    letters = DeadLetter.objects.dead_letters().filter(workflow_id__in=[order.workflow_id for order in orders])
    troubles: dict[UUID | None, Trouble] = {}
    for letter in letters.only("workflow_id", "activity", "failure_delivered").order_by("failure_delivered", "ordinal"):
        troubles.setdefault(letter.workflow_id, Trouble(letter.pk, letter.activity, judged=letter.failure_delivered))
    for order in orders:
        order.trouble = troubles.get(order.workflow_id)
