"""Whether a process has stopped growing, judged by samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

MOST_GROWTH = 5.0
"""MiB between the second fifth of the looks and the last one. Allocators take and give back within two or so."""

FIFTHS = 5
"""The first is the warm-up: threads, connections and caches come to their full number."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look, `at` seconds after the beginning."""

    at: float
    mib: float
    connections: int


@dataclass(slots=True)
class Course:
    """All looks at one worker, and how many activities it has done in the end."""

    worker: str
    samples: list[Sample] = field(default_factory=list)
    done: int = 0

    def now(self) -> str:
        """The last look, for people."""
        if not self.samples:
            return f"{self.worker} not seen yet"
        last = self.samples[-1]
        return f"{self.worker} {last.mib:.1f} MiB, {last.connections} connections"


@dataclass(frozen=True, slots=True)
class CourseReport:
    """What a course shows. `faults` says in words why it is not flat; none when it is."""

    worker: str
    done: int
    begun_mib: float
    warm_mib: float
    end_mib: float
    most_mib: float
    connections: Sequence[int]
    faults: Sequence[str]

    @property
    def growth(self) -> float:
        """MiB from the second fifth to the last, by their medians."""
        return self.end_mib - self.warm_mib

    def as_data(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "worker": self.worker,
            "done": self.done,
            "mib": {
                "at first": round(self.begun_mib, 2),
                "second fifth": round(self.warm_mib, 2),
                "last fifth": round(self.end_mib, 2),
                "growth": round(self.growth, 2),
                "most": round(self.most_mib, 2),
            },
            "connections": list(self.connections),
            "faults": list(self.faults),
        }


def judge(course: Course, *, most_growth: float = MOST_GROWTH) -> CourseReport:
    """Judges a course of at least five looks, which lie at an even pace."""
    fifth = len(course.samples) // FIFTHS
    warm, last = course.samples[fifth : 2 * fifth], course.samples[-fifth:]
    after = [sample.connections for sample in course.samples[fifth:]]
    warm_mib, end_mib = median(s.mib for s in warm), median(s.mib for s in last)
    seen = sorted(set(after))
    faults = []
    if end_mib - warm_mib > most_growth:
        faults.append(f"memory grew by {end_mib - warm_mib:.1f} MiB, more than {most_growth:g}")
    if len(seen) > 1:
        faults.append(f"connections were not constant: {seen[0]} to {seen[-1]}")
    if seen == [0]:
        faults.append("no connection was seen")
    if not course.done:
        faults.append("it did nothing")
    return CourseReport(
        worker=course.worker,
        done=course.done,
        begun_mib=course.samples[0].mib,
        warm_mib=warm_mib,
        end_mib=end_mib,
        most_mib=max(sample.mib for sample in course.samples),
        connections=[min(seen), max(seen)],
        faults=faults,
    )
