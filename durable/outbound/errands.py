"""Emitting without being held up, in the supervisor, which forks and so may keep no thread.

Each departure gets a thread of its own, and is waited for, but not for ever.
"""

from __future__ import annotations

import threading

from django.db import connections

from durable.outbound.departure import Departure
from durable.outbound.departures import depart, guarded, say_lost


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
        """Whether its handler has not returned yet."""
        return self.is_alive()


def go(departure: Departure, seconds: float) -> Errand | None:
    """Emits it and waits for that, with a limit. Returns the errand if it has not ended, else None."""
    errand = Errand(departure)
    try:
        errand.start()
    except (RuntimeError, MemoryError):  # no thread for it: emit it here, however long that takes
        depart(departure)
        return None
    errand.join(seconds)
    if not errand.pending:
        return None
    say_lost({departure.kind: 1}, f"what takes them did not return within {seconds:g} s.")
    return errand
