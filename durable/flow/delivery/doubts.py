"""What acknowledgements had to say whose commit did not tell how it went. Kept in this process until that is known.

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
    """One commit: what it would have written, and the lines and signals that speak of it. Safe from any thread."""

    def __init__(self, endings: Sequence[Ending], unsaid: Sequence[Departure]) -> None:
        self.endings = list(endings)
        self._unsaid = list(unsaid)
        self._lock = threading.Lock()

    def say(self) -> None:
        """Let its lines and signals leave. Again is nothing."""
        with self._lock:
            unsaid, self._unsaid = self._unsaid, []
        release(unsaid)


MOST = 2_000
"""So many deliveries may be in doubt; the oldest ones are forgotten first, and what they had to say with them."""

_doubts: dict[tuple[int, uuid.UUID], Doubt] = {}
"""By row and token, which a batch of claims has in common."""


_lock = threading.Lock()
"""Handlers' threads commit, too."""


def keep(endings: Sequence[Ending], unsaid: Sequence[Departure]) -> None:
    """A commit did not say how it went. `endings` are those that it would have written, without the late ones."""
    doubt = Doubt(endings, unsaid)
    with _lock:
        _doubts.update(((ending.claim.row_id, ending.claim.token), doubt) for ending in endings)
        while len(_doubts) > MOST:
            del _doubts[next(iter(_doubts))]


def take(claim: Claim) -> Doubt | None:
    """The doubt about a delivery, which is nobody else's from now on; None where there is none."""
    if not _doubts:
        return None
    with _lock:
        return _doubts.pop((claim.row_id, claim.token), None)


def was_made(doubt: Doubt, connection: BaseDatabaseWrapper) -> bool:
    """Whether what it would have written is there. The number of the delivery tells it from what others write: whoever
    takes over has the next one. A cancelled row may be anybody's, and proves nothing.
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
