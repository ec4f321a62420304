"""Which way a run takes at each `patched`: the first answer stands for the whole run.

A marker in the history says that the new way was taken. Where the history has none, the old way was: it was recorded
by code that did not ask. A marker that the code no longer asks for is passed over, so the `if` can be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from durable.errors import WorkflowBlocked
from durable.kernel.history.commands import RecordPatch
from durable.kernel.history.events import Event, EventType
from durable.kernel.history.known import PATCH
from durable.kernel.loop.event_loop import WorkflowLoop
from durable.kernel.replay.calls import Calls

MOST: Final = 1_000
"""Patches of one run: a loop that makes an id for each round would fill the row."""


class Patches:
    """The answers of a run. `is_new`: some were given since they were stored."""

    __slots__ = ("_calls", "_loop", "_recorded", "answers", "is_new")

    def __init__(self, loop: WorkflowLoop, calls: Calls) -> None:
        self._loop = loop
        self._calls = calls
        self._recorded: set[str] = set()
        self.answers: dict[str, bool] = {}
        self.is_new = False

    def expect(self, records: Iterable[Event]) -> None:
        """These records belong to the activation that is about to be replayed."""
        self._recorded.update(str(record.data["id"]) for record in records if is_patch(record))

    def enter(self) -> None:
        """Another run begins, which asks anew."""
        self._recorded.clear()
        self.answers.clear()
        self.is_new = True

    def asked(self, id: str) -> bool:
        """Whether the run takes the new way. In replay, whether a marker was recorded up to here; live, yes, and that
        is recorded. Raises `WorkflowBlocked`, and blocks the workflow, beyond `MOST` different ids.
        """
        answer = self.answers.get(id)
        if answer is not None:
            return answer
        if len(self.answers) >= MOST:
            raise self._loop.halt(
                WorkflowBlocked(
                    f"The code has asked for more than {MOST:,} patches in one run; the last one was {id!r}."
                )
            )
        answer = id in self._recorded if self._loop.replaying else True
        if not self._loop.replaying:
            self._calls.issued.append(RecordPatch(id))
        self.answers[id] = answer
        self.is_new = True
        return answer


def is_patch(record: Event) -> bool:
    """Whether it is the marker of a patch."""
    return record.type is EventType.MARKER_RECORDED and record.data["kind"] == PATCH
