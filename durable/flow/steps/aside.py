"""Workflows whose turn met somebody else's lock: passed over for a few seconds, so that no other waits for them."""

from __future__ import annotations

import time
import uuid

ASIDE_FOR = 5.0
"""Seconds."""


class Aside:
    """What the turns of one process pass over for now. Kept for all of them, on the turn thread."""

    def __init__(self) -> None:
        self._until: dict[uuid.UUID, float] = {}

    def put(self, owner: uuid.UUID) -> None:
        """Pass it over for `ASIDE_FOR` seconds."""
        self._until[owner] = time.monotonic() + ASIDE_FOR

    def left_out(self) -> set[uuid.UUID]:
        """Those that are passed over now."""
        if self._until:
            now = time.monotonic()
            self._until = {owner: until for owner, until in self._until.items() if until > now}
        return set(self._until)
