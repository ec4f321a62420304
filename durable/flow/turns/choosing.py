"""Which workflows get the next turns: those that have begun before new ones, those in memory before those to be
replayed.

A workflow costs least while it is in memory. So workflows in memory continue, and end, before others come in; all
shares are bounded, so that nothing starves. In each batch, in this order:

1. up to half of it: starts that have waited for `START_WAIT_FOR`;
2. a few that would have to be replayed (`COLD_SHARE`): a signal for a sleeping workflow is not the last to come;
3. what is in memory;
4. what has begun and would have to be replayed, then the rest of 1, then starts. Of what was not overtaken for so long,
   only as many as there is room for in memory beside the ones at work, or slots that nothing is there for.

If there are other workers, workflows that would have to be replayed are left for a moment to the worker that may have
them in memory, whose replay would be wasted.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.conf import settings
from durable.kernel.replay.cache import Cache
from durable.outcomes import Company
from durable.store.runs import due
from durable.store.runs.due import Due

OVERTAKEN_FOR = 30.0
"""Seconds after which even the smallest batch has one place for a workflow that would have to be replayed."""

COLD_SHARE = 20
"""One in this many places of a batch is for the longest-waiting workflows that would have to be replayed, however much
is due in memory. Not more: if all of memory is busy, each costs a replay that is not kept.
"""

ASK_FOR_ALL = 16
"""If looks do not reach the workflows in memory, every n-th look queries all of those, the others only those for which
this process has just acknowledged something.
"""

HINTS = 4_096
"""How many of those are kept at most; the oldest are dropped, and found by a look for all."""

WIDE = 4
"""How many times as many messages as there are places in a batch are looked at: several may be for one workflow."""

DEEPER = (1, 8, 64)
"""How many times deeper each further look goes, when the one before it met too few workflows: all that was due belonged
to a few of them, or to workflows that have not begun.
"""

LEFT_FOR = 0.1
"""Seconds for which a workflow that has to be replayed is left to the worker that may have it in memory."""

LEFT_BESIDE_OTHERS_FOR = 0.3
"""The same, in a batch that has something else to do."""


class Hints:
    """Workflows for which this process has just acknowledged something: most of what is due, and without a look.

    A hint. `add` from any thread, the rest on the turn thread.
    """

    def __init__(self) -> None:
        self._owners: deque[uuid.UUID] = deque(maxlen=HINTS)
        self._looks = 0

    def __len__(self) -> int:
        return len(self._owners)

    def add(self, owner: uuid.UUID) -> None:
        """Something is due for this one."""
        self._owners.append(owner)

    def forget(self) -> None:
        """A look has just found everything that is due."""
        self._owners.clear()

    def pop(self, cache: Cache, *, limit: int) -> list[uuid.UUID]:
        """The first of those that are in memory; from time to time, all that is in memory. Add again what is due."""
        self._looks += 1
        if self._looks % ASK_FOR_ALL == 0:
            return cache.ids
        owners: dict[uuid.UUID, None] = {}
        while self._owners and len(owners) < limit:
            owner = self._owners.popleft()
            if owner in cache:
                owners[owner] = None
        return list(owners)


@dataclass(slots=True)
class Choice:
    """Candidates in the order of their turns, each with the seconds for which it has waited. `without_room` counts
    those that wait until there is room.
    """

    waited: dict[uuid.UUID, float]
    leaves: bool
    without_room: int = 0
    hides: bool = False
    """Whether there may be more that is due than the look has met."""
    missed: set[uuid.UUID] = field(default_factory=set)
    """The candidates that another session has locked."""
    uncounted: set[uuid.UUID] = field(default_factory=set)
    """Those whose code has overrun, and which were locked when that was to be written."""
    left: set[uuid.UUID] = field(default_factory=set)

    def leave(self, cold: list[uuid.UUID], *, of: int) -> set[uuid.UUID]:
        """Which of these, whose code would have to be replayed, are left for now; they stay due. There are `of`
        candidates, these included.
        """
        if not self.leaves:
            return set()
        long_enough = LEFT_FOR if len(cold) == of else LEFT_BESIDE_OTHERS_FOR
        young = {owner for owner in cold if self.waited[owner] < long_enough}
        self.left |= young
        return young


@dataclass(slots=True)
class _Candidates:
    """Workflows with due messages or timers, each with the seconds for which it has waited, the longest first."""

    warm: dict[uuid.UUID, float]
    cold: dict[uuid.UUID, float]
    starts: dict[uuid.UUID, float]
    all_met: bool = False


def choose(
    connection: BaseDatabaseWrapper,
    cache: Cache,
    *,
    queues: tuple[str, ...] | None,
    limit: int,
    company: Company,
    idle: int,
    hints: Hints | None = None,
    left_out: Collection[uuid.UUID] = (),
) -> Choice:
    """Twice as many as a batch has, so that locked ones do not hide the rest. A worker that is alone leaves nothing to
    others. Under a frozen clock no wait would end, so nothing is left either. Those in `left_out` are skipped, however
    much is due for them.

    One statement; one more where more is due than it looks at and too little of it is in memory; up to two more where
    what is due belongs to very few.
    """
    leaves = company is Company.OTHERS and cache.max_count > 0 and not clock.is_frozen()
    candidates = _look(connection, cache, queues, limit, hints, left_out)
    # As many as fit beside those at work, or as there are idle slots; if nothing is kept in memory,
    # waiting gains nothing.
    room = max(idle, cache.room) if cache.max_count else limit * 2
    chosen = _in_order(candidates, limit, room, settings.start_wait_for.total_seconds())
    without_room = (
        0
        if len(chosen) >= limit
        else len(candidates.cold) + len(candidates.starts) - sum(o not in candidates.warm for o in chosen)
    )
    return Choice(
        chosen, leaves=leaves, without_room=without_room, hides=not candidates.all_met or len(chosen) >= limit * 2
    )


def _look(
    connection: BaseDatabaseWrapper,
    cache: Cache,
    queues: tuple[str, ...] | None,
    limit: int,
    hints: Hints | None,
    left_out: Collection[uuid.UUID],
) -> _Candidates:
    in_memory: list[Due] | None = None
    candidates = _Candidates({}, {}, {})
    # Where a batch is known already, the look is for what has waited longest, and for what the hints do not say.
    width = 1 if hints is not None and len(hints) >= limit else WIDE
    starts = limit * min(width, 2)
    for times in DEEPER:
        depth = limit * width * times
        looked = due.owners(connection, messages=depth, timers=limit * 2, starts=starts, queues=queues, but=left_out)
        candidates = _divided(cache, looked)
        met = sum([workflow.messages for workflow in looked])
        if met < depth and sum([workflow.begun and not workflow.messages for workflow in looked]) < limit * 2:
            if hints is not None:
                hints.forget()
            candidates.all_met = sum([not workflow.begun for workflow in looked]) < starts
            break
        if in_memory is None:
            wants = len(candidates.warm) < limit and len(cache)
            asked = [] if not wants else cache.ids if hints is None else hints.pop(cache, limit=limit * 2)
            asked = [owner for owner in asked if owner not in left_out]
            in_memory = due.among(connection, asked, limit=limit * 2) if asked else []
            if hints is not None:
                for workflow in in_memory:
                    hints.add(workflow.owner)
        candidates = _divided(cache, [*looked, *in_memory])
        if met < depth or len(candidates.warm) + len(candidates.cold) >= limit:
            break
    return candidates


def _divided(cache: Cache, looked: list[Due]) -> _Candidates:
    candidates = _Candidates({}, {}, {})
    for owner, waited, _, begun in sorted(looked, key=lambda workflow: workflow.waited, reverse=True):
        # Of one that has not begun and is there for another reason, its time is up, or somebody wants it to look.
        part = candidates.warm if owner in cache else candidates.cold if begun else candidates.starts
        part.setdefault(owner, waited)
    for owner in candidates.starts.keys() & candidates.cold.keys():
        del candidates.starts[owner]
    return candidates


def _in_order(candidates: _Candidates, limit: int, room: int, start_bound: float) -> dict[uuid.UUID, float]:
    """The candidates, each once."""
    overtaken = [entry for entry in candidates.starts.items() if entry[1] >= start_bound]
    order = dict(overtaken[: (limit + 1) // 2])
    cold = [entry for entry in candidates.cold.items() if entry[0] not in order]
    few = min(limit, len(candidates.warm) + COLD_SHARE) // COLD_SHARE
    if cold and cold[0][1] >= OVERTAKEN_FOR:
        few = max(few, 1)
    order.update(cold[:few])
    order.update(candidates.warm)
    order.update(cold[few:][:room])
    order.update(overtaken)
    order.update(islice(candidates.starts.items(), max(0, room - len(cold[few:]))))
    return dict(islice(order.items(), limit * 2))
