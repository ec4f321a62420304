"""The undisturbed story, told once per process: what all others are compared with, and how many points it has."""

from __future__ import annotations

import os
from functools import cache

from django.db import connection

from tests.crashpoints import trial
from tests.crashpoints.trial import Trial
from tests.crashpoints.wire import AT_COMMITS, Kind, Point, placed

FULL = os.environ.get("DURABLE_TEST_FULL") == "1"
"""Whether all points are tried (`.ci/full`), or a sample."""

SAMPLE = 3
"""How many of a kind are in the sample."""


@cache
def undisturbed() -> Trial:
    """The story as it goes when nothing fails. Needs the database of a test; changes nothing for later ones."""
    return trial.perform(place=placed)


def count(kind: Kind) -> int:
    """How many points of a kind there are."""
    wire = undisturbed().wire
    return wire.commits if kind in AT_COMMITS else wire.statements


def points(kind: Kind) -> list[Point]:
    """All points of a kind, or a sample of them, evenly spread. Each kind begins at another place, and all of them
    move with the number of points, so that as the engine changes the sample goes round.
    """
    there = count(kind)
    if FULL:
        return [Point(kind, number) for number in range(1, there + 1)]
    step = there // SAMPLE
    offset = (there * 7 + list(Kind).index(kind) * 5) % step
    return [Point(kind, 1 + offset + step * number) for number in range(SAMPLE)]


def tell(kind: Kind, tried: int) -> str:
    """A line for whoever reads the run's output."""
    return f"crash points on {connection.vendor}: {tried} of {count(kind)} tried: {kind.value}"
