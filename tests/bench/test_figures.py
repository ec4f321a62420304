"""What is found, beside what is promised."""

from __future__ import annotations

import pytest

from durable.bench.figures import GOALS, Figure, Findings, Goal, Promise, Unit

AT_LEAST = Goal(Promise.AT_LEAST, 0.5)
AT_MOST = Goal(Promise.AT_MOST, 10)


@pytest.mark.parametrize(
    ("goal", "samples", "missed"),
    [
        (AT_LEAST, [0.4, 0.5, 9.0], False),
        (AT_LEAST, [0.4, 0.49, 9.0], True),
        (AT_MOST, [1, 10, 99], False),
        (AT_MOST, [1, 11, 99], True),
        (None, [0.0], False),
    ],
)
def test_a_figure_is_missed_when_its_median_is_on_the_wrong_side(goal, samples, missed) -> None:
    assert Figure("figure", Unit.RATIO, samples, goal=goal).missed is missed


@pytest.mark.parametrize("vendor", ["postgresql", "sqlite"])
def test_findings_put_the_stated_value_of_their_database_beside_a_figure(vendor) -> None:
    findings = Findings(vendor)
    findings.add("single activities", Unit.RATIO, [0.0001])
    findings.add("statements of a single activity", Unit.PER_UNIT, [3.0])

    assert [figure.name for figure in findings.missed] == ["single activities"]
    assert findings.figures[0].goal == GOALS[vendor]["single activities"]
    assert findings.figures[0].as_data() == {
        "name": "single activities",
        "unit": "x plain",
        "value": 0.0001,
        "samples": [0.0001],
        "per_second": None,
        "goal": {"promise": "at least", "value": GOALS[vendor]["single activities"].value},
        "missed": True,
        "not_judged": "",
    }


def test_a_figure_that_this_machine_can_not_be_held_to_is_not_missed() -> None:
    findings = Findings("sqlite")
    findings.add("single activities", Unit.RATIO, [0.0001], not_judged="no disk")
    assert not findings.missed
    assert findings.figures[0].as_data()["not_judged"] == "no disk"


def test_both_databases_promise_the_same_figures_but_for_what_only_postgresql_has() -> None:
    assert set(GOALS["postgresql"]) - set(GOALS["sqlite"]) == {
        "pick-up by an idle worker, by notification",
        "two processes against one, single activities",
        "two processes against one, three-step workflows",
    }
    assert set(GOALS["sqlite"]) < set(GOALS["postgresql"])
