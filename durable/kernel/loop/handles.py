"""Callbacks of a workflow's loop: ready ones, and those that wait for their time.

They do what asyncio promises of a handle, and are not made of its own: those look for debug mode, keep tracebacks, and
can only be run through their private attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Protocol

TimerId = tuple[int, int]

NEVER = -1
"""In place of a due time: infinitely far."""


class ReadyHandle:
    """A callback that is ready to run; what `call_soon` returns."""

    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> None:
        self.callback = callback
        self.args = args
        self.context = copy_context() if context is None else context
        self.is_cancelled = False

    def cancel(self) -> None:
        """The callback will not run; its references are dropped."""
        self.is_cancelled = True
        self.callback = _nothing
        self.args = ()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.is_cancelled

    def get_context(self) -> Context:
        """The context that the callback runs in."""
        return self.context


class KeepsTimers(Protocol):
    """What pending handles are kept in: the `Timers` of a run."""

    def cancelled(self, handle: TimerHandle, /) -> None:
        """The handle is not pending any longer."""


class TimerHandle(ReadyHandle):
    """What `call_at` and `call_later` return. `id` is None until the activation is idle."""

    __slots__ = ("_timers", "born", "due", "id")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        *,
        timers: KeepsTimers,
        due: int,
        born: int,
    ) -> None:
        super().__init__(callback, args, context)
        self._timers = timers
        self.due = due
        self.born = born
        self.id: TimerId | None = None

    def cancel(self) -> None:
        if not self.is_cancelled:
            self._timers.cancelled(self)
        super().cancel()

    def when(self) -> float:
        """The moment at which it is due, by the loop's clock."""
        return math.inf if self.due == NEVER else self.due / 1_000_000


def _nothing() -> None:
    """What a cancelled handle would call."""
