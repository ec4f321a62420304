"""Timers of a workflow: times counted in microseconds from the start of the run, due at whole milliseconds.

Recorded times are whole milliseconds: a timer that is due between two of them would be recorded before its time.

A timer that is still pending when its activation is idle is durable: the workflow is woken for it. Its identity is the
`seq` of the input event of that activation, and its position (from 1) among the timers that were created there and are
still pending. A timer that is created and cancelled within an activation leaves no trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush

from durable.kernel.loop.handles import NEVER, TimerHandle, TimerId

MICROSECOND = timedelta(microseconds=1)
MILLISECOND = 1_000
FORGIVEN = 1 / 64
"""Fractions of a microsecond that rounding up ignores, since `loop.time() + 0.07` is an inexact float."""


@dataclass(frozen=True, slots=True)
class Timer:
    """A pending timer. Timers fire in the order of (`due`, `id`)."""

    id: TimerId
    due: datetime
    created: datetime


class Timers:
    """The pending timers of one run."""

    __slots__ = ("_born", "_heap", "_pending", "_started_at")

    def __init__(self) -> None:
        self._born: list[TimerHandle] = []
        self._pending: dict[TimerId, TimerHandle] = {}
        self._heap: list[tuple[int, int, int]] = []
        self._started_at = datetime(1970, 1, 1, tzinfo=UTC)

    def __len__(self) -> int:
        return len(self._pending)

    def start(self, at: datetime) -> None:
        """Sets the time from which everything is counted."""
        self._started_at = at

    def since_start(self, at: datetime) -> int:
        """Microseconds from the start of the run to a moment."""
        span = at - self._started_at
        return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds

    def deadline(self, now: int, span: timedelta | float) -> int:
        """The due time of something that starts now: rounded up to a millisecond; `NEVER` for an infinite span.

        Raises `ValueError` for NaN and `OverflowError` for a time beyond the calendar.
        """
        if isinstance(span, timedelta):
            return self._checked(now + span // MICROSECOND)
        if math.isnan(span):
            raise ValueError("A timer cannot wait for NaN seconds.")
        if math.isinf(span):
            return NEVER if span > 0 else now
        return self._checked(now + _rounded_up(span))

    def moment(self, when: float) -> int:
        """The due time for a reading of the loop's clock; refusals and rounding as for `deadline`."""
        return self.deadline(0, when)

    def add(self, handle: TimerHandle) -> None:
        """Registers a timer that was born in this activation."""
        self._born.append(handle)

    def make_durable(self, seq: int) -> None:
        """The activation that began with event `seq` is idle: its surviving timers become durable."""
        if not self._born:
            return
        place = 0
        for handle in self._born:
            if handle.is_cancelled:
                continue
            place += 1
            handle.id = (seq, place)
            self._pending[handle.id] = handle
            if handle.due != NEVER:
                heappush(self._heap, (handle.due, seq, place))
        self._born.clear()

    def cancelled(self, handle: TimerHandle) -> None:
        """A handle was cancelled."""
        if handle.id is not None and self._pending.pop(handle.id, None) is not None:
            self._tidy()

    def pop(self, timer: TimerId) -> TimerHandle | None:
        """The pending timer of this identity, which thereby stops being pending; None if there is none."""
        handle = self._pending.pop(timer, None)
        if handle is not None:
            self._tidy()
        return handle

    def earliest(self) -> Timer | None:
        """The pending timer that is due first, if any."""
        heap = self._heap
        while heap:
            _, seq, place = heap[0]
            handle = self._pending.get((seq, place))
            if handle is not None:
                return self._shown(handle, (seq, place))
            heappop(heap)
        return None

    def __iter__(self) -> Iterator[Timer]:
        waiting = sorted((h.due, timer) for timer, h in self._pending.items() if h.due != NEVER)
        return iter([self._shown(self._pending[timer], timer) for _, timer in waiting])

    def clear(self) -> None:
        """Forgets everything."""
        self._born.clear()
        self._pending.clear()
        self._heap.clear()

    def _shown(self, handle: TimerHandle, timer: TimerId) -> Timer:
        start = self._started_at
        return Timer(timer, start + handle.due * MICROSECOND, start + handle.born * MICROSECOND)

    def _tidy(self) -> None:
        """Cancelled timers stay in the heap until they come up, or until they are most of it."""
        if len(self._heap) > 64 + 2 * len(self._pending):
            self._heap = [(handle.due, *timer) for timer, handle in self._pending.items() if handle.due != NEVER]
            heapify(self._heap)

    def _checked(self, due: int) -> int:
        due = -(-due // MILLISECOND) * MILLISECOND
        try:
            self._started_at + due * MICROSECOND
        except OverflowError:
            raise OverflowError("A timer cannot wait beyond the year 9999. For ever is math.inf.") from None
        return due


def _rounded_up(seconds: float) -> int:
    microseconds = math.ceil(seconds * 1_000_000 - FORGIVEN)
    return max(microseconds, 1) if seconds > 0 else microseconds
