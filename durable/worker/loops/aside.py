"""Outcomes that wait for another session's lock: probed together, a few times a second, without waiting.

Waiting for a lock is not a failed attempt (ADR 016): the result is kept, its lease is renewed, and nothing runs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.execute import Outcome

LOOK_EVERY = timedelta(milliseconds=250)

PATIENCE = timedelta(hours=1)
"""How long an outcome waits for a lock before it is given up and its lease expires."""

LAST_PATIENCE = timedelta(seconds=3)
"""The same once the worker is stopping, counted from then: less than the time for the last releases."""

_US = timedelta(microseconds=1)


@dataclass(slots=True)
class Pending:
    """The outcome of a delivery on its way into the database. Times are in microseconds."""

    delivery: Delivery
    outcome: Outcome
    tries: int = 0
    locked_since: int | None = None


class LockWait(Enum):
    """What happens to an outcome that is still locked."""

    GOES_ON = "goes on"
    SPENT = "spent"
    CUT_BY_STOP = "cut short by the stop of the worker"


class Aside:
    """Holds what waits for locks. Used by one thread; `count` is for any."""

    def __init__(self) -> None:
        self._waiting: list[Pending] = []
        self._next_look = 0
        self._stops_at: int | None = None

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def stop(self, now: int) -> None:
        """The worker is stopping: wait for less time."""
        if self._stops_at is None:
            self._stops_at = now + LAST_PATIENCE // _US

    def put(self, items: Sequence[Pending], now: int) -> None:
        """Lets these wait until the next look."""
        if not self._waiting:
            self._next_look = now + LOOK_EVERY // _US
        for item in items:
            if item.locked_since is None:
                item.locked_since = now
        self._waiting += items

    def wait(self, now: int) -> int | None:
        """Microseconds until the next look is due; None when nothing waits."""
        return max(0, self._next_look - now) if self._waiting else None

    def pop_all(self) -> list[Pending]:
        """All that wait, to be looked at now."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def lock_wait(self, item: Pending, now: int) -> LockWait:
        """Whether something that is still locked may go on waiting."""
        if item.locked_since is not None and now - item.locked_since >= PATIENCE // _US:
            return LockWait.SPENT
        if self._stops_at is not None and now >= self._stops_at:
            return LockWait.CUT_BY_STOP
        return LockWait.GOES_ON
