"""What the second run of `python -m tests` leaves out is named in one place, and is nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import plan
from tests.architecture.source import sources
from tests.conftest import ROOT


@pytest.mark.parametrize("beginning", sorted({*plan.ONCE, *plan.LONG}))
def test_each_row_of_the_plan_names_tests_that_exist(beginning: str) -> None:
    path, _, test = beginning.partition("::")
    found = ROOT / "tests" / path
    assert found.is_dir() if path.endswith("/") else found.is_file()
    if test:
        assert re.search(rf"^\s*(async )?def {test.partition('[')[0]}\(", found.read_text(), re.MULTILINE)


def test_no_test_marks_itself_to_run_once() -> None:
    """What is left out stands in the plan, with its reason."""
    marked = [source.path for source in sources("tests") if "mark." + "once" in source.path.read_text()]
    assert marked == []


def test_nothing_that_runs_once_is_left_out_by_the_first_run_too() -> None:
    """A test that SQLite skips, and that the second run leaves out, would never run."""
    for beginning in plan.ONCE:
        place = ROOT / "tests" / beginning.partition("::")[0]
        for path in [place] if place.is_file() else place.rglob("test_*.py"):
            text = path.read_text() if path != Path(__file__) else ""
            assert not re.search(r"only_postgresql|!= .postgresql|== .sqlite.:\n\s+pytest.skip", text), path


def test_the_second_run_leaves_out_what_the_plan_names_and_nothing_else() -> None:
    """Of a file in which one test runs once, and of one that runs once as a whole."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-q", "--collect-only", "-p", "no:cacheprovider", "-m", "not once",
         "tests/kernel/test_matching.py", "tests/house/test_wheel.py"],
        cwd=ROOT, env=os.environ | {"PYTEST_ADDOPTS": ""}, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    collected = {line.partition("::")[2].partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    there = set(re.findall(r"^def (test_\w+)", (ROOT / "tests/kernel/test_matching.py").read_text(), re.MULTILINE))
    assert there - collected == {"test_fan_out_over_ten_kinds_replays_equal_a_hundred_times"}
    assert collected < there


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_the_order_holds_each_test_once_and_each_share_begins_with_what_takes_long(workers: int) -> None:
    long = [f"tests/{name}test_{number}.py::test" for name in plan.LONG if name.endswith("/") for number in range(5)]
    quick = [f"tests/kernel/test_{number}.py::test" for number in range(200)]
    nodeids = [*quick[:100], *long, *quick[100:]]
    order = plan.shared_out(nodeids, workers)
    assert sorted(order) == list(range(len(nodeids)))
    firsts, at = [], 0
    for place in range(workers):
        firsts.append(nodeids[order[at]])
        at += (len(order) - at) // (workers - place)
    assert not set(firsts) & set(quick)
    assert len({name.split("/")[1] for name in firsts}) == workers


def test_a_few_tests_of_one_kind_are_ordered_too() -> None:
    assert sorted(plan.shared_out(["tests/kernel/a", "tests/worker/b"], 3)) == [0, 1]
    assert plan.shared_out([], 3) == []
