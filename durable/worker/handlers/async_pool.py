"""The event loop thread that runs `async def` handlers.

Their database calls run on separate threads, see `lanes`; calls of `asyncio.to_thread` run on this loop's threads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from durable.errors.showing import said
from durable.kernel.texts.failure import for_log
from durable.logs import says_texts
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.lanes import TidyExecutor
from durable.worker.threads.logs import get_logger

Answer = TypeVar("Answer")

log = get_logger("durable.worker.async_pool")

LONGEST_MESSAGE = 1_000


class AsyncPool:
    """Runs deliveries as tasks of one loop. Started with the first one.

    `work` runs one delivery to its end and raises nothing. Lease renewal, timeouts and acknowledgements live on other
    threads: a handler that blocks this loop delays the other async handlers, and nothing else.
    """

    def __init__(self, *, work: Callable[[Delivery], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def submit(self, delivery: Delivery) -> None:
        """Starts a delivery. From any thread. Raises `RuntimeError` or `OSError` when the machine has no thread or no
        descriptor for the loop.
        """
        loop = self._running_loop()
        loop.call_soon_threadsafe(self._begin, loop, delivery)

    def close(self, seconds: float) -> None:
        """Ends the loop once its handlers have ended; waits `seconds` at most (a handler may block it, or refuse)."""
        with self._lock:
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._wind_up(), loop)
        thread.join(max(0.0, seconds))

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = _new_loop()
                loop.set_exception_handler(_complain)
                loop.set_default_executor(TidyExecutor(thread_name_prefix="durable-to-thread"))
                thread = threading.Thread(target=self._run, args=(loop,), name="durable-async-handlers", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads: a loop that nobody runs must not get this delivery
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            while not self._closing:
                self._run_on(loop)
        finally:
            loop.close()

    def _run_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """A handler that stops the loop, or whose task raises SystemExit through it, must not stop the other handlers,
        nor later ones: the loop continues.
        """
        try:
            loop.run_forever()
        # Whatever user code has raised through the loop: see above.
        except BaseException as raised:
            log.error("async_loop_raised", exc_info=for_log(raised))
        else:
            if not self._closing:
                log.error("async_loop_stopped_by_a_handler")

    def _begin(self, loop: asyncio.AbstractEventLoop, delivery: Delivery) -> None:
        task = loop.create_task(self._work(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wind_up(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
        loop = asyncio.get_running_loop()
        await loop.shutdown_asyncgens()
        self._closing = True
        loop.call_soon(loop.stop)


def _complain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs what asyncio reports, such as a task's error that was never retrieved. asyncio's own handler calls the
    error's `repr`, and does not catch what that raises.
    """
    error = context.get("exception")
    message = said(context.get("message", "A problem in the event loop"), LONGEST_MESSAGE, what="message")
    fields = {"message": message} if says_texts() else {}  # it quotes tasks, and those their errors
    log.error("async_loop_complained", **fields, exc_info=None if error is None else for_log(error))


async def interruptible(delivery: Delivery, handler: Coroutine[Any, Any, Answer]) -> Answer:
    """Awaits a handler in a task of its own, so that an interruption hits the handler and never what comes after it.

    Raises `CancelledError` when the handler was interrupted before it began.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(handler)

    def interrupt() -> None:
        with suppress(RuntimeError):  # the loop is closed: the handler is over
            loop.call_soon_threadsafe(task.cancel)

    delivery.interrupt_with(interrupt)
    await asyncio.wait({task})
    return task.result()


def _new_loop() -> asyncio.AbstractEventLoop:
    """A loop, without the debug line that asyncio logs for each: a log handler of the project would run on this thread,
    where it may neither raise nor block.
    """
    logger = logging.getLogger("asyncio")
    before, logger.disabled = logger.disabled, True
    try:
        return asyncio.new_event_loop()
    finally:
        logger.disabled = before
