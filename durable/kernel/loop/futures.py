"""Futures and tasks of a workflow. They hash by a number, never by their address.

`asyncio.wait`, `TaskGroup` and others keep futures in sets and act in the order of iteration; an address would make
that order differ between the first run and its replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import Context
from typing import Any, Protocol


class WorkflowFuture(asyncio.Future[Any]):
    """A future with a number of its own; what `loop.create_future()` returns inside a workflow."""

    __slots__ = ("number",)

    number: int

    def __hash__(self) -> int:
        return self.number


class Withdraws(Protocol):
    """What the futures of activities belong to: the `Calls` of a run."""

    def withdraw(self, future: ActivityFuture, /) -> None:
        """The future was cancelled."""


class ActivityFuture(WorkflowFuture):
    """What `.execute()` returns: the future outcome of an activity that was called.

    `ordinal` is 0 until the activation is idle. Cancelling it asks for the cancellation of the activity's row, or,
    within the activation of the call, makes the call undone.
    """

    __slots__ = ("activity", "calls", "digest", "hint", "options", "ordinal", "payload")

    activity: str
    calls: Withdraws
    digest: str
    hint: Any
    options: Mapping[str, Any]
    ordinal: int
    payload: str

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        self.calls.withdraw(self)
        return True

    def close(self) -> None:
        """Like `close()` of a coroutine that will not be awaited: `TaskGroup` closes what it cannot accept."""
        self.cancel()


class WorkflowTask(asyncio.Task[Any]):
    """A task with a number of its own. `context` is the one its code runs in, also when it is closed."""

    __slots__ = ("context", "number")

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        loop: asyncio.AbstractEventLoop,
        number: int,
        name: str,
        context: Context,
    ) -> None:
        self.number = number  # first: the constructor of Task puts the task into a set
        self.context = context
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number
