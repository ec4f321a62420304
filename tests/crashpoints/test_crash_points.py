"""Crash points, all of them: one story that uses every transition, with a fault at each statement and each commit.

Behind each of them: the same results, the same histories up to time, each outcome once, the ledger of transactional
effects exact, and no row that says half of something. BUGLOG D3; SPEC A2 to A6, B6, B7; docs/lifecycle.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields

import pytest

from tests.crashpoints import survey, trial, wire
from tests.crashpoints.evidence import Evidence
from tests.crashpoints.wire import Kind

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nobody_watches_afterwards() -> Iterator[None]:
    yield
    wire.dismiss_witnesses()


def differences(found: Evidence, expected: Evidence) -> list[str]:
    """In words, what differs."""
    told = []
    for part in fields(Evidence):
        here, there = getattr(found, part.name), getattr(expected, part.name)
        if here == there:
            continue
        if isinstance(here, dict):
            told += [
                f"{part.name} of {key!r}: {here.get(key)} instead of {there.get(key)}"
                for key in sorted({*here, *there})
                if here.get(key) != there.get(key)
            ]
        else:
            told.append(f"{part.name}: {here} instead of {there}")
    return told


def test_the_story_told_twice_is_the_same_to_the_statement() -> None:
    """What the numbers of the points rely on."""
    again = trial.perform()
    first = survey.undisturbed()
    assert (again.wire.statements, again.wire.commits) == (first.wire.statements, first.wire.commits)
    assert differences(again.evidence, first.evidence) == []
    assert again.faults == []


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())
def test_behind_a_fault_at_any_point_everything_is_as_if_nothing_had_happened(kind: Kind) -> None:
    wrong = []
    tried = 0
    for point in survey.points(kind):
        try:
            found = trial.perform(point)
            problems = differences(found.evidence, survey.undisturbed().evidence)
        except AssertionError as error:
            problems = [str(error)]
        tried += 1
        if problems:
            place = survey.undisturbed().wire
            texts = place.commit_places if kind in wire.AT_COMMITS else place.statement_places
            wrong.append(f"{point} ({texts[point.number - 1]}): {problems}")
    sys.stdout.write(f"{survey.tell(kind, tried)}\n")
    assert wrong == [], f"{len(wrong)} of {tried}:\n" + "\n".join(wrong[:10])
