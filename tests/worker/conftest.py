"""The plant: handlers, starting them, running workers in this process."""

from __future__ import annotations

import gc
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from durable.conf import settings as configured
from durable.kernel.definitions.definition import ActivityDefinition, WorkflowDefinition
from durable.kernel.definitions.options import resolve
from durable.kernel.definitions.registry import registry
from durable.kernel.history.events import EventType
from durable.kernel.payloads import birthplace
from tests.conftest import ROOT
from tests.flow.driver import Driver
from tests.waiting import PATIENCE, Gate
from tests.worker.plant import activities, fighters, quiet, workflows
from tests.worker.processes import Pipes, Start

DELIVERY_BACKOFF = (timedelta(milliseconds=1), 1.0, timedelta(milliseconds=1))


class Plant:
    """What the tests do with the engine, by hand."""

    def enqueue(self, definition: Any, *args: Any, budget: int | None = None, queue: str = "default") -> uuid.UUID:
        """Enqueues a single activity as its definition says; returns its workflow's id."""
        terms = resolve({}, definition, configured)
        return Driver().enqueue(
            definition,
            *args,
            budget=budget or terms.attempt_budget,
            deliveries=terms.delivery_budget,
            options={"on_dead_letter": configured.on_dead_letter},
            queue=queue,
        )

    def start(self, definition: Any, *args: Any) -> uuid.UUID:
        """Starts a workflow."""
        return Driver().start(definition, *args)

    def signal(self, workflow_id: uuid.UUID, name: str, payload: str) -> None:
        """Send a signal with a text."""
        from durable.flow.caller import signal

        born = birthplace.signal(workflow_id, name)
        stored = configured.codec().encode(payload, str, path="payload", birthplace=born)
        signal.signal(workflow_id, name, payload=stored)

    def burst(self, **options: Any) -> Any:
        """Run a worker here until nothing is due."""
        from durable.worker.process.modes import WorkerMode
        from durable.worker.process.worker import Worker

        worker = Worker(mode=WorkerMode.BURST, **options)
        code = worker.run()
        assert code == 0
        return worker

    def look(self, workflow_id: uuid.UUID) -> Any:
        """The workflow as callers see it."""
        from durable.flow.looks import look

        return look.snapshot(workflow_id)

    def history(self, workflow_id: uuid.UUID) -> list[EventType]:
        """The kinds of events."""
        from durable.flow.looks import look

        return [event.type for event in look.history(workflow_id, limit=1000)]

    def row(self, workflow_id: uuid.UUID) -> Any:
        """The (only) outbox row."""
        from durable.models import OutboxRow

        return OutboxRow.objects.get(workflow_id=workflow_id)

    def labels(self) -> list[str]:
        """What handlers have written."""
        from tests.ledger.models import Entry

        return list(Entry.objects.order_by("id").values_list("label", flat=True))


@pytest.fixture
def plant(transactional_db: None, settings: Any) -> Iterator[Plant]:
    """The plant on this test's database, with deliveries that are due again at once."""
    settings.DURABLE = {"DELIVERY_BACKOFF": DELIVERY_BACKOFF, "CONCURRENCY": 4}
    with registry.isolated():
        for module in (activities, workflows, fighters, quiet):
            for definition in vars(module).values():
                if isinstance(definition, ActivityDefinition):
                    registry.add_activity(definition)
                elif isinstance(definition, WorkflowDefinition):
                    registry.add_workflow(definition)
        yield Plant()


@pytest.fixture
def door() -> Iterator[Callable[[str], Gate]]:
    """`door("name")` makes a gate that handlers of the plant pass through; all are opened at the end."""

    def make(name: str) -> Gate:
        activities.GATES[name] = Gate(name)
        return activities.GATES[name]

    yield make
    for gate in activities.GATES.values():
        gate.open()
    activities.GATES.clear()


@pytest.fixture
def collected() -> Iterator[None]:
    """Tasks of fighters whose errors nobody has read complain when they are collected: here, not in a later test."""
    yield
    gc.collect()


@pytest.fixture
def runworker(subprocess_environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """`runworker("--burst", PLANT_LEASE="1")` starts one; all are killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, "manage.py", "runworker", *arguments],
                cwd=ROOT,
                env=subprocess_environment
                | {"DJANGO_SETTINGS_MODULE": "tests.worker.plant_settings", "TMPDIR": str(tmp_path)}
                | environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


@pytest.fixture
def pipes(tmp_path: Path) -> Callable[[str], Pipes]:
    return lambda name: Pipes(tmp_path, name)
