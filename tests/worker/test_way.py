"""The way of one activity, as the architecture page tells it, is the one that it takes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from django.db import OperationalError

from durable.flow.delivery import acknowledge
from tests.architecture.source import ROOT, way
from tests.worker.conftest import Plant
from tests.worker.plant import activities


@contextmanager
def watched() -> Iterator[set[str]]:
    """The files whose functions run in the block, on this thread and on those that begin in it."""
    ran: set[str] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            ran.add(frame.f_code.co_filename)

    former = sys.getprofile()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield ran
    finally:
        sys.setprofile(former)
        threading.setprofile(None)


def test_each_file_on_the_way_runs_when_an_activity_is_tried_again_and_so_is_its_acknowledgement(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refusals = acknowledge.acknowledge, [OperationalError("the connection went away")]

    def unsteady(*args: Any, **named: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return real(*args, **named)

    monkeypatch.setattr(acknowledge, "acknowledge", unsteady)
    with watched() as ran:
        handle = activities.fail_once.enqueue("a")
        plant.burst()
    assert plant.look(handle.id).status == "completed"
    assert [place for place in way() if str(ROOT / place) not in ran] == []
