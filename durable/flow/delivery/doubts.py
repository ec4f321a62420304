"""Lines and signals of acknowledgements whose commit has an unknown outcome. Kept in this process until it is known.

All of one transaction share one doubt: they were made together, or not at all. No `atomic` in here.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.outbound import Departure, release
from durable.outcomes import Cancelled, Claim, Completed, Ending
from durable.store.deliveries import made


class Doubt:
    """One commit: what it would have written, and its lines and signals. Thread-safe."""

    def __init__(self, endings: Sequence[Ending], unsaid: Sequence[Departure]) -> None:
        self.endings = list(endings)
        self._unsaid = list(unsaid)
        self._lock = threading.Lock()

    def say(self) -> None:
        """Emits its lines and signals. A second call does nothing."""
        with self._lock:
            unsaid, self._unsaid = self._unsaid, []
        release(unsaid)


MOST = 2_000
"""How many deliveries may be in doubt. Beyond that the oldest are dropped, with their lines and signals."""

_doubts: dict[tuple[int, uuid.UUID], Doubt] = {}
"""By row and token, since the rows of one claim share a token."""


_lock = threading.Lock()
"""Handlers' threads commit, too."""


def keep(endings: Sequence[Ending], unsaid: Sequence[Departure]) -> None:
    """A commit has an unknown outcome. `endings` are those that it would have written, without the late ones."""
    doubt = Doubt(endings, unsaid)
    with _lock:
        _doubts.update(((ending.claim.row_id, ending.claim.token), doubt) for ending in endings)
        while len(_doubts) > MOST:
            del _doubts[next(iter(_doubts))]


def pop(claim: Claim) -> Doubt | None:
    """Takes out the doubt about a delivery; None if there is none."""
    if not _doubts:
        return None
    with _lock:
        return _doubts.pop((claim.row_id, claim.token), None)


def was_made(doubt: Doubt, connection: BaseDatabaseWrapper) -> bool:
    """Whether the rows show what it would have written. The number of the delivery distinguishes it from others:
    whoever takes over has the next number. A cancelled row may have other causes, and proves nothing.
    """
    for ending in doubt.endings:
        claim = ending.claim
        match ending:
            case Cancelled():
                written = 0
            case Completed():
                written = made.done(connection, claim.row_id, delivery=claim.delivery)
            case _:
                written = made.failed(
                    connection, claim.row_id, delivery=claim.delivery, worker=claim.worker, cause=ending.cause
                )
        if written:
            return True
    return False
