"""Crash points, all of them: one story that uses every transition, with a fault at each statement and each commit.

Behind each of them: the same results, the same histories up to time, each outcome once, the ledger of transactional
effects exact, and no row that says half of something. Faults D3; specification A2 to A6, B6, B7; docs/lifecycle.md.
"""

from __future__ import annotations

import pytest
from django.db import connection

from tests.chaos.fleet import tell
from tests.crashpoints import survey, trial
from tests.crashpoints.wire import Kind, Point

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_story_told_twice_is_the_same_to_the_statement() -> None:
    """What the numbers of the points rely on."""
    again, first = trial.perform(), survey.undisturbed()
    assert (again.wire.statements, again.wire.commits) == (first.wire.statements, first.wire.commits)
    assert trial.differences(again.evidence, first.evidence) == []
    assert again.faults == []


def test_a_point_that_the_story_does_not_have_is_told() -> None:
    with pytest.raises(AssertionError, match="The story has no point LOST at 100000"):
        trial.perform(Point(Kind.LOST, 100_000))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())
def test_behind_a_fault_at_any_point_everything_is_as_if_nothing_had_happened(kind: Kind) -> None:
    points = survey.points(kind)
    wrong = survey.try_all(points)
    tell(f"crash points on {connection.vendor}: {len(points)} of {survey.count(kind)} tried: {kind.value}")
    assert wrong == [], f"{len(wrong)} of {len(points)}:\n" + "\n".join(wrong[:10])
