"""The activities that a workflow has called: issued in this activation, or open and awaited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from durable.errors import HistoryFull
from durable.kernel.history.commands import CancelActivity, RecordUnreadable
from durable.kernel.history.room import FULL
from durable.kernel.loop import handled
from durable.kernel.loop.event_loop import WorkflowLoop
from durable.kernel.loop.futures import ActivityFuture

Asked = ActivityFuture | CancelActivity | RecordUnreadable


class Calls:
    """The calls in their order, and the futures that wait for an outcome, by ordinal."""

    __slots__ = ("_limit", "_loop", "issued", "last_ordinal", "open")

    def __init__(self, loop: WorkflowLoop, *, limit: int) -> None:
        self._loop = loop
        self._limit = limit
        self.issued: list[Asked] = []
        self.open: dict[int, ActivityFuture] = {}
        self.last_ordinal = 0

    def schedule(
        self, *, activity: str, payload: str, digest: str, options: Mapping[str, Any], hint: Any
    ) -> ActivityFuture:
        """Register a call. It gets its ordinal when the activation is idle, unless it was cancelled before."""
        if len(self.issued) >= self._limit:
            raise self._loop.halt(
                HistoryFull(f"{FULL}the workflow's code called more than {self._limit:,} activities in one activation.")
            )
        handled.mark(self._loop)
        future = self._loop.activity_future()
        future.activity = activity
        future.calls = self
        future.digest = digest
        future.hint = hint
        future.options = options
        future.ordinal = 0
        future.payload = payload
        self.issued.append(future)
        return future

    def withdraw(self, future: ActivityFuture) -> None:
        """The future was cancelled. If it has no ordinal yet, it leaves no trace; while closing, nothing is
        recorded.
        """
        if future.ordinal and self.open.pop(future.ordinal, None) is not None and self._loop.is_on:
            handled.mark(self._loop)
            self.issued.append(CancelActivity(future.ordinal))

    def harvest(self) -> list[Asked]:
        """The calls that are still wanted when the loop is idle, in their order. Those that are already over are left
        out.
        """
        issued = self.issued
        if not issued:
            return issued
        self.issued = []
        return [asked for asked in issued if type(asked) is not ActivityFuture or not asked.done()]

    def number(self, future: ActivityFuture, ordinal: int) -> None:
        """Gives a call its ordinal; from now on its outcome can be fed, and its arguments are no longer kept here."""
        future.ordinal = ordinal
        future.payload = ""
        self.open[ordinal] = future
        self.last_ordinal = max(self.last_ordinal, ordinal)

    def clear(self) -> None:
        """Forget everything."""
        self.issued.clear()
        self.open.clear()
