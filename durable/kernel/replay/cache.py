"""Suspended workflows, kept in memory by weight. What is in use stays, and what has long been idle goes first.

Least-recently-used alone is of no use for work that goes round: where twice as many workflows as there is room for take
turns, each is evicted shortly before its next one, and none is ever found. So a newcomer takes the place of a workflow
that has been idle for much longer than the newcomer itself was, and of no other. A small part of the room is for
newcomers alone: one that has slept for long, and is now busy for a moment, is found there.
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
"""One of so many places, and so much of the weight, is for newcomers."""

_IDLE_TIMES: Final = 2
"""How many times as long as the newcomer one must have been idle to give way. Turns do not come in strict order: with
1, whoever is a little late in its round would lose its place.
"""


@dataclass(slots=True)
class _Place:
    execution: Execution
    weight: int
    used_at: datetime
    works: bool


class Cache:
    """At most `max_count` executions that together weigh at most `max_weight` (16 KiB for each, unless given).

    For one thread at a time: the turn thread's. Put in only what is committed. Whatever leaves is closed on the calling
    thread, at the latest when the process ends. With `max_count` 0 nothing is kept.
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
        """For how many more workflows there would be room beside those that wait for an activity of theirs. The others
        sleep, and give way.
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
        """Keep executions whose turns have been committed at `at`, weighed anew; each with the moment of its turn
        before that, in case it was not here. One that is done, or that nobody gives way to, is closed instead.

        All of a batch at once, so that none is closed for the sake of another one and put here afterwards: a closed
        one reads no message any more.
        """
        newcomers = []
        for execution, used_at in turned:
            if execution.workflow_id in self._kept:
                self._take_former(execution)
                self._insert(self._kept, execution, at)
            else:
                newcomers.append((execution, used_at))
        for execution, used_at in newcomers:
            former = self._take_former(execution)
            idle = at - (used_at if former is None else former.used_at)
            weight = execution.weight
            fits = self._has_room(weight) or self._give_way(weight, at, idle)
            self._insert(self._kept if fits else self._new, execution, at)
        self._trim()

    def drop(self, workflow_id: uuid.UUID) -> None:
        """Close and forget the execution of a workflow, if it is here."""
        place = self._take(workflow_id)
        if place is not None:
            place.execution.close()

    def drop_all(self) -> None:
        """Close and forget everything."""
        for workflow_id in self.ids:
            self.drop(workflow_id)

    def _has_room(self, weight: int) -> bool:
        count = self.max_count - self._newcomers
        most = self.max_weight - self._newcomers_weight
        return not self._kept or (len(self._kept) < count and self.weight - self._weight_of_new + weight <= most)

    def _give_way(self, weight: int, at: datetime, idle: timedelta) -> bool:
        """Drop as many as have to go for this weight, if all of them have been idle for so much longer."""
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
            return False  # nobody leaves for the sake of one that does not fit in anyway
        for workflow_id in leaving:
            self.drop(workflow_id)
        return True

    def _trim(self) -> None:
        """What is over the limits goes: newcomers over their part first, then whoever was used longest ago."""
        while len(self._new) > self._newcomers or self._weight_of_new > self._newcomers_weight:
            self.drop(next(iter(self._new)))
        while self._kept and (len(self) > self.max_count or self.weight > self.max_weight):
            self.drop(next(iter(self._kept)))

    def _insert(self, part: OrderedDict[uuid.UUID, _Place], execution: Execution, at: datetime) -> None:
        if execution.done:
            execution.close()
            return
        place = _Place(execution, execution.weight, at, execution.awaits_activities)
        part[execution.workflow_id] = place
        self._count(place, part, 1)

    def _take_former(self, execution: Execution) -> _Place | None:
        """Take out what is here of the same workflow, and close it if it is another execution."""
        former = self._take(execution.workflow_id)
        if former is not None and former.execution is not execution:
            former.execution.close()
        return former

    def _take(self, workflow_id: uuid.UUID) -> _Place | None:
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
