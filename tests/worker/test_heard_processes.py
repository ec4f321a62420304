"""`manage.py runworker` in hosts whose log handlers, on the root logger at DEBUG, block, raise or write."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from durable.outcomes import WorkflowStatus
from tests.ledger.models import Entry
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows
from tests.worker.processes import Pipes, Start
from tests.worker.threads import until_closed

SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.worker.heard_settings"}


def work(plant: Plant) -> list[Any]:
    return [
        plant.start(workflows.talk, "talk"),
        plant.enqueue(activities.note_async, "async"),
        plant.enqueue(activities.write_once, "once"),
        plant.enqueue(activities.fail, "fail"),
    ]


def statuses(plant: Plant, ids: list[Any]) -> list[WorkflowStatus]:
    return [plant.look(one).status for one in ids]


DONE = [*[WorkflowStatus.COMPLETED] * 3, WorkflowStatus.FAILED]


def ended(process: subprocess.Popen[str]) -> str:
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    return said


@pytest.mark.parametrize("heard", ["raises", "writes", "keeps", "holds back"])
@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_a_burst_does_all_its_work_and_exits_0(
    plant: Plant, runworker: Start, heard: str, options: tuple[str, ...]
) -> None:
    ids = work(plant)
    said = ended(runworker("--burst", *options, **SETTINGS, HEARD=heard))
    assert statuses(plant, ids) == DONE
    assert "activity.failed" in said
    assert "RuntimeError: no fail" in said
    if heard == "writes":
        assert Entry.objects.filter(label="log", note="activity.failed").count() == 1


@pytest.mark.parametrize("options", [(), ("--processes", "1")])
def test_a_handler_that_blocks_for_ever_keeps_neither_the_work_nor_the_end_of_the_process(
    plant: Plant, runworker: Start, options: tuple[str, ...]
) -> None:
    """How many lines were lost by it is on stderr."""
    ids = work(plant)
    process = runworker(*options, **SETTINGS, HEARD="blocks")
    for one in ids:
        until_closed(plant, one)
    assert statuses(plant, ids) == DONE
    process.send_signal(signal.SIGTERM)
    said = ended(process)
    assert "log lines lost" in said
    assert "did not return within 3 s" in said


def test_a_handler_that_blocks_keeps_no_supervisor_from_replacing_a_child_and_from_its_end(
    plant: Plant, runworker: Start, pipes: Callable[[str], Pipes]
) -> None:
    """The supervisor says that the child has died, and its handler never returns."""
    door = pipes("h")
    workflow_id = plant.enqueue(activities.hold_pipe, str(door.arrived), str(door.opened), "h")
    process = runworker("--processes", "1", PLANT_LEASE="1", **SETTINGS, HEARD="blocks")
    door.wait_for_arrival()
    os.kill(Entry.objects.get().amount, signal.SIGKILL)
    door.wait_for_arrival()
    door.let_go()
    until_closed(plant, workflow_id)
    process.send_signal(signal.SIGTERM)
    said = ended(process)
    assert "worker_process_died" in said
    assert "durable: 1 log line lost" in said
    assert len(set(Entry.objects.values_list("amount", flat=True))) == 2
