"""A thread that makes calls for another one, which waits for each, no longer than it wants to."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from django.db import Error as DatabaseFault
from django.db import connections

Answer = TypeVar("Answer")

IDLE_SECONDS = 1.0
"""A thread that was idle for this long closes its connections."""

_Call = tuple["Future[Any]", Callable[[], Any]]


class Calls:
    """Makes calls one after the other on a thread of its own, which starts with the first one. A daemon: a call that
    never returns does not keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, call: Callable[[], Answer]) -> Future[Answer]:
        """Has a call made. Raises `RuntimeError` if the machine has no more threads."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        future: Future[Answer] = Future()
        self._calls.put((future, call))
        return future

    def end(self) -> None:
        """Lets the thread end after the calls that it was given."""
        self._calls.put(None)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (item := self._next()) is not None:
                future, call = item
                try:
                    future.set_result(call())
                # Whoever waits for the call gets whatever it raised.
                except BaseException as error:  # noqa: BLE001
                    future.set_exception(error)
                del item, future, call
        finally:
            with suppress(DatabaseFault):
                connections.close_all()

    def _next(self) -> _Call | None:
        try:
            return self._calls.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            with suppress(DatabaseFault):
                connections.close_all()
            return self._calls.get()
