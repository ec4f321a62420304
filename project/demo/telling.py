"""How the story is told: what it expects, and how long it waits for that."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

PATIENCE = timedelta(seconds=90)
"""How long an act may take before the story counts as broken. Each takes a few seconds."""

Say = Callable[[str], None]


class StoryBroken(Exception):
    """Something did not end as told."""


def expect(what: str, actual: object, promised: object) -> None:
    """Raises `StoryBroken` unless the two are equal."""
    if actual != promised:
        raise StoryBroken(f"{what}: promised {promised!r}, found {actual!r}.")


def wait_for(what: str, has_come: Callable[[], bool]) -> None:
    """Wait until it has come. Raises `StoryBroken` when it has not within `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE.total_seconds()
    while not has_come():
        if time.monotonic() > deadline:
            raise StoryBroken(f"Waited {PATIENCE} for {what} in vain.")
        time.sleep(0.02)
