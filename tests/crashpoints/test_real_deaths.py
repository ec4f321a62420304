"""Crash points with real deaths: a process of its own tells the story and is killed at a statement. This one goes on.

Faults D3; specification B7; docs/lifecycle.md.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from tests.chaos.fleet import tell
from tests.conftest import ROOT
from tests.crashpoints import nursery, stage, survey, trial
from tests.crashpoints.evidence import gather
from tests.crashpoints.shift import forget_connections
from tests.crashpoints.wire import Kind, Wire, bury_all

FULL_SAMPLE = 60
SAMPLE = 3


class Nursery:
    """The process that brings up those that die."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("w") as told:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.crashpoints.nursery"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
            )

    def let_die(self, number: int, how: str, folder: Path) -> int:
        """Let a child die at its `number`-th statement; answers its exit code, negative for a signal."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"number": number, "how": how, "folder": str(folder)}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, self.log.read_text()
        code: int = json.loads(answer)
        return code


@pytest.fixture
def brood(subprocess_environment: dict[str, str], tmp_path: Path) -> Iterator[Nursery]:
    """A nursery on this test's database."""
    made = Nursery(subprocess_environment, tmp_path / "nursery.log")
    yield made
    made.process.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.django_db(transaction=True)
def test_a_process_that_dies_at_any_statement_leaves_a_story_that_another_brings_to_the_same_end(
    brood: Nursery, tmp_path: Path
) -> None:
    total, wanted = survey.count(Kind.GONE), FULL_SAMPLE if survey.FULL else SAMPLE
    step = total // wanted
    numbers = range(1 + (total * 7) % step, total + 1, step)
    wrong = []
    for number in numbers:
        how = nursery.EXITED if number % 2 else nursery.KILLED
        folder = tmp_path / f"notes-{number}"
        folder.mkdir()
        connection.close()
        code = brood.let_die(number, how, folder)
        assert code == (nursery.EXIT_CODE if how == nursery.EXITED else -signal.SIGKILL), brood.log.read_text()
        bury_all(connection)
        wire = Wire()
        try:
            trial.assert_whole(wire, f"where a process died, at statement {number}")
            trial.go_on(wire, folder, at=stage.read_time(folder))
            problems = trial.differences(gather(), survey.undisturbed().evidence)
        except AssertionError as error:
            problems = [str(error)]
        forget_connections()
        if problems:
            wrong.append(f"statement {number}: {problems}")
    tell(f"crash points on {connection.vendor}: {len(numbers)} of {total} tried: real process {nursery.KILLED}")
    assert wrong == [], "\n".join(wrong)
