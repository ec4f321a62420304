"""Counts what happens in this process, if it was asked to. Until `begin`, each call is one comparison."""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import Final

from durable.metrics.readings import Key, Readings
from durable.metrics.series import ALL, BUCKETS, Kind, Series

MOST_NAMES: Final = 500
"""Values that a label may have in one process. Names of activities are chosen in code, but nobody limits their number;
further ones are counted together, as `OTHER`.
"""

OTHER: Final = "(other)"


class Counters:
    """The counts of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # What has no labels begins at zero, so that its first rise is one.
        self._counters: dict[Key, float] = {
            (series.name, ()): 0.0 for series in ALL if series.kind is Kind.COUNTER and not series.labels
        }
        self._histograms: dict[Key, list[float]] = {}
        self._names: set[str] = set()

    def add(self, series: Series, labels: tuple[str, ...], by: float) -> None:
        """Counts `by` more. The first label is a name, of which there may be many."""
        with self._lock:
            key = (series.name, self._bounded(labels))
            self._counters[key] = self._counters.get(key, 0.0) + by

    def observe(self, series: Series, labels: tuple[str, ...], seconds: float) -> None:
        """Counts one more of this duration."""
        with self._lock:
            key = (series.name, self._bounded(labels))
            # Counts by bucket, and the sum at the end.
            counts = self._histograms.setdefault(key, [0.0] * (len(BUCKETS) + 2))
            counts[bisect_left(BUCKETS, seconds)] += 1
            counts[-1] += seconds

    def read(self) -> Readings:
        """What was counted so far."""
        with self._lock:
            return Readings(
                counters=dict(self._counters), histograms={key: list(each) for key, each in self._histograms.items()}
            )

    def _bounded(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        if not labels or labels[0] in self._names:
            return labels
        if len(self._names) >= MOST_NAMES:
            return (OTHER, *labels[1:])
        self._names.add(labels[0])
        return labels


_counters: Counters | None = None


def begin() -> Counters:
    """From now on this process counts, from zero: also in a forked one, whose parent has counted."""
    global _counters
    _counters = Counters()
    return _counters


def end() -> None:
    """Nothing is counted any more."""
    global _counters
    _counters = None


def add(series: Series, *labels: str, by: float = 1.0) -> None:
    """Counts, if this process does."""
    if _counters is not None:
        _counters.add(series, labels, by)


def observe(series: Series, seconds: float, *labels: str) -> None:
    """Counts a duration, if this process does."""
    if _counters is not None:
        _counters.observe(series, labels, seconds)
