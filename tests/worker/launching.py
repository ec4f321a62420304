"""Worker processes that are started in a particular way: beneath a prefix, with limits, with streams of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from durable.outcomes import OutboxStatus
from tests.conftest import ROOT
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant

Launch = Callable[..., subprocess.Popen[str]]
WORKER = [sys.executable, "manage.py", "runworker"]
BEGIN = "import ctypes, os, resource, signal, sys; {}; os.execv(sys.argv[1], sys.argv[1:])"


def begun(statement: str) -> list[str]:
    """A prefix: whoever starts the worker has done this before."""
    return [sys.executable, "-c", BEGIN.format(statement)]


@pytest.fixture
def launch(subprocess_environment: dict[str, str], tmp_path: Path) -> Iterator[Launch]:
    """`launch("--burst", prefix=["sh", …], PLANT_LEASE="1")` starts a worker; all are killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(
        *arguments: str, prefix: list[str] | None = None, stdout: int = subprocess.DEVNULL, **environment: str
    ) -> subprocess.Popen[str]:
        with (tmp_path / f"stderr-{len(started)}").open("w") as said:
            started.append(
                subprocess.Popen(
                    [*(prefix or []), *WORKER, *arguments],
                    cwd=ROOT,
                    env=subprocess_environment
                    | {"DJANGO_SETTINGS_MODULE": "tests.worker.plant_settings", "TMPDIR": str(tmp_path)}
                    | environment,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=said,
                    text=True,
                )
            )
        return started[-1]

    yield start
    for process in started:
        for pid in [*descendants(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(PATIENCE)


def children(pid: int) -> list[int]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return [int(found) for found in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def descendants(pid: int) -> list[int]:
    return [found for child in children(pid) for found in [*descendants(child), child]]


def said_by(tmp_path: Path) -> str:
    return (tmp_path / "stderr-0").read_text()


def assert_given_back(plant: Plant, workflow_id: object) -> None:
    row = plant.row(workflow_id)  # type: ignore[arg-type]
    assert (row.status, row.deliveries, row.delivery_failures) == (OutboxStatus.PENDING.value, 0, 0)


SUPERVISED = pytest.mark.parametrize("processes", [[], ["--processes", "1"]], ids=["one", "supervised"])
