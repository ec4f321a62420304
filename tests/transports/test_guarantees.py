"""The guarantees, by the same tests as for workers that run their activities themselves: here each one is sent, to a
receiver in this process, or through a django-q2 cluster whose parts run in threads of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from durable.flow.looks import look
from durable.models import Message, OutboxRow, WorkItem
from durable.worker.process.worker import Worker
from tests.transports import in_process
from tests.transports.in_process import InProcess
from tests.waiting import PATIENCE, in_thread
from tests.worker.conftest import Plant
from tests.worker.guarantees import *  # noqa: F403


class SentPlant(Plant):
    """The plant, whose `burst` serves until nothing is left to do."""

    def burst(self, **options: Any) -> Any:
        options.pop("concurrency", None)  # a cluster's is the number of its processes
        looked, quiet = threading.Event(), []

        def tick(worker: Worker) -> None:
            quiet.append(worker.ready.is_set() and _is_quiet())
            if quiet[-2:] == [True, True]:  # two looks: between them nothing was handed on
                looked.set()

        worker = Worker(on_tick=tick, **options)
        code = in_thread(worker.run)
        try:
            assert looked.wait(PATIENCE), list(OutboxRow.objects.values())
        finally:
            worker.stop()
        assert code.result(PATIENCE) == 0
        return worker


def _is_quiet() -> bool:
    due = look.next_due(None)
    out = WorkItem.objects.exists() or Message.objects.filter(parked=False).exists()
    return not out and (due is None or due > timedelta(seconds=1))


@pytest.fixture(params=["in process", "django_q"])
def plant(plant: Plant, request: pytest.FixtureRequest, settings: Any, monkeypatch: Any) -> Iterator[Plant]:
    """The plant, all of whose activities are sent."""
    monkeypatch.setattr("durable.worker.process.worker.TICK", 0.02)
    transport = {"in process": "tests.transports.in_process.InProcess", "django_q": "django_q"}[request.param]
    with ExitStack() as stack:
        stack.enter_context(in_process.receiver())
        if transport == "django_q":
            stack.enter_context(in_process.threads())
        settings.DURABLE = {
            **settings.DURABLE,
            "QUEUES": {"default": {"transport": transport, "cluster": "default"}},
        }
        yield SentPlant()
        for call in InProcess.running:
            call.result(PATIENCE)
        InProcess.running.clear()
