"""Who gets the next turns: what waits longest, but rather what is in memory here than what may be in another process's.

Several processes look for the same due workflows. One that replays what another has in memory works for nothing: the
other one turns it meanwhile, or has to replay it the next time. So what would have to be replayed is left for a moment
to whoever has it, and nothing is overtaken by more than `WARM_IS_WORTH`.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.cache import Cache
from durable.outcomes import Company
from durable.store import due

WARM_IS_WORTH = 5.0
"""Seconds of waiting. What is in memory comes before what has waited up to so much longer."""

LEFT_FOR = 0.1
"""Seconds for which what has to be replayed is left to whoever may have it in memory."""

LEFT_BESIDE_OTHERS_FOR = 0.3
"""The same, in a batch that has something else to do."""


@dataclass(slots=True)
class Choice:
    """Candidates in the order of their turns, each with the seconds for which it has waited."""

    waited: dict[uuid.UUID, float]
    leaves: bool
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


def choose(
    connection: BaseDatabaseWrapper, cache: Cache, *, queues: tuple[str, ...] | None, limit: int, company: Company
) -> Choice:
    """Twice as many as a batch has, so that what others hold does not hide the rest. Alone, a worker leaves nothing to
    others, and only the waiting counts. Under a frozen clock no wait would end, so nothing is left either.
    """
    waited: dict[uuid.UUID, float] = {}
    for owner, seconds in due.owners(connection, messages=limit * 4, timers=limit * 2, queues=queues):
        waited[owner] = max(seconds, waited.get(owner, 0.0))

    others = company is Company.OTHERS

    def rank(owner: uuid.UUID) -> float:
        return waited[owner] + (WARM_IS_WORTH if others and owner in cache else 0.0)

    chosen = sorted(waited, key=rank, reverse=True)[: limit * 2]
    leaves = others and cache.max_count > 0 and not clock.is_frozen()
    return Choice(waited={owner: waited[owner] for owner in chosen}, leaves=leaves)
