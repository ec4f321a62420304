"""Ids of new workflows: UUIDv7, made here, so that the caller knows them before anything is committed."""

from __future__ import annotations

import os
import secrets
import threading
import uuid

from durable import clock

_RANDOM_BITS = 74
_STEP_BITS = 32
_TOP = 1 << _RANDOM_BITS


class Ids:
    """Ids of one process sort by creation, whatever its clock does; ids of several processes never collide."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._milliseconds = 0
        self._random = 0
        self._is_frozen = False

    def new(self) -> uuid.UUID:
        """An id that is greater than every one before. A test's frozen clock begins an order of its own, as does its
        end: otherwise ids would carry the test's year for as long as the process lives.
        """
        now, is_frozen = int(clock.host_now().timestamp() * 1000), clock.is_frozen()
        with self._lock:
            if is_frozen is not self._is_frozen:
                self._is_frozen, self._milliseconds = is_frozen, 0
            if now > self._milliseconds:
                self._milliseconds = now
                self._random = secrets.randbits(_RANDOM_BITS - 1)
            else:
                # Within one millisecond, or if the clock was set back: increase by a random step, so that ids cannot be
                # guessed.
                self._random += 1 + secrets.randbits(_STEP_BITS)
                if self._random >= _TOP:
                    self._milliseconds += 1
                    self._random = secrets.randbits(_RANDOM_BITS - 1)
            milliseconds, random = self._milliseconds, self._random
        high, low = random >> 62, random & ((1 << 62) - 1)
        return uuid.UUID(int=(milliseconds << 80) | (0x7 << 76) | (high << 64) | (0b10 << 62) | low)


_ids = Ids()


def new() -> uuid.UUID:
    """A new id of this process."""
    return _ids.new()


def _in_a_fork() -> None:
    # A forked child that continued from its parent's number would make the same ids as its sibling.
    global _ids
    _ids = Ids()


os.register_at_fork(after_in_child=_in_a_fork)
