"""What a worker process reports to its supervisor, through a pipe, a line at a time."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a worker process is."""

    WELL = "well"
    WAITING = "waiting"
    """It only waits for the database."""
    RED = "red"


_WORDS = frozenset(state.value for state in State)


@dataclass(frozen=True, slots=True)
class Report:
    """One line."""

    state: State
    text: str


class Reporter:
    """The child's end."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        os.set_blocking(pipe, False)

    def tell(self, report: Report) -> None:
        """Reports to the supervisor. Ignores a pipe that is full or has no reader."""
        line = f"{report.state.value} {report.text}".replace("\n", " ").encode()[:2000] + b"\n"
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._pipe, line)


def read(pipe: int) -> list[Report]:
    """The supervisor's end: the reports since the last call."""
    try:
        lines = os.read(pipe, 65536).decode("utf-8", "replace").splitlines()
    except BlockingIOError:
        return []
    reports = []
    for line in lines:
        word, _, text = line.partition(" ")
        if word in _WORDS:  # the first line may be the rest of one that was cut
            reports.append(Report(State(word), text))
    return reports
