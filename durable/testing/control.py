"""Control of the engine's clock and of its cache of workflows, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from durable import clock
from durable.conf import settings
from durable.flow.transactions import transaction
from durable.kernel.replay.cache import Cache

_cold = 0


class Frozen:
    """The frozen clock. As a context manager it restores the clock to its state before `freeze`."""

    def __init__(self, before: datetime | None) -> None:
        self._before = before

    @property
    def now(self) -> datetime:
        """The frozen moment, aware UTC."""
        return clock.host_now()

    def move(self, by: timedelta) -> datetime:
        """As `durable.testing.move`."""
        return move(by)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is None:
            clock.unfreeze()
        else:
            clock.freeze(self._before)


def freeze(at: datetime | None = None) -> Frozen:
    """Stops the engine's clock at an aware datetime (default: now), in this process.

    Takes effect at the call; `with freeze(...):` restores the clock at the end of the block, `unfreeze()` at once.
    Raises `ValueError` for a naive datetime.
    """
    before = clock.host_now() if clock.is_frozen() else None
    clock.freeze(clock.host_now() if at is None else at)
    return Frozen(before)


def move(by: timedelta) -> datetime:
    """Moves the frozen clock forward and returns the new time. Runs nothing: `drain` runs what is due then.

    Raises `ValueError` if the clock is not frozen, and for a negative span.
    """
    if by < timedelta():
        raise ValueError(f"The clock moves forward only, not by {by}.")
    return clock.move(by)


def unfreeze() -> None:
    """Lets the clock run again."""
    clock.unfreeze()


@contextmanager
def still_clock() -> Iterator[None]:
    """Freezes the clock at the database's time for a block, unless a test has already frozen it."""
    if clock.is_frozen():
        yield
    else:
        with clock.frozen(transaction.reading(clock.database_now)):
            yield


def move_to(moment: datetime) -> None:
    """Moves the frozen clock forward to a time; a time in the past changes nothing."""
    clock.freeze(max(moment, clock.host_now()))


@contextmanager
def cold() -> Iterator[None]:
    """Within the block no workflow stays in memory between its turns: each turn replays the whole history first.

    A workflow has to end in the same way with and without it. Raises nothing itself; a workflow that differs is
    blocked.
    """
    global _cold
    _cold += 1
    try:
        yield
    finally:
        _cold -= 1


@contextmanager
def cache() -> Iterator[Cache]:
    """The workflows that one call of `drain` or `run` keeps in memory; none in a `cold()` block. Emptied at the end."""
    kept = Cache(0 if _cold else settings.cached_workflows)
    try:
        yield kept
    finally:
        kept.drop_all()
