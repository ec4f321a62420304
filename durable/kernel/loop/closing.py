"""Evicting a suspended workflow: its coroutines are closed here, never by the garbage collector.

The user's `finally` blocks may run meanwhile. They find their loop current and their task set, but every durable call
raises and nothing is scheduled, so they can change nothing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Any

from durable.kernel.loop import lines
from durable.kernel.loop.asyncio_private import enter_task, get_running_loop, leave_task, set_running_loop
from durable.kernel.loop.event_loop import CLOSED, CLOSING, WorkflowLoop, is_exhausted
from durable.kernel.loop.futures import WorkflowTask
from durable.kernel.loop.unsupported import close_unstarted

logger = logging.getLogger("durable.workflow")

_TRIES = 1_000
_stubborn: list[Any] = []
"""Coroutines that answered every request to end with another `await`. Kept for ever, so that the garbage collector does
not try to close them.
"""


class Evicted(BaseException):
    """Thrown into suspended code to end it. Runs `finally` and `except BaseException`, as GeneratorExit would.

    Not GeneratorExit itself: it leaves inner coroutines half closed if they await in their `finally`.
    """


def close(loop: WorkflowLoop) -> None:
    """Closes the coroutines and async generators of a loop, youngest first, and shuts it. Never raises their errors.

    Runs on the calling thread; the loop must not be in the middle of a callback. Closing twice does nothing.
    """
    if loop.state in (CLOSING, CLOSED):
        return
    before = get_running_loop()
    hooks = sys.get_asyncgen_hooks()
    loop.state = CLOSING
    set_running_loop(loop)
    sys.set_asyncgen_hooks(firstiter=loop.keep_generator, finalizer=None)
    try:
        while loop.tasks or loop.generators:  # a `finally` may make more of them, which end unstarted
            if loop.tasks:
                task, _ = loop.tasks.popitem()
                if not task.done():
                    task.context.run(_close_task, loop, task)
            else:
                _close_generator(loop.generators.pop())
    finally:
        loop.shut()
        sys.set_asyncgen_hooks(*hooks)
        set_running_loop(before)


def _close_task(loop: WorkflowLoop, task: WorkflowTask) -> None:
    coroutine: Any = task.get_coro()
    close_unstarted(coroutine)
    if coroutine.cr_frame is None:
        return
    enter_task(loop, task)
    try:
        _end(coroutine, coroutine.throw)
    finally:
        leave_task(loop, task)


def _close_generator(generator: AsyncGenerator[Any, Any]) -> None:
    if is_exhausted(generator):
        return
    thrown: Any = generator.athrow(Evicted())
    try:
        thrown.send(None)
    except BaseException:  # noqa: BLE001 - as in `_end`
        return
    _end(generator, thrown.throw)


def _end(code: Any, throw: Callable[[BaseException], Any]) -> None:
    """Throws until the code has ended. An `await` in a `finally` suspends it again; that is left in the same way."""
    for _ in range(_TRIES):
        try:
            throw(Evicted())
        except BaseException:  # noqa: BLE001 - its end: its return, what was thrown, or an error of the user's `finally`
            return
    _stubborn.append(code)
    text = "%r cannot be closed: it catches everything and goes on. It stays in memory."
    lines.say(lines.made(logger, logging.WARNING, text, code))
