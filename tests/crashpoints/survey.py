"""The undisturbed story, told once per process: what all others are compared with, and how many points it has."""

from __future__ import annotations

import os
from functools import cache

from django.db import connection

from tests.crashpoints import trial
from tests.crashpoints.trial import Trial
from tests.crashpoints.wire import AT_COMMITS, Kind, Place, Point, placed

FULL = os.environ.get("DURABLE_TEST_FULL") == "1"
"""Whether all points are tried (`.ci/full`), or a sample."""

SAMPLE = int(os.environ.get("DURABLE_TEST_SAMPLE", "2"))
"""How many of a kind are in the sample."""


@cache
def undisturbed() -> Trial:
    """The story as it goes when nothing fails. Needs the database of a test; changes nothing for later ones."""
    return trial.perform(place=placed)


def count(kind: Kind) -> int:
    """How many points of a kind there are."""
    wire = undisturbed().wire
    return wire.commits if kind in AT_COMMITS else wire.statements


def place(point: Point) -> Place:
    """What stands at a point in the undisturbed story."""
    wire = undisturbed().wire
    return (wire.commit_places if point.kind in AT_COMMITS else wire.statement_places)[point.number - 1]


def points(kind: Kind) -> list[Point]:
    """All points of a kind, or a sample of them, evenly spread.

    At every statement one of the two errors: they take turns, and begin with another one on either database. Each kind
    of the sample begins at another place, and all of them move with the number of points, so that the sample goes round
    as the engine changes.
    """
    there = [Point(kind, number) for number in range(1, count(kind) + 1)]
    if kind in (Kind.LOST, Kind.BROKEN):
        first = (kind is Kind.BROKEN) ^ (connection.vendor == "postgresql")
        there = there[int(first) :: 2]
    if FULL:
        return there
    step = len(there) // SAMPLE
    offset = (len(there) * 7 + list(Kind).index(kind) * 5) % step
    return there[offset::step][:SAMPLE]


def try_all(points: list[Point]) -> list[str]:
    """Try them, and answer in words what went wrong."""
    wrong = []
    for point in points:
        try:
            found = trial.perform(point)
            problems = trial.differences(found.evidence, undisturbed().evidence)
        except AssertionError as error:
            problems = [str(error)]
        if problems:
            wrong.append(f"{point} ({place(point)}): {problems}")
    return wrong
