"""Workflows whose turn met another session's lock: skipped for a while, so that no other waits for them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

ASIDE_FOR = 5.0
"""Seconds."""

_DOUBLED = 4
"""How many times at most the span is doubled for a workflow that meets a lock again and again."""

_REMEMBERED_FOR = 60.0
"""Seconds after its span for which the number of times is known."""


@dataclass(slots=True)
class _Place:
    until: float
    times: int


class PassedOver:
    """The workflows that the turns of one process skip for now. Kept on the turn thread."""

    def __init__(self) -> None:
        self._places: dict[uuid.UUID, _Place] = {}

    def put(self, owner: uuid.UUID) -> None:
        """Skips it for `ASIDE_FOR` seconds, and twice as long each time that it meets a lock again: finding out costs a
        wait for the lock, and a batch that is turned one by one. Those that are put aside at about the same time come
        back together, into one batch.
        """
        former = self._places.get(owner)
        times = 0 if former is None else min(former.times + 1, _DOUBLED)
        span = ASIDE_FOR * 2**times
        until = time.monotonic() + span
        self._places[owner] = _Place(until + (-until % span if span else 0.0), times)

    def pass_over(self, owners: Iterable[uuid.UUID]) -> None:
        """Skips locked workflows, which were found without a wait, for `ASIDE_FOR` seconds."""
        until = time.monotonic() + ASIDE_FOR
        for owner in owners:
            self._places.setdefault(owner, _Place(until, 0)).until = until

    def now(self) -> set[uuid.UUID]:
        """Those that are passed over now. From any thread."""
        now = time.monotonic()
        return {owner for owner, place in list(self._places.items()) if place.until > now}

    def last(self, owners: Iterable[uuid.UUID]) -> list[uuid.UUID]:
        """The same, with those that were put aside before at the end."""
        return sorted(owners, key=lambda owner: owner in self._places)

    def left_out(self) -> set[uuid.UUID]:
        """Those that are passed over now."""
        if not self._places:
            return set()
        now = time.monotonic()
        self._places = {o: place for o, place in self._places.items() if place.until + _REMEMBERED_FOR > now}
        return {owner for owner, place in self._places.items() if place.until > now}
