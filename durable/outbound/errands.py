"""Letting out without being held up, where a thread may not stay: in the supervisor, which forks.

Each departure has a thread of its own, which is waited for, and not for ever.
"""

from __future__ import annotations

import threading

from django.db import connections

from durable.outbound.departures import Departure, depart, guarded, say_lost


class Errand(threading.Thread):
    """One departure on its way."""

    def __init__(self, departure: Departure) -> None:
        super().__init__(name="durable-errand", daemon=True)
        self._departure = departure

    def run(self) -> None:
        depart(self._departure)
        guarded(connections.close_all)

    @property
    def pending(self) -> bool:
        """Whether what takes it has not returned yet."""
        return self.is_alive()


def go(departure: Departure, seconds: float) -> Errand | None:
    """Let it leave, and wait for that so long at most. Returns the errand that has not come back, or None."""
    errand = Errand(departure)
    try:
        errand.start()
    except (RuntimeError, MemoryError):  # no thread for it: it is said here, however long that takes
        depart(departure)
        return None
    errand.join(seconds)
    if not errand.pending:
        return None
    say_lost({departure.kind: 1}, f"what takes them did not return within {seconds:g} s.")
    return errand
