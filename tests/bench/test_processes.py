"""Two worker processes against one."""

from __future__ import annotations

import pytest

from durable.bench import processes
from durable.bench.figures import Findings, Unit
from durable.bench.shapes import Sizes

SIZES = Sizes(processes=1, backlog=12)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("cores", "reason"), [(4, ""), (3, "3 of the 4 cores it takes")])
def test_a_machine_without_the_cores_is_not_held_to_the_ratio(cores, reason, monkeypatch) -> None:
    asked: list[int] = []

    def rates(alias, name, count, sizes):
        asked.append(count)
        return {"single activities": 100.0 * count**0.5, "three-step workflows": 50.0}

    monkeypatch.setattr(processes, "_rates", rates)  # the measurement itself would take minutes
    monkeypatch.setattr(processes, "usable_cores", lambda: cores)
    findings = Findings("postgresql")
    processes.measure(findings, "default", "scratch", SIZES)
    assert asked == [1, 2]
    assert [round(figure.value, 2) for figure in findings.figures] == [1.41, 1.0]
    assert [figure.missed for figure in findings.figures] == [not reason] * 2
    assert [figure.not_judged for figure in findings.figures] == [reason] * 2


def test_on_sqlite_the_ratio_is_told_and_not_judged() -> None:
    findings = Findings("sqlite")
    findings.add("two processes against one, single activities", Unit.TIMES, [0.1], not_judged="few cores")
    assert not findings.missed
    assert findings.figures[0].as_data()["not_judged"] == ""
