"""Whether this host's clock has been set, or the host has been suspended, while a worker was running."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from durable import clock
from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.hostclock")

NOTICED = 1.0
"""Seconds. Corrections of a clock that NTP keeps right are smaller."""


class HostClock:
    """For SQLite, where leases end by this host's clock.

    When it jumps forward, or the whole machine was suspended, all leases expire at once, those of running handlers
    included. Every live worker of the host renews its own within a third of `LEASE_FOR`, so expired leases are ignored
    until `LEASE_FOR` has passed.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._apart = self._distance()
        self._judge_at = 0.0

    def leases_can_be_judged(self, lease_for: timedelta) -> bool:
        """Whether an expired lease means that its worker is dead."""
        if clock.is_frozen():  # a test moves it
            return True
        now, apart = self._monotonic(), self._distance()
        step, self._apart = apart - self._apart, apart
        if abs(step) > NOTICED:
            log.warning("host_clock_stepped", seconds=round(step, 1))
        if step > NOTICED:
            self._judge_at = now + lease_for.total_seconds()
        return now >= self._judge_at

    def _distance(self) -> float:
        return clock.host_now().timestamp() - self._monotonic()
