"""One trial: the story with one fault in it, taken up again by a new process where the old one has died."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime
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
    with tempfile.TemporaryDirectory(prefix="durable-crashpoints-") as folder:
        faults = go_on(wire, Path(folder))
    if point is not None:
        assert wire.struck, f"The story has no point {point}."
    return Trial(wire, gather(), faults)


def go_on(wire: Wire, folder: Path, *, at: datetime = stage.BEGINS_AT) -> list[str]:
    """Take the story up wherever it stands, and tell it to its end; answers the faults that were met on the way."""
    faults: list[str] = []
    with stage.set_up(at=at), tapped(wire):
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


def differences(found: Evidence, expected: Evidence) -> list[str]:
    """In words, what differs."""
    told = []
    for part in fields(Evidence):
        here, there = getattr(found, part.name), getattr(expected, part.name)
        if here == there:
            continue
        if isinstance(here, dict):
            told += [
                f"{part.name} of {key!r}: {here.get(key)} instead of {there.get(key)}"
                for key in sorted({*here, *there})
                if here.get(key) != there.get(key)
            ]
        else:
            told.append(f"{part.name}: {here} instead of {there}")
    return told
