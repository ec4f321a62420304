"""Suspended workflows, kept in memory by weight, least recently used first to go."""

from __future__ import annotations

import uuid
import weakref
from collections import OrderedDict
from typing import Final

from durable.kernel.execution import Execution

TYPICAL_WEIGHT: Final = 16 * 1024
"""Bytes that a kept workflow may weigh on average before their number is cut; most weigh about 6,000."""


class Cache:
    """At most `max_count` executions that together weigh at most `max_weight` (16 KiB for each, unless given).

    For one thread at a time: the turn thread's. Put in only what is committed. Whatever leaves is closed on the calling
    thread, at the latest when the process ends. With `max_count` 0 nothing is kept.
    """

    def __init__(self, max_count: int, *, max_weight: int | None = None) -> None:
        self.max_count = max_count
        self.max_weight = max_count * TYPICAL_WEIGHT if max_weight is None else max_weight
        self.weight = 0
        self._kept: OrderedDict[uuid.UUID, Execution] = OrderedDict()
        self._weights: dict[uuid.UUID, int] = {}
        self._at_exit = weakref.finalize(self, _close_all, self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, workflow_id: uuid.UUID) -> bool:
        return workflow_id in self._kept

    def get(self, workflow_id: uuid.UUID) -> Execution | None:
        """The execution of a workflow, if it is here. It stays here: put it again after the commit, or drop it."""
        execution = self._kept.get(workflow_id)
        if execution is not None:
            self._kept.move_to_end(workflow_id)
        return execution

    def put(self, execution: Execution) -> None:
        """Keep an execution whose turn has been committed, weighed anew. One that is done is closed instead."""
        workflow_id = execution.workflow_id
        former = self._kept.get(workflow_id)
        if former is not None and former is not execution:
            self.drop(workflow_id)
        if execution.done:
            self.drop(workflow_id)
            execution.close()
            return
        self._kept[workflow_id] = execution
        self._kept.move_to_end(workflow_id)
        weight = execution.weight
        self.weight += weight - self._weights.get(workflow_id, 0)
        self._weights[workflow_id] = weight
        while self._kept and (len(self._kept) > self.max_count or self.weight > self.max_weight):
            self.drop(next(iter(self._kept)))

    def drop(self, workflow_id: uuid.UUID) -> None:
        """Close and forget the execution of a workflow, if it is here."""
        execution = self._kept.pop(workflow_id, None)
        if execution is not None:
            self.weight -= self._weights.pop(workflow_id)
            execution.close()

    def drop_all(self) -> None:
        """Close and forget everything."""
        while self._kept:
            self.drop(next(iter(self._kept)))


def _close_all(kept: OrderedDict[uuid.UUID, Execution]) -> None:
    while kept:
        kept.popitem(last=False)[1].close()
