"""Taking a suspended workflow from memory, in the open: its coroutines are closed here, never by the collector.

A user's `finally` may run while that happens. It finds its loop current and its task set, but every durable call
raises and nothing is scheduled, so that it can change nothing.
"""

from __future__ import annotations

import logging
import sys
from asyncio.events import _get_running_loop, _set_running_loop
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from durable.kernel.loop import Mode
from durable.kernel.unsupported import close_unstarted

if TYPE_CHECKING:
    from durable.kernel.futures import WorkflowTask
    from durable.kernel.loop import WorkflowLoop

logger = logging.getLogger("durable.workflow")

_TRIES = 20
_stubborn: list[Any] = []
"""What answered every request to close with another `await`. Kept for ever, so that the collector does not try, too."""


def close(loop: WorkflowLoop) -> None:
    """Close the coroutines and async generators of a loop, youngest first, and shut it. Never raises for their errors.

    Runs on the calling thread; the loop must not be in the middle of a callback. Closing twice does nothing.
    """
    if loop.mode in (Mode.CLOSING, Mode.CLOSED):
        return
    before = _get_running_loop()
    hooks = sys.get_asyncgen_hooks()
    loop.mode = Mode.CLOSING
    _set_running_loop(loop)
    sys.set_asyncgen_hooks(firstiter=loop.keep_generator, finalizer=None)
    try:
        for task in reversed(list(loop.tasks)):
            if not task.done():
                task.context.run(_close_task, loop, task)
        while loop.generators:
            _close_generator(loop.generators.pop())
    finally:
        loop.shut()
        sys.set_asyncgen_hooks(*hooks)
        _set_running_loop(before)


def _close_task(loop: WorkflowLoop, task: WorkflowTask) -> None:
    coroutine: Any = task.get_coro()
    close_unstarted(coroutine)
    _enter_task(loop, task)
    try:
        _insist(coroutine, coroutine.close)
    finally:
        _leave_task(loop, task)


def _close_generator(generator: AsyncGenerator[Any, Any]) -> None:
    def attempt() -> None:
        closing: Any = generator.aclose()
        try:
            closing.send(None)
        except StopIteration:
            return
        closing.close()  # its `finally` awaits something: that await is closed as well

    _insist(generator, attempt)


def _insist(what: Any, attempt: Callable[[], None]) -> None:
    """Close until it is closed. RuntimeError: it caught GeneratorExit and awaited something else."""
    for _ in range(_TRIES):
        try:
            attempt()
        except BaseException:  # noqa: BLE001 - the user's `finally`, which found its durable calls refused
            if _is_over(what):
                return
        else:
            return
    _stubborn.append(what)
    logger.warning("%r can not be closed: it catches GeneratorExit and goes on. It stays in memory.", what)


def _is_over(what: Any) -> bool:
    frame = getattr(what, "cr_frame", None) or getattr(what, "ag_frame", None)
    return frame is None
