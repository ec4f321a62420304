"""The values of one process or of several, as plain data that fits into shared memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Key = tuple[str, tuple[str, ...]]
"""The name of a series and the values of its labels."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Values by series and labels. A histogram's are its counts by bucket and, at the end, the sum of seconds.

    `asked` holds what the database said, None if it was not asked here; `asked_at` says when, as Unix time.
    """

    counters: Mapping[Key, float] = field(default_factory=dict)
    histograms: Mapping[Key, list[float]] = field(default_factory=dict)
    gauges: Mapping[Key, float] = field(default_factory=dict)
    asked: Mapping[Key, float] | None = None
    asked_at: float = 0.0

    @property
    def lasting(self) -> Readings:
        """What still counts when the process has ended."""
        return Readings(counters=self.counters, histograms=self.histograms)

    def dumped(self) -> bytes:
        """As bytes, for another process."""
        asked = None if self.asked is None else _pairs(self.asked)
        parts = [_pairs(self.counters), _pairs(self.histograms), _pairs(self.gauges), asked, self.asked_at]
        return json.dumps(parts, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")


def loaded(data: bytes) -> Readings:
    """What `dumped` has written."""
    counters, histograms, gauges, asked, asked_at = json.loads(data)
    return Readings(
        counters=_mapping(counters),
        histograms=_mapping(histograms),
        gauges=_mapping(gauges),
        asked=None if asked is None else _mapping(asked),
        asked_at=asked_at,
    )


def together(parts: Iterable[Readings]) -> Readings:
    """The sum of several. What the database said is not added: the latest counts."""
    counters: dict[Key, float] = {}
    histograms: dict[Key, list[float]] = {}
    gauges: dict[Key, float] = {}
    latest = Readings()
    for part in parts:
        for sums, values in ((counters, part.counters), (gauges, part.gauges)):
            for key, value in values.items():
                sums[key] = sums.get(key, 0.0) + value
        for key, counts in part.histograms.items():
            before = histograms.get(key)
            histograms[key] = list(counts) if before is None else [a + b for a, b in zip(before, counts, strict=True)]
        if part.asked is not None and part.asked_at >= latest.asked_at:
            latest = part
    return Readings(counters, histograms, gauges, latest.asked, latest.asked_at)


def _pairs(values: Mapping[Key, Any]) -> list[tuple[Key, Any]]:
    return list(values.items())


def _mapping(pairs: list[Any]) -> dict[Key, Any]:
    return {(name, tuple(labels)): value for (name, labels), value in pairs}
