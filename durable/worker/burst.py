"""`--burst`: when is everything done that is due now."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from enum import Enum

from durable.flow import look
from durable.worker.acks import Acks
from durable.worker.claims import Claims
from durable.worker.housekeeping import Housekeeping
from durable.worker.leases import Leases

SOON = timedelta(seconds=1)
"""A retry that is due within this is waited for."""


class Quiet(Enum):
    """Whether there is anything left."""

    NOT_YET = "not yet"
    DONE = "done"


class Burst:
    """Asks, from the main thread, whether the worker may go. Reconciles once more before it says so."""

    def __init__(
        self,
        *,
        queues: tuple[str, ...] | None,
        claims: Claims,
        leases: Leases,
        acks: Acks,
        housekeeping: Housekeeping,
        ring: Callable[[], None],
    ) -> None:
        self._queues = queues
        self._claims = claims
        self._leases = leases
        self._acks = acks
        self._housekeeping = housekeeping
        self._ring = ring
        self._reconciled = False

    def look(self) -> Quiet:
        """Look once. Raises what the database raises."""
        made = self._claims.made
        if self._at_work():
            return Quiet.NOT_YET
        due = look.next_due(self._queues)
        if due is not None and due <= SOON:
            self._reconciled = False
            if due <= timedelta():
                self._ring()
            return Quiet.NOT_YET
        # What is being claimed is no longer due and not held yet: only a look between two quiet moments counts.
        if self._at_work() or made != self._claims.made:
            return Quiet.NOT_YET
        if not self._reconciled:
            self._housekeeping.reconcile()
            self._reconciled = True
            return Quiet.NOT_YET
        return Quiet.DONE

    def _at_work(self) -> bool:
        return self._claims.in_claim or self._leases.count > 0 or self._acks.pending > 0
