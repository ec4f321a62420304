"""The soak, in seconds instead of minutes: that it sees what it looks for. Whether a worker is flat, minutes show."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections

from durable.bench import mixture, soak
from durable.bench.children import Debug, Job, working
from durable.bench.flatness import Course, Sample, judge
from durable.bench.running import Stuck, wait_until
from durable.bench.scratch import scratch
from durable.bench.soak import Plan, Soaked
from durable.models import OutboxRow
from durable.operations import terminate
from durable.outcomes import OutboxStatus
from tests.chaos.fleet import FULL, tell

MOST_GROWTH = 30.0
"""MiB. A few seconds are all warm-up, which a worker that leaks leaves far behind."""

LEAKS = 14
"""Calls of the leaking handler between two looks, at least; each beat brings 28 of them."""


def _calls() -> int:
    return OutboxRow.objects.filter(status=OutboxStatus.DONE, activity=mixture.plain.name).count()


@pytest.mark.django_db(transaction=True)
def test_workers_that_leak_memory_and_connections_are_not_flat(own_processes) -> None:
    """Faults J10, C2: the soak can fail."""
    seen = 0

    def wait_for_leaks(_line: str) -> None:
        nonlocal seen
        wait_until(lambda: _calls() >= seen + LEAKS, "leaks", look_every=0.01)
        seen = _calls()

    plan = Plan(seconds=1, beat=0.1, look_every=0.1, load=2, patience=0.5, modules=("tests.bench.leaking",))
    soaked = soak.soak(alias=None, plan=plan, tell=wait_for_leaks)
    reports = [judge(course, most_growth=MOST_GROWTH) for course in soaked.courses]
    assert len(reports) == 2
    assert any("memory grew" in " ".join(report.faults) for report in reports), reports
    assert any("connections were not constant" in " ".join(report.faults) for report in reports), reports
    assert soaked.vendor == connections["default"].vendor
    assert soaked.done >= seen
    assert soaked.closed > 0


@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.django_db(transaction=True)
def test_workers_are_flat_under_every_kind_of_work(own_processes) -> None:
    """Faults J10, C2; with DEBUG on, too."""
    plan = Plan.of(10) if FULL else Plan.of(1 / 12)
    soaked = soak.soak(alias=None, plan=plan, tell=lambda line: tell(f"soak: {line}"))
    reports = [judge(course, most_growth=MOST_GROWTH) for course in soaked.courses]
    if FULL:
        reports = [judge(course) for course in soaked.courses]
        assert not [report.faults for report in reports if report.faults], reports
    for report in reports:
        tell(f"soak: {report}")
        assert report.done > 0
        assert report.growth < MOST_GROWTH
        assert 1 < max(report.connections) < 40


@pytest.mark.django_db(transaction=True)
def test_workflows_that_have_ended_before_their_signal_do_not_end_the_soak() -> None:
    with scratch("default"):
        load = soak._Load("default", Plan(load=8, patience=2.0))  # a soak runs for minutes: one part of it by itself
        load.bring(0.0)
        for _, handle in load._waiting:  # only the load knows whom it waits for
            terminate(handle.id, reason="sooner")
        assert len(load._waiting) == 8
        load.bring(1.0)
        assert len(load._waiting) == 8


@pytest.mark.django_db(transaction=True)
def test_a_worker_process_that_dies_ends_the_soak_with_its_last_words(own_processes) -> None:
    with (
        scratch("default") as name,
        pytest.raises(Stuck, match=r"(?s)ended with 1.*No module named 'tests.bench.missing'"),
        working("default", name, [Job(modules=("tests.bench.missing",))]),
    ):
        pass


def _course(worker: str, growth: float) -> Course:
    return Course(worker, [Sample(at, 60 + growth * at, 9) for at in range(10)], done=5)


@pytest.fixture
def asked(monkeypatch) -> list[Plan]:
    """What the soak was asked for, without soaking: the second of its workers grows."""
    plans: list[Plan] = []

    def soaked(**given: Any) -> Soaked:
        plans.append(given["plan"])
        courses = [_course("first", 0.0), _course("second", 2.0)]
        return Soaked("sqlite", given["plan"].seconds, courses, done=10, closed=7, left_out=0)

    monkeypatch.setattr(soak, "soak", soaked)
    return plans


def test_the_verb_soaks_ten_minutes_unless_told_otherwise(asked) -> None:
    out = io.StringIO()
    call_command("durable", "bench", "--soak", "--json", stdout=out)
    call_command("durable", "bench", "--soak", "--minutes", "0.5", stdout=io.StringIO())
    assert [plan.seconds for plan in asked] == [600, 30]
    answer = json.loads(out.getvalue())
    assert answer["flat"] is False
    assert [worker["faults"] for worker in answer["workers"]] == [[], ["memory grew by 12.0 MiB, more than 5"]]
    assert answer["workers"][1]["samples"][1] == [1, 62.0, 9]


def test_with_the_gate_a_soak_that_is_not_flat_exits_1(asked, capsys) -> None:
    call_command("durable", "bench", "--soak", stdout=io.StringIO())
    with pytest.raises(SystemExit) as exit:
        call_command("durable", "bench", "--soak", "--gate")
    assert exit.value.code == 1
    assert "Not flat" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--soak", "--minutes", "0"], "--minutes is 0"), (["--soak", "--minutes", "nan"], "--minutes is nan"),
     (["--minutes", "3"], "--soak")],
)  # fmt: skip
def test_minutes_that_mean_nothing_are_refused(arguments, said) -> None:
    with pytest.raises(CommandError, match=said) as refused:
        call_command("durable", "bench", *arguments)
    assert refused.value.returncode == 2


def test_one_of_the_workers_has_debug_on(monkeypatch) -> None:
    # A soak starts real workers: what they would be told.
    watched = [soak._Watched(Course("a"), Debug.OFF), soak._Watched(Course("b"), Debug.ON)]
    assert [worker.job("default", Plan()).debug for worker in watched] == ["off", "on"]
