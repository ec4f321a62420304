"""The threads that run `def` handlers."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from django.db import Error as DatabaseFault
from django.db import connections

from durable.worker.handlers.delivery import Delivery
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.pool")

IDLE_SECONDS = 1.0
"""A thread that was idle for this long closes the connections that the project does not want kept."""


class HandlerPool:
    """At most `size` threads that take deliveries in order. A thread is made when one is needed and none is idle.

    `work` runs one delivery to its end and raises nothing. `more` is called after each for another one on the same
    thread: passing it to another thread would cost more than many handlers do. A thread whose delivery has timed out is
    replaced: it runs until its handler returns, takes no further work, and ends.
    """

    def __init__(
        self, size: int, *, work: Callable[[Delivery], None], more: Callable[[], Delivery | None] = lambda: None
    ) -> None:
        self._size = size
        self._work = work
        self._more = more
        self._queue: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._waiting = 0
        self._queued = 0
        self._running: dict[Delivery, _PoolThread] = {}
        self._closed = False
        self._all: set[threading.Thread] = set()
        self._numbers = 0

    @property
    def size(self) -> int:
        """How many deliveries can run at once, now. Overrun threads do not count."""
        with self._lock:
            return self._size if not self._closed else 0

    @property
    def threads(self) -> int:
        """How many threads are there to take work."""
        with self._lock:
            return self._threads

    def submit(self, delivery: Delivery) -> None:
        """Runs a delivery as soon as a thread is free. Raises `RuntimeError` if there is none, and none can
        be created.
        """
        with self._lock:
            if self._queued >= self._waiting and self._threads < self._size:
                self._spawn_one_more()
            self._queued += 1
            self._queue.put(delivery)

    def replace(self, delivery: Delivery) -> None:
        """The thread of this delivery is left to its handler; another one may take its place."""
        with self._lock:
            pool_thread = self._running.get(delivery)
            if pool_thread is None or pool_thread.left:
                return
            pool_thread.left = True
            self._threads -= 1
            if self._queued > self._waiting and not self._closed:
                with suppress(RuntimeError):  # the next delivery tries again
                    self._spawn_one_more()

    def close(self, seconds: float) -> None:
        """Lets idle threads end, and the others after their work. Waits for the idle ones, `seconds` at most."""
        end = time.monotonic() + seconds
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._queue.put(None)
            busy = {pool_thread.thread for pool_thread in self._running.values()}
            idle = [thread for thread in self._all if thread not in busy]
        for thread in idle:
            thread.join(max(0.0, end - time.monotonic()))

    def _spawn_one_more(self) -> None:
        """Starts one more thread; if the system has no more, the existing ones do the work."""
        try:
            self._spawn()
        except RuntimeError as full:
            log.warning("no_more_threads", threads=self._threads, wanted=self._size, error=str(full))
            if not self._threads:
                raise

    def _spawn(self) -> None:
        self._numbers += 1
        # Daemons: a handler that never returns must not keep the process from ending after its grace period.
        thread = threading.Thread(target=self._run, name=f"durable-handler-{self._numbers}", daemon=True)
        thread.start()
        self._threads += 1
        self._all.add(thread)

    def _run(self) -> None:
        pool_thread = _PoolThread()
        try:
            while not pool_thread.left and (delivery := self._next()) is not None:
                with self._lock:
                    self._queued -= 1
                following: Delivery | None = delivery
                while following is not None:
                    self._run_one(following, pool_thread)
                    following = None if pool_thread.left else self._more()
        finally:
            with self._lock:
                self._all.discard(pool_thread.thread)
                if not pool_thread.left:
                    self._threads -= 1
            connections.close_all()

    def _run_one(self, delivery: Delivery, pool_thread: _PoolThread) -> None:
        with self._lock:
            self._running[delivery] = pool_thread
        try:
            self._work(delivery)
        finally:
            with self._lock:
                del self._running[delivery]

    def _next(self) -> Delivery | None:
        with self._lock:
            self._waiting += 1
        try:
            try:
                return self._queue.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                self._rest()
                return self._queue.get()
        finally:
            with self._lock:
                self._waiting -= 1

    def _rest(self) -> None:
        """A connection that cannot be closed must not end the thread."""
        try:
            hygiene.rest()
        except DatabaseFault:
            hygiene.drop()


class _PoolThread:
    """What a thread knows of itself."""

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.left = False
