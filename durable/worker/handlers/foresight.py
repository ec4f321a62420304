"""How many deliveries to hold beyond those that run: large batches save transactions, but may starve other workers."""

from __future__ import annotations

import threading

HORIZON = 0.1
"""Seconds within which deliveries that are claimed ahead should begin, at the pace of the last handlers."""

MOST = 100

_FORGETS = 1 / 32


class Foresight:
    """Learns how long handlers take, and decides how many deliveries may wait in addition to `slots` running ones.

    A handler that takes longer than expected counts at once, quick ones make up for it slowly. Nothing is claimed ahead
    before the first handler has ended, nor for handlers that take longer than the horizon in all slots.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._expected: float | None = None
        self._lock = threading.Lock()

    def ended_after(self, seconds: float) -> None:
        """A handler has run for so long."""
        with self._lock:
            if self._expected is None or seconds > HORIZON:
                self._expected = seconds
            else:
                self._expected += (seconds - self._expected) * _FORGETS

    @property
    def ahead(self) -> int:
        """How many deliveries may wait, now."""
        expected = self._expected
        if expected is None:
            return 0
        return min(MOST, int(self._slots * HORIZON / max(expected, 1e-6)))
