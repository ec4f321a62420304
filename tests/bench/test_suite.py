"""The whole benchmark at sizes that measure nothing, and the verb."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections

from durable.bench import shapes, suite
from durable.bench.figures import GOALS, Findings, Unit
from durable.bench.shapes import Sizes

TINY = Sizes(
    rounds=1,
    singles=5,
    one_by_one=2,
    workflows=2,
    fan_outs=1,
    children=2,
    pick_ups=1,
    alone=1,
    sequence=3,
    processes=1,
    backlog=6,
    live=1,
    plain_for=0.001,
)


@pytest.mark.django_db(transaction=True)
def test_every_stated_figure_is_measured_and_nothing_is_left_in_the_projects_database(
    own_processes, monkeypatch
) -> None:
    monkeypatch.setattr(suite, "resident_when_idle", lambda alias, name: 1.0)  # below
    told: list[str] = []
    findings = suite.measure(alias=None, sizes=TINY, tell=told.append)

    vendor = connections["default"].vendor
    names = [figure.name for figure in findings.figures]
    assert findings.vendor == vendor
    assert set(GOALS[vendor]) <= set(names)
    assert len(set(names)) == len(names)
    assert all(figure.value > 0 for figure in findings.figures if not figure.name.startswith("pick-up"))
    assert all(figure.value >= 0 for figure in findings.figures)
    assert len(told) == 7
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM durable_workflow")
        assert cursor.fetchone()[0] == 0


@pytest.fixture
def found(monkeypatch) -> Findings:
    """What the benchmark finds, without measuring: one figure kept and one missed."""
    findings = Findings("sqlite", {"cores": "2"})
    findings.add("single activities", Unit.RATIO, [0.9], per_second=[900.0])
    findings.add("enqueue in bulk", Unit.RATIO, [0.1], per_second=[100.0])
    monkeypatch.setattr(suite, "measure", lambda **asked: findings)
    return findings


def test_the_gate_exits_1_when_a_stated_figure_is_missed(found, capsys) -> None:
    with pytest.raises(SystemExit) as exit:
        call_command("durable", "bench", "--gate")
    assert exit.value.code == 1
    assert "missed" in capsys.readouterr().out


def test_without_the_gate_a_missed_figure_is_only_shown(found) -> None:
    out = io.StringIO()
    call_command("durable", "bench", "--json", stdout=out)
    answer = json.loads(out.getvalue())
    assert answer["missed"] == ["enqueue in bulk"]
    assert [figure["per_second"] for figure in answer["figures"]] == [900.0, 100.0]


def test_quick_means_smaller_sizes(found, monkeypatch) -> None:
    asked: list[Sizes] = []

    def measured(**given: Any) -> Any:
        asked.append(given["sizes"])
        return found

    monkeypatch.setattr(suite, "measure", measured)
    call_command("durable", "bench", "--quick", stdout=io.StringIO())
    call_command("durable", "bench", stdout=io.StringIO())
    assert asked == [shapes.QUICK, shapes.FULL]


def test_an_alias_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(CommandError, match="'elsewhere'") as refused:
        call_command("durable", "bench", "--database", "elsewhere")
    assert refused.value.returncode == 2


def test_the_command_registers_nothing_of_the_benchmark_until_it_is_asked_for_it(subprocess_environment) -> None:
    code = (
        "import django; django.setup()\n"
        "from durable.kernel.definitions.registry import registry\n"
        "import durable.management.subcommands\n"
        "assert not [d.name for d in registry.activities() if d.name.startswith('durable.bench')]\n"
        "import durable.bench.work\n"
        "assert [d.name for d in registry.activities() if d.name.startswith('durable.bench')]\n"
    )
    subprocess.run([sys.executable, "-c", code], env=subprocess_environment, check=True)


@pytest.mark.django_db(transaction=True)
def test_the_memory_of_an_idle_worker_is_that_of_a_process_of_its_own(own_processes, monkeypatch) -> None:
    monkeypatch.setattr(suite, "QUIET_AFTER", 0.0)
    assert suite.resident_when_idle("default", str(connections["default"].settings_dict["NAME"])) > 1
