"""Lines and signals of acknowledgements whose commit has an unknown outcome. Kept in this process until it is known.

All of one transaction share one doubt: they were made together, or not at all. No `atomic` in here.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.db import Error as DjangoDatabaseError
from django.db import InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.transactions.commits import Commit
from durable.outbound import Departure, release
from durable.outcomes import Cancelled, Claim, Completed, Ending
from durable.store.deliveries import made


class Written(Commit[Any]):
    """One commit of acknowledgements: what it would have written, and its lines and signals. `say` is thread-safe."""

    def __init__(self) -> None:
        self.endings: list[Ending] = []
        super().__init__(partial(_written, self.endings))  # no cycle: results may be large
        self._unsaid: list[Departure] = []
        self._guard = threading.Lock()

    def wrote(self, endings: Sequence[Ending]) -> None:
        """The transaction has written these, without the late ones."""
        self.endings[:] = endings
        if self.endings:
            self.sent()

    def keep(self, unsaid: Sequence[Departure]) -> None:
        """Keeps its lines and signals if it is in doubt."""
        if self.in_doubt:
            self._unsaid = list(unsaid)

    def say(self) -> None:
        """Emits its lines and signals. A second call does nothing."""
        with self._guard:
            unsaid, self._unsaid = self._unsaid, []
        release(unsaid)


MOST = 2_000
"""How many deliveries may be in doubt. Beyond that the oldest are dropped, with their lines and signals."""

_doubts: dict[tuple[int, uuid.UUID], Written] = {}
"""By row and token, since the rows of one claim share a token."""


_lock = threading.Lock()
"""Handlers' threads commit, too."""


@contextmanager
def kept(commit: Written) -> Iterator[None]:
    """Keeps the doubt if the block fails with a database error after everything was written."""
    try:
        yield
    except (DjangoDatabaseError, InterfaceError):
        if commit.in_doubt:
            keep(commit)
        raise


def keep(commit: Written) -> None:
    """A commit has an unknown outcome: `was_made` of `acknowledge` may ask for its deliveries."""
    with _lock:
        _doubts.update(((ending.claim.row_id, ending.claim.token), commit) for ending in commit.endings)
        while len(_doubts) > MOST:
            del _doubts[next(iter(_doubts))]


def pop(claim: Claim) -> Written | None:
    """Takes out the doubt about a delivery; None if there is none."""
    if not _doubts:
        return None
    with _lock:
        return _doubts.pop((claim.row_id, claim.token), None)


def _written(endings: Sequence[Ending], connection: BaseDatabaseWrapper) -> Sequence[Ending] | None:
    """These endings, if the rows show one of them. The number of the delivery distinguishes it from others: whoever
    takes over has the next number. A cancelled row may have other causes, and proves nothing.
    """
    return endings if any(_is_written(connection, ending) for ending in endings) else None


def _is_written(connection: BaseDatabaseWrapper, ending: Ending) -> bool:
    claim = ending.claim
    match ending:
        case Cancelled():
            return False
        case Completed():
            return made.done(connection, claim.row_id, delivery=claim.delivery) > 0
        case _:
            failures = made.failed(
                connection, claim.row_id, delivery=claim.delivery, worker=claim.worker, cause=ending.cause
            )
            return failures > 0
