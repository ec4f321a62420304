"""Memory that a supervisor shares with its workers: each writes its values there, and the supervisor reads them.

Anonymous maps, made before the forks: nothing is left behind on a disk, and pages that nobody writes take no memory.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from typing import Final

from durable.metrics import readings
from durable.metrics.readings import Readings

LARGEST: Final = 4 * 2**20
"""Bytes of one worker's values: more than `counting.MOST_NAMES` of the longest names take."""

_HEAD: Final = struct.Struct("<II")


class Segment:
    """The values of one worker process, in two halves: while one is written, the other one is whole.

    Only one process writes. A writer that dies in the middle leaves what it wrote before.
    """

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._half = _HEAD.size + largest
        self._map = mmap.mmap(-1, 1 + 2 * self._half)

    def write(self, values: Readings) -> bool:
        """Returns whether they have fitted; if not, the values before stay."""
        data = values.dumped()
        if len(data) > self._largest:
            return False
        half = 1 - self._map[0]
        at = 1 + half * self._half
        self._map[at : at + _HEAD.size + len(data)] = _HEAD.pack(len(data), zlib.crc32(data)) + data
        self._map[0] = half
        return True

    def read(self) -> Readings | None:
        """The latest values; None if nothing was written, or if they changed twice while they were read."""
        at = 1 + self._map[0] * self._half
        size, check = _HEAD.unpack(self._map[at : at + _HEAD.size])
        data = self._map[at + _HEAD.size : at + _HEAD.size + min(size, self._largest)]
        return readings.loaded(data) if size and zlib.crc32(data) == check else None

    def clear(self) -> None:
        """For the next process: nothing was written. While nobody writes."""
        for half in (0, 1):
            at = 1 + half * self._half
            self._map[at : at + _HEAD.size] = bytes(_HEAD.size)


class Wanted:
    """What the supervisor tells all of its workers: which of them asks the database, and when somebody last wanted to
    know, by the monotonic clock. Only the supervisor writes.
    """

    _LAYOUT: Final = struct.Struct("<id")

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, self._LAYOUT.size)

    def tell(self, *, asker: int, at: float) -> None:
        """The number of the worker that asks, and when a value was last wanted."""
        self._map[: self._LAYOUT.size] = self._LAYOUT.pack(asker, at)

    def read(self) -> tuple[int, float]:
        """What was told; (0, 0.0) if nothing was."""
        asker, at = self._LAYOUT.unpack(self._map[: self._LAYOUT.size])
        return asker, at
