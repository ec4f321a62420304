"""One claim while it is in this process: who may still decide its outcome, and what its handler can see."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from enum import Enum

from durable import clock
from durable.outcomes import Claim, HeldDelivery


class Start(Enum):
    """What `Delivery.begin` found."""

    GO = "go"
    CANCELLED = "cancelled"
    OVER = "over"


class Conclusion(Enum):
    """Who decided. The first conclusion of a delivery counts; later ones are dropped."""

    FIRST = "first"
    LATE = "late"


def _no_clock() -> int:
    """Where nobody listens."""
    return 0


class Delivery:
    """A claim, its handler's state, and its single conclusion. Thread-safe.

    The conclusions that compete: the handler's own ending, its timeout, a lost lease, and the release at a stop.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.started_at: datetime | None = None
        self.heartbeat: str | None = None
        self.may_be_committed = False
        """The handler has returned and its own commit deletes the item, so a missing token is not a lost lease."""
        self.has_overrun = False
        """It was concluded because its time was over; its handler may still run."""
        self.longest_silence = 0
        """The longest time between two heartbeats so far, in microseconds of the clock of `listen`."""
        self._now: Callable[[], int] = _no_clock
        self._last_beat = 0
        self._lock = threading.Lock()
        self._concluded = False
        self._cancel_requested = False
        self._left = False
        self._interrupt: Callable[[], None] | None = None

    @property
    def to_renew(self) -> HeldDelivery:
        """What a renewal needs to know."""
        return HeldDelivery(self.claim.row_id, self.claim.token, self.heartbeat)

    @property
    def concluded(self) -> bool:
        """Whether it is concluded."""
        return self._concluded

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked this activity to stop."""
        return self._cancel_requested

    @property
    def cancelled(self) -> bool:
        """What the handler sees: it was asked to stop, or nobody waits for its result."""
        return self._cancel_requested or self._left

    def begin(self) -> Start:
        """The handler is about to start. A delivery that is over, or was cancelled while it waited, does not."""
        with self._lock:
            if self._concluded:
                return Start.OVER
            if self._cancel_requested:
                return Start.CANCELLED
            self.started_at = clock.host_now()
            return Start.GO

    def listen(self, now: Callable[[], int]) -> None:
        """Counts the silence from now on. `now` reads a clock in microseconds that never goes back."""
        self._now = now
        self._last_beat = now()

    def beat(self, details: str) -> None:
        """The handler has sent a heartbeat."""
        self.heartbeat = details
        at = self._now()
        self.longest_silence = max(self.longest_silence, at - self._last_beat)
        self._last_beat = at

    def last_beat(self) -> int:
        """When the handler last sent a heartbeat, or began, by the clock of `listen`."""
        return self._last_beat

    def conclude(self) -> Conclusion:
        """Claims the right to decide."""
        with self._lock:
            if self._concluded:
                return Conclusion.LATE
            self._concluded = True
            return Conclusion.FIRST

    def interrupt_with(self, interrupt: Callable[[], None]) -> None:
        """The callback that interrupts the handler (async ones); called now if it was already asked to stop."""
        with self._lock:
            self._interrupt = interrupt
            tell = self.cancelled
        if tell:
            interrupt()

    def ask_to_stop(self) -> None:
        """Cancellation was requested. Idempotent."""
        with self._lock:
            if self._cancel_requested:
                return
            self._cancel_requested = True
            interrupt = self._interrupt
        if interrupt is not None:
            interrupt()

    def leave(self) -> None:
        """Nobody waits for the handler any longer (timeout, lost lease, stop): tells it, and does not wait."""
        with self._lock:
            if self._left:
                return
            self._left = True
            interrupt = self._interrupt
        if interrupt is not None:
            interrupt()
