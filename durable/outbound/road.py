"""The thread that emits a worker's lines and signals, and its bounded queue."""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from django.db import connections

from durable.outbound import errands, floods
from durable.outbound.departure import Departure
from durable.outbound.departures import depart, guarded, is_too_deep, say_lost

CAPACITY = 10_000
"""The size of the queue. When it is full, more is lost and counted, and the count is logged when there is room again.
"""


MOST_HEAVY = 100
"""How many of them may keep an error with its frames. Further errors are kept as text."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Keeps the thread's connections as those of a request: called before and after each departure (with its kind), and
    when there is nothing to do. `overflowed` makes the line that says how much was lost, by kind.
    """

    before: Callable[[], object]
    after: Callable[[str], object]
    idle: Callable[[], object]
    overflowed: Callable[[dict[str, int]], Departure]


class _Road:
    def __init__(self, upkeep: Upkeep) -> None:
        self._upkeep = upkeep
        self._condition = threading.Condition()
        self._queue: deque[Departure] = deque()
        self._heavy = 0
        self._lost: Counter[str] = Counter()
        self._under_way: Departure | None = None
        self._ending = self._ended = False
        self._waits_for_good = False
        self._thread = threading.Thread(target=self._main, name="durable-outbound", daemon=True)
        self._thread.start()

    def accept(self, departure: Departure) -> bool:
        """Queues it, or counts it as lost. False if the thread has ended meanwhile."""
        if departure.is_heavy and self._heavy >= MOST_HEAVY and len(self._queue) < CAPACITY:
            departure.lighten()
        with self._condition:
            if self._ended:
                return False
            if len(self._queue) >= CAPACITY:
                self._lost[departure.kind] += 1
            else:
                self._queue.append(departure)
                self._heavy += departure.is_heavy
                self._condition.notify_all()
            return True

    def remind(self) -> None:
        """There is a summary to emit at its time."""
        if self._waits_for_good:
            with self._condition:
                self._condition.notify_all()

    @property
    def pending(self) -> int:
        with self._condition:
            return len(self._queue) + (self._under_way is not None)

    def close(self, seconds: float) -> dict[str, int]:
        """Emits what is queued, for `seconds` at most, and ends the thread. Returns what could not be
        emitted, by kind.
        """
        with self._condition:
            self._ending = True
            self._condition.notify_all()
        self._thread.join(seconds)
        with self._condition:
            left = Counter(self._lost)
            left.update(departure.kind for departure in self._queue)
            if self._under_way is not None:
                left[self._under_way.kind] += 1
            self._queue.clear()
        return left

    def _main(self) -> None:
        try:
            while self._step():
                pass
        finally:
            guarded(connections.close_all)

    def _step(self) -> bool:
        """Emits one, or waits for one. False at the end, when everything is out."""
        with self._condition:
            departure = self._under_way = self._queue.popleft() if self._queue else None
            self._heavy -= departure is not None and departure.is_heavy
            lost, ending = self._count_lost(), self._ending
        if lost:
            depart(self._upkeep.overflowed(lost))
        for summary in floods.over():
            depart(summary)
        if departure is not None:
            kind = departure.kind
            guarded(self._upkeep.before)
            depart(departure)
            del departure  # an error with its frames must not be kept until the next one comes
            guarded(partial(self._upkeep.after, kind))
            with self._condition:
                self._under_way = None
                self._condition.notify_all()
            return True
        guarded(self._upkeep.idle)
        if ending:
            for summary in floods.rest():
                depart(summary)
        with self._condition:
            self._ended = ending and not self._queue
            if not self._queue and not self._ending:
                seconds = floods.next_over()
                self._waits_for_good = seconds is None
                self._condition.wait(seconds)
                self._waits_for_good = False
            return not self._ended

    def _count_lost(self) -> dict[str, int]:
        if not self._lost or len(self._queue) > CAPACITY // 2:
            return {}
        lost, self._lost = dict(self._lost), Counter()
        return lost


_lock = threading.RLock()
_road: _Road | None = None
_users = 0
_left_behind: _Road | errands.Errand | None = None
"""The departures that had not ended when the wait for them was over: code of the project that does not return."""
_patience: float | None = None
"""Seconds that a departure may take if there is no road; None: no limit."""


def start(upkeep: Upkeep) -> None:
    """Emits lines and signals of this process on the thread, until `stop` was called as often as this."""
    global _road, _users, _left_behind
    with _lock:
        if _road is None:
            _road = _Road(upkeep)  # raises if there is no thread for it: nobody uses it then
            _left_behind = None
        _users += 1


def stop(seconds: float) -> bool:
    """Emits what is queued, for `seconds` at most. Returns whether the thread has ended (or others still use it).

    If it blocks, it is abandoned: the number of lost lines and signals is printed to stderr, and everything sent while
    it still blocks is lost, since it would meet the same lock.
    """
    global _road, _users, _left_behind
    with _lock:
        _users = max(0, _users - 1)  # one stop too many must not stop the next worker's road
        if _users or _road is None:
            return True
        road, _road = _road, None
    left = road.close(seconds)
    say_lost(left, f"the queue was full, or what takes them did not return within {seconds:g} s.")
    if road.pending:
        _left_behind = road
        return False
    return True


def wait_at_most(seconds: float) -> None:
    """From now on, if there is no thread for lines and signals, waits this long for each. Those that are sent while one
    has not returned are lost, and stderr says so. Not inherited by forked processes.
    """
    global _patience
    _patience = seconds


def is_blocked() -> bool:
    """Whether code of the project that handles lines and signals has not returned, and may hold locks."""
    return _left_behind is not None and bool(_left_behind.pending)


def leave(departure: Departure) -> None:
    """Emits it: on the thread if there is one, else here and now."""
    road = _road
    if is_too_deep(departure):
        if floods.admit(("too deep",), None):
            say_lost({departure.kind: 1}, f"log handlers say a line for each line that comes ({departure}).")
        return
    if not departure.is_admitted():
        if road is not None:
            road.remind()
        return
    if road is not None and road.accept(departure):
        return
    for leaving in [*floods.over(), departure]:
        _go(leaving)


def _go(departure: Departure) -> None:
    global _left_behind
    if is_blocked():
        if floods.admit(("blocked", departure.kind), None):
            say_lost({departure.kind: 1}, f"what takes them has not returned yet ({departure}).")
    elif _patience is None:
        depart(departure)
    else:
        _left_behind = errands.go(departure, _patience)


def _begin_anew() -> None:
    """In a forked process: the parent's thread does not exist here, and locks may be held by nobody."""
    global _lock, _road, _users, _left_behind, _patience
    _lock = threading.RLock()
    _road, _users, _left_behind, _patience = None, 0, None, None
    floods.reset()


os.register_at_fork(after_in_child=_begin_anew)
