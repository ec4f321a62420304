"""`--burst`: decides when everything that is due now is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from enum import Enum

from durable.conf import settings
from durable.flow.looks import look, probe
from durable.worker.loops.acks import Acks
from durable.worker.loops.claims import Claims
from durable.worker.loops.housekeeping import Housekeeping
from durable.worker.loops.leases import Leases
from durable.worker.loops.turns import Turns
from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.burst")

SOON = timedelta(seconds=1)
"""A retry that is due within this is waited for."""


LOCKED_FOR = 10.0
"""Seconds after which a burst gives up if everything that is left is locked by other sessions."""

SAID_AFTER = 2.0
"""Seconds after which it says what it waits for."""

LOCK_LOOK = 0.25
"""Seconds between two looks for locks."""


class Quiet(Enum):
    """Whether any work is left."""

    NOT_YET = "not yet"
    DONE = "done"
    LOCKED = "only what another session has locked"
    LEASED = "only deliveries of this worker that it could neither acknowledge nor give back"


class Burst:
    """Decides, on the main thread, whether the worker may exit. Reconciles once more before that."""

    def __init__(
        self,
        *,
        queues: tuple[str, ...] | None,
        claims: Claims,
        leases: Leases,
        acks: Acks,
        housekeeping: Housekeeping,
        ring: Callable[[], None],
        turns: Turns,
    ) -> None:
        self._turns = turns
        self._locks = _Locks()
        self._queues = queues
        self._sent = tuple(settings.sent_queues)
        self._claims = claims
        self._leases = leases
        self._acks = acks
        self._housekeeping = housekeeping
        self._ring = ring
        self._reconciled = False

    def look(self) -> Quiet:
        """Looks once. Raises what the database raises."""
        made = self._claims.made
        if self._at_work():
            if not self._claims.in_claim:
                self._locks = _Locks()
            return Quiet.NOT_YET
        due = look.next_due(self._queues, but=self._sent)
        if due is not None and due <= SOON:
            self._reconciled = False
            if due <= timedelta():
                self._ring()
                return self._beside_locks(is_due=True)
            return Quiet.NOT_YET
        # Rows that are being claimed are no longer due and not held yet: only a look between two quiet moments counts.
        if self._at_work() or made != self._claims.made:
            return Quiet.NOT_YET
        if not self._reconciled:
            self._housekeeping.reconcile()
            self._reconciled = True
            return Quiet.NOT_YET
        return self._beside_locks(is_due=False) if self._acks.locked else self._done()

    def _done(self) -> Quiet:
        if left := self._acks.left_to_leases:
            log.error("burst_left_leases", deliveries=left)
            return Quiet.LEASED
        return Quiet.DONE

    def _at_work(self) -> bool:
        return self._claims.in_claim or self._leases.in_flight > 0 or self._acks.at_work

    def _beside_locks(self, *, is_due: bool) -> Quiet:
        """Nothing is running here, and something is left. Returns whether it has been locked for too long."""
        if not self._locks.is_time:
            return Quiet.NOT_YET
        left = probe.DueNow(0, 0)
        if is_due:
            left = probe.due(self._queues, passed_over=self._turns.passed_over, but=self._sent)
        results = self._acks.locked
        if left.free or not (left.locked or results):
            self._locks = _Locks()
            return Quiet.NOT_YET
        return self._locks.seen(left, results)


class _Locks:
    """How long locks have been the only obstacle."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since: float | None = None
        self._looked_at = 0.0
        self._said = False

    @property
    def is_time(self) -> bool:
        """Whether the last look is long enough ago for the next one."""
        now = self._now()
        if now - self._looked_at < LOCK_LOOK:
            return False
        self._looked_at = now
        return True

    def seen(self, left: probe.DueNow, results: int) -> Quiet:
        """Another look has found only locks. Logs it once, and at the end."""
        now = self._now()
        if self._since is None:
            self._since = now
        waited = now - self._since
        fields = {"due": left.locked, "results": results, "first": list(left.first), "waited": round(waited, 1)}
        if waited >= LOCKED_FOR:
            log.error("burst_left_what_is_locked", **fields)
            return Quiet.LOCKED
        if waited >= SAID_AFTER and not self._said:
            self._said = True
            log.warning("burst_waits_for_locks", gives_up_after=LOCKED_FOR, **fields)
        return Quiet.NOT_YET
