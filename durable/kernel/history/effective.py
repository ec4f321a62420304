"""Which events of a history count: the ones that the workflow's code is replayed on.

A history begins anew with each *workflow started*; what stands before it belongs to earlier runs. A *workflow reopened*
undoes a part of what stands before it, and says in `keeps` which ranges of events stay. Each of these events begins a
run.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from durable.errors import WorkflowBlocked
from durable.kernel.history.events import INPUTS, RECORDS, Event, EventType

_BEGINNINGS = frozenset({EventType.WORKFLOW_STARTED, EventType.WORKFLOW_REOPENED})

# An event of one of these types shows that the first activation has happened; operators' events may precede it.
_BEGUN = (INPUTS | RECORDS | {EventType.WORKFLOW_BEGUN}) - {EventType.WORKFLOW_STARTED}


@dataclass(frozen=True, slots=True)
class Effective:
    """The events that count, in order, and where the runs after the first of them began."""

    events: Sequence[Event]
    run: int
    """The current run."""
    later: tuple[int, ...] = ()
    """The `seq` at which each run after the one of *workflow started* began."""

    def run_of(self, seq: int) -> int:
        """The run in which the event with this number was recorded."""
        return self.run - len(self.later) + bisect.bisect_right(self.later, seq)

    @property
    def has_begun(self) -> bool:
        """Whether the workflow's code has run on any of it."""
        return any(event.type in _BEGUN for event in self.events)


def of_history(events: Sequence[Event], *, run: int) -> Effective:
    """What counts of a history, which may begin before its last *workflow started*. `run` is its current run.

    Raises `WorkflowBlocked` if a reopening does not say what it keeps.
    """
    at = next((i for i in range(len(events) - 1, -1, -1) if events[i].type is EventType.WORKFLOW_STARTED), 0)
    current = events[at:] if at else events
    reopenings = [event for event in current if event.type is EventType.WORKFLOW_REOPENED]
    if not reopenings:
        return Effective(current, run)
    last = reopenings[-1]
    kept = _ranges(last)
    counting = [e for e in current if e.seq >= last.seq or any(begin <= e.seq <= end for begin, end in kept)]
    return Effective(counting, run, tuple(event.seq for event in reopenings))


def run_at_end(events: Sequence[Event]) -> int:
    """The number of the current run of a whole history: each start and each reopening begins one."""
    return sum(event.type in _BEGINNINGS for event in events)


def _ranges(reopened: Event) -> list[tuple[int, int]]:
    keeps: Any = reopened.data.get("keeps", [])
    try:
        ranges = [(int(begin), int(end)) for begin, end in keeps]
    except (TypeError, ValueError):
        raise WorkflowBlocked(
            f"The history cannot be replayed: event {reopened.seq} reopens it, and `keeps` is {keeps!r:.100}, "
            "not a list of ranges of events."
        ) from None
    return ranges
