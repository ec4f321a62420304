"""The lease thread: renews the leases of this process's deliveries, from the claim until the
acknowledgement has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import timedelta

from durable.flow.delivery import renew
from durable.metrics import counting, series
from durable.outcomes import Renewal
from durable.worker.handlers.delivery import Conclusion, Delivery
from durable.worker.threads.logs import get_logger, of_claim
from durable.worker.threads.wakeup import Wake

log = get_logger("durable.worker.leases")


class Leases:
    """The deliveries of this process. `beat` is the step of the lease loop; only that thread uses its connection."""

    def __init__(self, *, lease_for: timedelta, idle: Wake) -> None:
        self._lease_for = lease_for
        self._lock = threading.Lock()
        self._held: dict[int, Delivery] = {}
        self._aside: set[Delivery] = set()
        self._idle = idle

    def hold(self, deliveries: Iterable[Delivery]) -> None:
        """Renews these from now on."""
        with self._lock:
            for delivery in deliveries:
                before = self._held.get(delivery.claim.row_id)
                if before is not None:  # another delivery of the same row, lost in the meantime
                    self._aside.discard(before)
                self._held[delivery.claim.row_id] = delivery

    def end(self, delivery: Delivery) -> None:
        """Stops renewing it. A newer delivery of the same row stays."""
        with self._lock:
            if self._held.get(delivery.claim.row_id) is delivery:
                del self._held[delivery.claim.row_id]
            self._aside.discard(delivery)
            empty = len(self._held) == len(self._aside)
        if empty:
            self._idle.ring()

    def set_aside(self, delivery: Delivery) -> None:
        """Keeps renewing it, but no longer counts it as in flight: its handler has ended, and it waits for a lock."""
        with self._lock:
            if self._held.get(delivery.claim.row_id) is delivery:
                self._aside.add(delivery)
        self._idle.ring()

    def count_again(self, delivery: Delivery) -> None:
        """It is in flight again."""
        with self._lock:
            self._aside.discard(delivery)

    def holds(self, delivery: Delivery) -> bool:
        """Whether it is held."""
        with self._lock:
            return self._held.get(delivery.claim.row_id) is delivery

    @property
    def count(self) -> int:
        """How many deliveries are held."""
        with self._lock:
            return len(self._held)

    @property
    def in_flight(self) -> int:
        """How many deliveries are held and do not wait for another session's lock."""
        with self._lock:
            return len(self._held) - len(self._aside)

    @property
    def aside(self) -> int:
        """How many deliveries wait for another session's lock."""
        return len(self._aside)

    def all(self) -> list[Delivery]:
        """The deliveries that are held."""
        with self._lock:
            return list(self._held.values())

    def beat(self) -> float:
        """Renews all in one call, and tells handlers of cancellations and lost leases. Returns the seconds until the
        next beat.
        """
        deliveries = sorted(self.all(), key=lambda delivery: delivery.claim.row_id)
        if deliveries:
            answers = renew.renew([delivery.to_renew for delivery in deliveries], lease_for=self._lease_for)
            for delivery, answer in zip(deliveries, answers, strict=True):
                self._told(delivery, answer)
        return self._lease_for.total_seconds() / 3

    def _told(self, delivery: Delivery, answer: Renewal) -> None:
        match answer:
            case Renewal.CANCEL_REQUESTED:
                delivery.ask_to_stop()
            case Renewal.LOST:
                self._lost(delivery)
            case Renewal.RENEWED | Renewal.BUSY:
                pass  # a busy one is retried at the next beat: two more fit into its lease

    def _lost(self, delivery: Delivery) -> None:
        """Another worker has it, or its workflow has ended. If the acknowledgement is on its way, that decides."""
        if delivery.may_be_committed:
            return
        if delivery.conclude() is Conclusion.FIRST:
            log.warning("lease_lost", **of_claim(delivery.claim))
            counting.add(series.LEASE_LOSSES)
            delivery.leave()
        self.end(delivery)
