"""One trial: the story with one fault in it, taken up again by a new process where the old one has died."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.crashpoints import stage
from tests.crashpoints.evidence import Evidence, gather, halves
from tests.crashpoints.shift import forget_connections
from tests.crashpoints.story import Story
from tests.crashpoints.wire import Gone, Place, Point, Wire, tapped


@dataclass
class Trial:
    """What came of it."""

    wire: Wire
    evidence: Evidence
    faults: list[str]


def perform(point: Point | None = None, *, place: Callable[[str], Place] | None = None) -> Trial:
    """Tell the story from the beginning, with the fault at `point`, to its end.

    Raises `AssertionError` when the fault leaves something half done, or the end can not be reached.
    """
    stage.sweep()
    wire = Wire(point, place=place)
    folder = Path(tempfile.mkdtemp(prefix="durable-crashpoints-"))
    try:
        with stage.set_up(), tapped(wire):
            faults = _to_the_end(wire, folder)
        if point is not None:
            assert wire.struck, f"The story has no point {point}."
        return Trial(wire, gather(), faults)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _to_the_end(wire: Wire, folder: Path) -> list[str]:
    faults: list[str] = []
    while True:
        story = Story(wire, folder)
        try:
            with suppress(Gone):
                story.play()
        finally:
            story.shift.die()
            faults += story.faults
        if not wire.dead:
            assert_whole(wire, "at the end")
            return faults
        wire.dead = False
        forget_connections()
        assert_whole(wire, f"where the process died, at: {wire.struck}")


def assert_whole(wire: Wire, where: str) -> None:
    """No row says half of something."""
    with wire.quiet():
        found = halves()
    assert found == [], f"Half done {where}: {found}"
