"""Standard output and error that are closed, full, without reader, no UTF-8, or a terminal that is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from durable.outcomes import WorkflowStatus
from tests.conftest import ROOT
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant
from tests.worker.launching import SUPERVISED, WORKER, Launch, launch
from tests.worker.plant import activities, workflows
from tests.worker.processes import code_of
from tests.worker.threads import until_closed

__all__ = ["launch"]

CLOSED = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh"]
FULL_DISK = ["sh", "-c", 'exec "$@" >/dev/full 2>/dev/full', "sh"]


@SUPERVISED
@pytest.mark.parametrize("prefix", [CLOSED, FULL_DISK], ids=["closed", "full"])
def test_output_that_nobody_takes_changes_neither_the_work_nor_the_exit_code(
    plant: Plant, launch: Launch, prefix: list[str], processes: list[str]
) -> None:
    ids = [plant.enqueue(activities.say, "a line\n"), plant.start(workflows.three, "a")]
    assert code_of(launch("--burst", *processes, prefix=prefix)) == 0
    assert plant.look(ids[1]).status is WorkflowStatus.COMPLETED


@SUPERVISED
def test_a_pipe_without_reader_changes_neither_the_work_nor_the_exit_code(
    plant: Plant, launch: Launch, processes: list[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    plant.enqueue(activities.say, "a line\n")
    workflow_id = plant.start(workflows.three, "a")
    process = launch("--burst", *processes, stdout=writer)
    os.close(writer)
    assert code_of(process) == 0
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED


@pytest.mark.parametrize(
    "encoding", [{"PYTHONIOENCODING": "ascii:strict"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}], ids=str
)
def test_what_the_encoding_does_not_have_is_written_as_an_escape(
    plant: Plant, launch: Launch, encoding: dict[str, str]
) -> None:
    workflow_id = plant.enqueue(activities.say, "Grüße \N{SNOWMAN}")
    process = launch("--burst", stdout=subprocess.PIPE, **encoding)
    assert process.stdout is not None
    printed = process.stdout.read()
    assert code_of(process) == 0
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED
    assert "\\u2603" in printed


def verb(environment: dict[str, str], *arguments: str, stdout: int, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "durable", *arguments], cwd=ROOT, env=environment | more,
        stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def test_a_reader_that_has_seen_enough_is_no_failure_of_a_verb(subprocess_environment: dict[str, str]) -> None:
    """As in `manage.py durable list | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    done = verb(subprocess_environment, "list", "--json", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_answer_that_is_lost_on_a_full_disk_is_said(subprocess_environment: dict[str, str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    done = verb(subprocess_environment, "list", "--json", stdout=full)
    os.close(full)
    assert done.returncode == 1
    assert "its output could not be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_verb_writes_escapes_where_the_output_is_ascii(subprocess_environment: dict[str, str]) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii:strict"}
    done = verb(subprocess_environment, "show", "Gr\u00fc\u00dfe", "--json", stdout=subprocess.PIPE, **ascii_only)
    assert "Traceback" not in done.stderr
    assert "\\xfc" in done.stdout


def test_a_terminal_that_is_gone_does_not_end_the_worker(
    plant: Plant, subprocess_environment: dict[str, str], tmp_path: Path
) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        WORKER,
        cwd=ROOT,
        env=subprocess_environment | {"DJANGO_SETTINGS_MODULE": "tests.worker.plant_settings", "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        until_closed(plant, plant.enqueue(activities.add, 1, 1))
        os.close(ours)
        for number in range(5):  # the line of progress changes, and cannot be written
            until_closed(plant, plant.enqueue(activities.add, number, 1))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
