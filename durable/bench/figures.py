"""The benchmark's figures, and the stated goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from typing import Any


class Unit(Enum):
    """What a figure counts. A ratio is to the plain INSERT+COMMIT rate of the same moments."""

    RATIO = "x plain"
    PER_UNIT = "per unit"
    MILLISECONDS = "ms"
    TIMES = "times"
    MIB = "MiB"


class Promise(Enum):
    """From which side a figure may come to its stated value."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Goal:
    """The stated value of a figure."""

    promise: Promise
    value: float

    def missed_by(self, value: float) -> float:
        """How far a value is on the wrong side; 0 when it is not."""
        wrong = self.value - value if self.promise is Promise.AT_LEAST else value - self.value
        return max(0.0, wrong)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: the median of its samples. `per_second` are the rates behind a ratio, for people. `not_judged` says
    why this machine cannot be held to the goal, where it cannot.
    """

    name: str
    unit: Unit
    samples: Sequence[float]
    per_second: Sequence[float] = ()
    goal: Goal | None = None
    not_judged: str = ""

    @property
    def value(self) -> float:
        """The median."""
        return median(self.samples)

    @property
    def missed(self) -> bool:
        """Whether it has a stated value, is held to it, and is on its wrong side."""
        return self.goal is not None and not self.not_judged and self.goal.missed_by(self.value) > 0

    def as_data(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "name": self.name,
            "unit": self.unit.value,
            "value": round(self.value, 4),
            "samples": [round(sample, 4) for sample in self.samples],
            "per_second": round(median(self.per_second), 1) if self.per_second else None,
            "goal": None if self.goal is None else {"promise": self.goal.promise.value, "value": self.goal.value},
            "missed": self.missed,
            "not_judged": self.not_judged,
        }


@dataclass(slots=True)
class Findings:
    """All figures of a run, and the conditions they were found under."""

    vendor: str
    conditions: dict[str, str] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)

    @property
    def missed(self) -> list[Figure]:
        """The figures that miss their stated value."""
        return [figure for figure in self.figures if figure.missed]

    def add(
        self,
        name: str,
        unit: Unit,
        samples: Sequence[float],
        *,
        per_second: Sequence[float] = (),
        not_judged: str = "",
    ) -> None:
        """Keeps a figure, beside the goal that is stated for its name on this database."""
        goal = GOALS[self.vendor].get(name)
        self.figures.append(Figure(name, unit, list(samples), list(per_second), goal, not_judged if goal else ""))


def _least(value: float) -> Goal:
    return Goal(Promise.AT_LEAST, value)


def _most(value: float) -> Goal:
    return Goal(Promise.AT_MOST, value)


_ON_BOTH = {
    "commits of a single activity": _most(0.1),
    "commits of a three-step workflow": _most(0.5),
    "commits of a fan-out of 100": _most(10),
    "one fan-out of 100 alone": _most(40),
    "children of one parent against activities of fan-outs of 100": _least(0.5),
    "pick-up by an idle worker": _most(15),
    "many live against few, workflows of 20 steps": _most(1.2),
    "many live against few, workflows of 20 steps and 50 ms": _most(1.2),
    "resident memory of an idle worker": _most(70),
}
GOALS: dict[str, dict[str, Goal]] = {
    "postgresql": {
        "single activities": _least(0.50),
        "three-step workflows": _least(0.15),
        "activities of fan-outs of 100": _least(0.60),
        "enqueue one by one": _least(0.35),
        "enqueue in bulk": _least(2.0),
        "pick-up by an idle worker, by notification": _most(5),
        "two processes against one, single activities": _least(1.5),
        "two processes against one, three-step workflows": _least(1.5),
        **_ON_BOTH,
    },
    "sqlite": {
        "single activities": _least(0.25),
        "three-step workflows": _least(0.08),
        "activities of fan-outs of 100": _least(0.30),
        "enqueue one by one": _least(0.25),
        "enqueue in bulk": _least(1.5),
        **_ON_BOTH,
    },
}
"""The stated values, by database and name. There are no notifications on SQLite, and processes share its one lock for
writers.
"""
