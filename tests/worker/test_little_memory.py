"""A flood of signals meets workers, and web processes, that have little memory."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from durable import clock
from durable.models import Event, Message, Workflow
from durable.outcomes import WorkflowStatus
from tests.conftest import ROOT
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant
from tests.worker.launching import Launch, begun, said_by
from tests.worker.launching import launch as launch  # noqa: PLC0414 - the fixture
from tests.worker.plant import workflows

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]

MEGABYTE = 1_000_000
FLOOD = 240
HOARDED = 8
LITTLE = 200 * 1024 * 1024
"""More than a worker needs for itself, and less than the flood."""

SHORT = str(8 * MEGABYTE)
"""Histories are no longer than this, so that the test is not."""

WITH_LITTLE = begun(f"resource.setrlimit(resource.RLIMIT_DATA, ({LITTLE}, {LITTLE}))")


def flood(workflow_id: uuid.UUID, count: int = FLOOD) -> None:
    """Signals of a megabyte each, as they came before there was a limit."""
    now = clock.host_now()
    payload = json.dumps({"name": "news", "payload": json.dumps("x" * MEGABYTE)})
    for _ in range(count // 40):
        Message.objects.bulk_create(
            Message(workflow_id=workflow_id, run=1, kind="signal", payload=payload, visible_at=now, created_at=now)
            for _ in range(40)
        )


def run(launch: Launch, tmp_path: Path) -> None:
    worker = launch("--burst", "--concurrency", "2", prefix=WITH_LITTLE, MALLOC_ARENA_MAX="2", PLANT_HISTORY=SHORT)
    assert worker.wait(PATIENCE * 4) == 0, said_by(tmp_path)[-3_000:]


def test_a_flood_kills_no_worker_and_stops_no_other_workflow(plant: Plant, launch: Launch, tmp_path: Path) -> None:
    flooded = plant.start(workflows.waits)
    plant.burst()
    flood(flooded)
    other = plant.start(workflows.three, "a")
    run(launch, tmp_path)
    assert plant.look(other).status is WorkflowStatus.COMPLETED
    found = Workflow.objects.get(id=flooded)
    assert found.blocked_reason.startswith("The history is full"), "nothing but a signal could get it on"
    assert found.poison_turns == 0
    read = Event.objects.filter(workflow_id=flooded, type="signal_received").count()
    assert 5 < read < 12
    assert read + Message.objects.filter(workflow_id=flooded).count() == FLOOD


def test_code_that_keeps_what_it_receives_blocks_alone(plant: Plant, launch: Launch, tmp_path: Path) -> None:
    """A megabyte of brackets is twenty in memory. What the blocked code leaves behind is in cycles with its error:
    until that was collected at once, no thread for anybody's handlers could start, and a neighbour died of it.
    """
    hoarder = plant.start(workflows.hoards, 1_000)
    plant.burst()
    other = plant.start(workflows.three, "a")
    now = clock.host_now()
    payload = json.dumps({"name": "news", "payload": f"[{','.join(['[]'] * (MEGABYTE // 3))}]"})
    for _ in range(HOARDED):
        Message.objects.create(
            workflow_id=hoarder, run=1, kind="signal", payload=payload, visible_at=now, created_at=now
        )
    run(launch, tmp_path)
    assert plant.look(other).status is WorkflowStatus.COMPLETED
    assert Workflow.objects.get(id=hoarder).blocked_reason == "The workflow's code ran out of memory."


def test_long_histories_are_replayed_within_little_memory(plant: Plant, launch: Launch, tmp_path: Path) -> None:
    """Many at once, after a restart; none of them was counted before."""
    owners = [plant.start(workflows.waits) for _ in range(40)]
    plant.burst()
    data: Any = {"name": "news", "payload": json.dumps("x" * MEGABYTE)}
    for owner in owners:
        last = Workflow.objects.get(id=owner).last_seq
        Event.objects.bulk_create(
            Event(workflow_id=owner, seq=last + n, type="signal_received", data=data, recorded_at=clock.host_now())
            for n in range(1, 7)
        )
    Workflow.objects.update(last_seq=F("last_seq") + 6, history_bytes=0)
    for owner in owners:
        plant.signal(owner, "go", "1")
    run(launch, tmp_path)
    assert {plant.look(owner).status for owner in owners} == {WorkflowStatus.COMPLETED}


TERMINATE = """
import resource, sys, uuid
import django
django.setup()
from django.db import connection
from durable.operations import terminate
connection.ensure_connection()
used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData:")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + 64 * 1024 * 1024,) * 2)
print(terminate(uuid.UUID(sys.argv[1]), reason="flooded"))
"""


def test_a_flooded_workflow_is_terminated_within_little_memory(
    plant: Plant, subprocess_environment: dict[str, str]
) -> None:
    """The web process that does it reads names, and its event holds no payload."""
    flooded = plant.start(workflows.waits)
    plant.burst()
    flood(flooded)
    done: Any = subprocess.run(
        [sys.executable, "-c", TERMINATE, str(flooded)],
        cwd=ROOT,
        env=subprocess_environment | {"MALLOC_ARENA_MAX": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "terminated\n"), done.stderr
    closing = Event.objects.filter(workflow_id=flooded).latest("seq")
    assert len(closing.data["unread"]) == FLOOD
    assert len(json.dumps(closing.data)) < 100_000
    assert Message.objects.filter(workflow_id=flooded, parked=True).count() == FLOOD
