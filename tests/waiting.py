"""Ways for threads of a test to meet. All of them speak up when somebody does not come; none of them sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from django.db import connections

Answer = TypeVar("Answer")

PATIENCE = 90.0
"""Seconds until a meeting counts as missed. Generous: it only decides how soon a broken test says so."""


class Gate:
    """A door that one thread opens and others wait at.

    A handler under test calls `pass_through()`: it tells that it has arrived, and waits until the test opens the door.
    """

    def __init__(self, name: str = "gate") -> None:
        self.name = name
        self._arrived = threading.Semaphore(0)
        self._opened = threading.Event()

    def open(self) -> None:
        """Let everybody through, now and later."""
        self._opened.set()

    def wait(self) -> None:
        """Wait until the door is open."""
        if not self._opened.wait(PATIENCE):
            raise AssertionError(f"Nobody opened {self.name!r} within {PATIENCE:g} s.")

    def pass_through(self) -> None:
        """Say that this thread is here, then wait until the door is open."""
        self._arrived.release()
        self.wait()

    def wait_for_arrival(self, count: int = 1) -> None:
        """Wait until `count` more threads have come to the door."""
        for number in range(count):
            if not self._arrived.acquire(timeout=PATIENCE):
                raise AssertionError(f"{number} of {count} came to {self.name!r} within {PATIENCE:g} s.")


class Barrier:
    """`parties` threads wait for each other; can be used again and again."""

    def __init__(self, parties: int, name: str = "barrier") -> None:
        self.name = name
        self._barrier = threading.Barrier(parties, timeout=PATIENCE)

    def wait(self) -> None:
        """Wait for the others."""
        try:
            self._barrier.wait()
        except threading.BrokenBarrierError as broken:
            raise AssertionError(
                f"Not all {self._barrier.parties} threads came to {self.name!r} within {PATIENCE:g} s."
            ) from broken


def in_thread(call: Callable[..., Answer], /, *args: Any, **kwargs: Any) -> Future[Answer]:
    """Run `call` in a thread of its own, hence with database connections of its own, closed when it ends."""
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            answer = call(*args, **kwargs)
        # The test that asked for the thread gets whatever ended it, failures of pytest included.
        except BaseException as error:
            connections.close_all()
            future.set_exception(error)
        else:
            connections.close_all()
            future.set_result(answer)

    threading.Thread(target=run, name=f"test-{getattr(call, '__name__', 'call')}", daemon=True).start()
    return future
