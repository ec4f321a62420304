"""The end without grace: a second signal, or SIGQUIT. Deliveries are released first, within two seconds."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

from durable.worker.process.signals import end_now

AT_MOST = 2.0
"""Seconds for releasing. If the database is slower, the rows stay leased until their leases expire."""


class Hurry:
    """Called with the number of a signal, in its handler, after the stop was asked for: cuts the grace of the stop, and
    ends the process when that takes too long. Takes no lock, since the handler may have interrupted the thread that
    holds it.
    """

    def __init__(self, cut_grace: Callable[[], None]) -> None:
        self._cut_grace = cut_grace
        self._number: int | None = None

    def __call__(self, number: int) -> None:
        """Hurries. Later calls change nothing."""
        if self._number is None:
            self._number = number
            signal.signal(signal.SIGALRM, self._time_is_up)
            signal.setitimer(signal.ITIMER_REAL, AT_MOST)
            self._cut_grace()

    def end(self, code: int) -> int:
        """At the end of the worker: its exit code, which is the signal's if there was a hurry."""
        if self._number is None:
            return code
        signal.setitimer(signal.ITIMER_REAL, 0)
        return 128 + self._number

    def _time_is_up(self, number: int, frame: FrameType | None) -> None:
        end_now(self._number or number)
