"""Threads for the database calls of async code: each handler has one of its own while it runs, if it needs one.

Django's async ORM, and all that `sync_to_async` runs thread-sensitively, works on one thread of the process unless the
context names another. Django's ASGI handler names one for each request; here each handler gets one, so that handlers
which run beside each other share no connection and no session state. What `asyncio.to_thread` runs is covered, too.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import Error as DatabaseFault
from django.db import connections

from durable.worker.handlers import isolation
from durable.worker.threads import hygiene

T = TypeVar("T")

IDLE_SECONDS = 1.0
CLEAN_WITHIN = 10.0
"""Seconds that the end of a handler waits for the lane to be cleaned. A call that a cancelled handler left running may
take longer; then the lane is abandoned to it.
"""

_executors: Any = SyncToAsync.context_to_thread_executor
"""Where asgiref looks up the thread of a context. Contexts are weakly referenced."""

_Item = tuple["Future[Any]", Callable[[], Any]]


class Lane(Executor):
    """One thread, made at the first call. asgiref finds it by the context that handlers run in."""

    def __init__(self) -> None:
        self.context = ThreadSensitiveContext()
        self.used = False
        self.stuck = False
        self._calls: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Runs a call of a handler on the thread. Before the first one its connections are checked. Raises
        `RuntimeError` if called from the thread itself, which would wait for its own end.
        """
        self._refuse_its_own_thread()
        if not self.used:
            self.used = True
            self._put(isolation.begin)
        return self._put(partial(fn, *args, **kwargs))

    async def left_open(self) -> list[str]:
        """After an async handler: aliases on which it left a transaction open."""
        if not self.used:
            return []
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._put(hygiene.left_open)), CLEAN_WITHIN)
        except TimeoutError:
            self.stuck = True
            return []

    def left_open_now(self) -> list[str]:
        """The same after a sync handler, which may have run a loop."""
        if not self.used:
            return []
        try:
            return self._put(hygiene.left_open).result(CLEAN_WITHIN)
        except TimeoutError:
            self.stuck = True
            return []

    def clean(self) -> None:
        """After a handler: reset the sessions that it used, before the next one's first call."""
        if self.used:
            self.used = False
            self._put(isolation.leave)

    def end(self) -> None:
        """Ends the thread once its calls have ended; its connections are closed then."""
        self._calls.put(None)

    def join(self, seconds: float) -> None:
        """Waits until the thread has ended, `seconds` at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _refuse_its_own_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "asyncio.run() inside a call of sync_to_async() cannot call sync_to_async() again: its thread is the "
                "one that waits here. Use async_to_sync() in place of asyncio.run()."
            )

    def _put(self, call: Callable[[], T]) -> Future[T]:
        if self._thread is None:
            # A daemon: a call that never returns must not keep the process from ending.
            thread = threading.Thread(target=self._run, name="durable-async-calls", daemon=True)
            thread.start()  # raises if there are no more threads, which the handler gets
            self._thread = thread
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    def _run(self) -> None:
        while (item := self._next()) is not None:
            _carry_out(*item)
            del item  # the future holds what the call returned
        connections.close_all()

    def _next(self) -> _Item | None:
        try:
            return self._calls.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            _rest()
            return self._calls.get()


class _Afterwards(Lane):
    """Runs the calls of tasks that outlive their handlers. No connection, and no transaction, outlives a call."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Runs a call, and closes what it has opened."""
        self._refuse_its_own_thread()
        return self._put(partial(_and_close, partial(fn, *args, **kwargs)))


class Lanes:
    """The lanes of a worker. An idle one is reused before another is made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Lane] = []
        self._afterwards = _Afterwards()
        self._closed = False

    @contextmanager
    def borrowed(self) -> Iterator[Lane]:
        """A lane for one handler: code in this context, and in copies of it, makes its database calls there.

        Only until the handler ends: calls of a task that it has left running must not get into the next one's session.
        """
        with self._lock:
            lane = self._idle.pop() if self._idle else Lane()
        lane.context = ThreadSensitiveContext()
        _executors[lane.context] = lane
        token = SyncToAsync.thread_sensitive_context.set(lane.context)
        try:
            yield lane
        finally:
            SyncToAsync.thread_sensitive_context.reset(token)

    def give_back(self, lane: Lane) -> None:
        """The handler has ended: cleans the lane for the next one."""
        _executors[lane.context] = self._afterwards
        lane.clean()
        with self._lock:
            if not (self._closed or lane.stuck):
                self._idle.append(lane)
                return
        lane.end()

    def close(self, seconds: float) -> None:
        """Ends the idle lanes, waiting `seconds` at most; the others end when they are given back."""
        end = time.monotonic() + seconds
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for lane in (*idle, self._afterwards):
            lane.end()
        for lane in (*idle, self._afterwards):
            lane.join(max(0.0, end - time.monotonic()))


class TidyExecutor(ThreadPoolExecutor):
    """What a loop's `to_thread` runs on: after each call the thread's connections are closed."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Runs a call, and closes what it has opened."""
        return super().submit(_and_close, partial(fn, *args, **kwargs))


def _and_close(call: Callable[[], T]) -> T:
    try:
        return call()
    finally:
        hygiene.drop()


def _carry_out(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    # Whatever a handler's call raises belongs to the handler.
    except BaseException as error:  # noqa: BLE001
        future.set_exception(error)


def _rest() -> None:
    try:
        hygiene.rest()
    except DatabaseFault:
        with suppress(DatabaseFault):
            hygiene.drop()
