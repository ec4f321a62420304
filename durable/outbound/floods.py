"""Rate limits: at most `MOST` departures per key in `SPAN` seconds, then one that says how many more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from durable.outbound.departure import Departure

MOST = 20
SPAN = 60.0
_KEYS = 1_000
"""So many keys are remembered before those whose time is over are forgotten."""

Summary = Callable[[int], Departure]

monotonic = time.monotonic
"""Replaced in tests."""


@dataclass(slots=True)
class _Window:
    began: float
    passed: int = 0
    more: int = 0
    summary: Summary | None = None


_lock = threading.RLock()
_windows: dict[Hashable, _Window] = {}
_counting: dict[Hashable, _Window] = {}
"""Those that have a summary to emit."""
_due: list[Departure] = []
_room = _KEYS
"""How many keys there may be before expired ones are removed: twice as many as were left last time."""


def admit(key: Hashable, summary: Summary | None) -> bool:
    """Whether one more with this key may be emitted now. `summary` makes the departure that says, after the minute, how
    many were left out; None: there is none.
    """
    now = monotonic()
    with _lock:
        window = _windows.get(key)
        if window is None or now - window.began >= SPAN:
            _sum_up(key)
            if len(_windows) >= _room:
                _forget_old(now)
            window = _windows[key] = _Window(now)
        if window.passed < MOST:
            window.passed += 1
            return True
        window.more += 1
        window.summary = summary
        _counting[key] = window
        return False


def over() -> list[Departure]:
    """The summaries whose minute is over. Each is given once."""
    if not _counting and not _due:
        return []
    now = monotonic()
    with _lock:
        for key in [key for key, window in _counting.items() if now - window.began >= SPAN]:
            _sum_up(key)
            del _windows[key]
        summaries, _due[:] = list(_due), []
    return summaries


def rest() -> list[Departure]:
    """All summaries, even of minutes that are not over, since the process is ending."""
    with _lock:
        for key in list(_counting):
            _sum_up(key)
            _windows.pop(key, None)
        summaries, _due[:] = list(_due), []
    return summaries


def next_over() -> float | None:
    """Seconds until the next summary is due, or None when there is none."""
    with _lock:
        if _due:
            return 0.0
        first = min((window.began for window in _counting.values()), default=None)
    return None if first is None else max(0.0, first + SPAN - monotonic())


def reset() -> None:
    """Resets everything: in a forked process, and in tests."""
    global _lock, _room
    _lock, _room = threading.RLock(), _KEYS
    _windows.clear()
    _counting.clear()
    _due.clear()


def _sum_up(key: Hashable) -> None:
    window = _counting.pop(key, None)
    if window is not None and window.summary is not None:
        _due.append(window.summary(window.more))


def _forget_old(now: float) -> None:
    global _room
    for key in [key for key, window in _windows.items() if now - window.began >= SPAN]:
        _sum_up(key)
        del _windows[key]
    _room = max(_KEYS, 2 * len(_windows))
