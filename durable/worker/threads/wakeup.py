"""How the threads of one process wake each other, and how a process notices the work of others.

Inside a process a wake-up is immediate. Between processes the loops poll, with a back-off up to `POLL_FOR`; on SQLite a
`ForeignWrites` watcher makes short intervals cheap by reading only `PRAGMA data_version`.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Protocol

from django.db import connections


def readable(descriptors: Iterable[int], seconds: float, *, writable: Iterable[int] = ()) -> set[int]:
    """Waits until one of the descriptors has something to read, or one of `writable` takes more, `seconds` at most;
    returns those.

    By `poll`: `select` refuses descriptors above 1023, which a process with many open files gets.
    """
    polled = select.poll()
    for descriptor in descriptors:
        polled.register(descriptor, select.POLLIN)
    for descriptor in writable:
        polled.register(descriptor, select.POLLOUT)
    return {descriptor for descriptor, _ in polled.poll(seconds * 1000)}


class Wake:
    """A bell for one loop. If it rings while the loop is working, the loop looks once more afterwards."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        """Makes the loop look again now. From any thread."""
        if not self._event.is_set():  # several times cheaper than setting it again, and usually the case
            self._event.set()

    @property
    def rung(self) -> bool:
        """Whether the loop will look again anyway."""
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        """Waits for the bell, `seconds` at most, and resets it."""
        self._event.wait(seconds)
        self._event.clear()


class Pace:
    """How long an idle loop rests: short at first, doubling up to `longest`, short again after work was found."""

    def __init__(self, longest: timedelta) -> None:
        self._longest = longest.total_seconds()
        self._next = self._longest / 8

    def worked(self) -> float:
        """Something was found: look again at once. Returns the seconds to rest."""
        self._next = self._longest / 8
        return 0.0

    def idle(self) -> float:
        """Nothing was found. Returns the seconds to rest."""
        rest = self._next
        self._next = min(self._next * 2, self._longest)
        return rest


class Timing(Protocol):
    """The time interface of waiting threads. Tests pass one that only counts."""

    def now(self) -> int:
        """Microseconds on a clock that never goes back."""
        ...

    def wait(self, condition: threading.Condition, microseconds: int | None) -> None:
        """Waits on a condition that the caller holds; None waits for a notification only."""
        ...


class HostTiming:
    """Real time."""

    def now(self) -> int:
        return time.monotonic_ns() // 1000

    def wait(self, condition: threading.Condition, microseconds: int | None) -> None:
        condition.wait(None if microseconds is None else microseconds / 1_000_000)


class Doorbell:
    """Wakes the main thread, even from a signal handler, where locks are not allowed: two sockets and a select."""

    def __init__(self) -> None:
        self._inner, self._outer = socket.socketpair()
        for end in (self._inner, self._outer):
            end.setblocking(False)

    def fileno(self) -> int:
        """For select."""
        return self._inner.fileno()

    def ring(self) -> None:
        """Wakes the waiting thread. Safe in signal handlers, from any thread, and after `close`."""
        with suppress(OSError):  # full of rings that were not read yet, or closed
            self._outer.send(b"!")

    def wait(self, seconds: float) -> None:
        """Waits for a ring, `seconds` at most."""
        if readable([self._inner.fileno()], seconds):
            self._inner.recv(4096)

    def close(self) -> None:
        """Gives the sockets back."""
        self._inner.close()
        self._outer.close()


class ForeignWrites:
    """Notices on SQLite that another connection has written, at the price of one read without a lock."""

    def __init__(self, *, alias: str, on_change: Callable[[], None]) -> None:
        self._alias = alias
        self._on_change = on_change
        self._seen: int | None = None

    def look(self) -> None:
        """Checks once; calls back if the database has changed since the last look (or the connection is new)."""
        with connections[self._alias].cursor() as cursor:
            version: int = cursor.execute("PRAGMA data_version").fetchone()[0]
        if version != self._seen:
            self._seen = version
            self._on_change()
