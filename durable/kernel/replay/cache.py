"""Suspended workflows, kept in memory by weight. Those in use stay; those that have been idle longest are evicted
first.

A plain least-recently-used cache fails for cyclic work: if there are twice as many workflows as places, each is evicted
shortly before its next turn, and none is ever found. So a newcomer replaces only a workflow that has been idle for much
longer than the newcomer itself was. A small part of the room is reserved for newcomers, so that a workflow that has
slept for long and is now busy for a moment is found there.
"""

from __future__ import annotations

import uuid
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from durable.kernel.replay.execution import Execution

TYPICAL_WEIGHT: Final = 16 * 1024
"""Bytes that a kept workflow may weigh on average before their number is cut; most weigh about 6,000."""

_NEWCOMERS: Final = 16
"""One in this many places, and this fraction of the weight, is reserved for newcomers."""

_IDLE_TIMES: Final = 2
"""How many times longer than the newcomer a workflow must have been idle to be replaced. Turns do not come in strict
order: with 1, a workflow that is a little late in its cycle would lose its place.
"""


@dataclass(slots=True)
class _Place:
    execution: Execution
    weight: int
    used_at: datetime
    works: bool


class Cache:
    """At most `max_count` executions that together weigh at most `max_weight` (16 KiB for each, unless given).

    Only for one thread, the turn thread. Put in only committed state. What is evicted is closed on the calling thread,
    at the latest when the process ends. With `max_count` 0 nothing is kept.
    """

    def __init__(self, max_count: int, *, max_weight: int | None = None) -> None:
        self.max_count = max_count
        self.max_weight = max_count * TYPICAL_WEIGHT if max_weight is None else max_weight
        self.weight = 0
        self._at_work = 0
        self._weight_at_work = 0
        self._newcomers = max_count // _NEWCOMERS
        self._newcomers_weight = self.max_weight // _NEWCOMERS if self._newcomers else 0
        self._weight_of_new = 0
        self._kept: OrderedDict[uuid.UUID, _Place] = OrderedDict()
        self._new: OrderedDict[uuid.UUID, _Place] = OrderedDict()
        self._at_exit = weakref.finalize(self, _close_all, self._kept, self._new)

    def __len__(self) -> int:
        return len(self._kept) + len(self._new)

    def __contains__(self, workflow_id: uuid.UUID) -> bool:
        return workflow_id in self._kept or workflow_id in self._new

    @property
    def ids(self) -> list[uuid.UUID]:
        """Of all that is here."""
        return [*self._kept, *self._new]

    @property
    def room(self) -> int:
        """How many more workflows would fit beside those that wait for an activity. The others sleep, and can be
        replaced.
        """
        if self._weight_at_work >= self.max_weight:
            return 0
        return max(0, self.max_count - self._at_work)

    def get(self, workflow_id: uuid.UUID) -> Execution | None:
        """The execution of a workflow, if it is here. It stays here: put it again after the commit, or drop it."""
        place = self._kept.get(workflow_id) or self._new.get(workflow_id)
        return None if place is None else place.execution

    def put(self, execution: Execution, *, at: datetime, used_at: datetime) -> None:
        """`put_all` of one."""
        self.put_all([(execution, used_at)], at=at)

    def put_all(self, turned: Iterable[tuple[Execution, datetime]], *, at: datetime) -> None:
        """Keeps executions whose turns were committed at `at`, with their current weight; each with the time of its
        previous turn, in case it was not here. One that is done, or for which there is no room, is closed instead.

        All of a batch at once, so that none is closed to make room for another and put here afterwards: a closed one
        can read no messages.
        """
        newcomers = []
        for execution, used_at in turned:
            if execution.workflow_id in self._kept:
                self._pop_former(execution)
                self._insert(self._kept, execution, at)
            else:
                newcomers.append((execution, used_at))
        for execution, used_at in newcomers:
            former = self._pop_former(execution)
            idle = at - (used_at if former is None else former.used_at)
            weight = execution.weight
            fits = self._has_room(weight) or self._give_way(weight, at, idle)
            self._insert(self._kept if fits else self._new, execution, at)
        self._trim()

    def drop(self, workflow_id: uuid.UUID) -> None:
        """Closes and forgets the execution of a workflow, if it is here."""
        place = self._pop(workflow_id)
        if place is not None:
            place.execution.close()

    def drop_all(self) -> None:
        """Closes and forgets everything."""
        for workflow_id in self.ids:
            self.drop(workflow_id)

    def _has_room(self, weight: int) -> bool:
        count = self.max_count - self._newcomers
        most = self.max_weight - self._newcomers_weight
        return not self._kept or (len(self._kept) < count and self.weight - self._weight_of_new + weight <= most)

    def _give_way(self, weight: int, at: datetime, idle: timedelta) -> bool:
        """Drops as many as are necessary for this weight, if all of them have been idle for that much longer."""
        count = len(self._kept) + 1 - (self.max_count - self._newcomers)
        too_much = self.weight - self._weight_of_new + weight - (self.max_weight - self._newcomers_weight)
        leaving = []
        for workflow_id, place in self._kept.items():
            if count <= 0 and too_much <= 0:
                break
            if at - place.used_at <= idle * _IDLE_TIMES:
                return False
            leaving.append(workflow_id)
            count, too_much = count - 1, too_much - place.weight
        if count > 0 or too_much > 0:
            return False  # evict nothing for one that does not fit anyway
        for workflow_id in leaving:
            self.drop(workflow_id)
        return True

    def _trim(self) -> None:
        """Evicts what exceeds the limits: newcomers beyond their share first, then the least recently used."""
        while len(self._new) > self._newcomers or self._weight_of_new > self._newcomers_weight:
            self.drop(next(iter(self._new)))
        while self._kept and (len(self) > self.max_count or self.weight > self.max_weight):
            self.drop(next(iter(self._kept)))

    def _insert(self, part: OrderedDict[uuid.UUID, _Place], execution: Execution, at: datetime) -> None:
        if execution.done:
            execution.close()
            return
        place = _Place(execution, execution.weight, at, execution.awaits_calls)
        part[execution.workflow_id] = place
        self._count(place, part, 1)

    def _pop_former(self, execution: Execution) -> _Place | None:
        """Takes out what is here of the same workflow, and closes it if it is another execution."""
        former = self._pop(execution.workflow_id)
        if former is not None and former.execution is not execution:
            former.execution.close()
        return former

    def _pop(self, workflow_id: uuid.UUID) -> _Place | None:
        part = self._new if workflow_id in self._new else self._kept
        place = part.pop(workflow_id, None)
        if place is not None:
            self._count(place, part, -1)
        return place

    def _count(self, place: _Place, part: OrderedDict[uuid.UUID, _Place], sign: int) -> None:
        self.weight += sign * place.weight
        if part is self._new:
            self._weight_of_new += sign * place.weight
        if place.works:
            self._at_work += sign
            self._weight_at_work += sign * place.weight


def _close_all(*parts: OrderedDict[uuid.UUID, _Place]) -> None:
    for part in parts:
        while part:
            part.popitem(last=False)[1].execution.close()
