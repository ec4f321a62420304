"""Futures and tasks of a workflow. They hash by a number, never by their address.

`asyncio.wait`, `TaskGroup` and others keep futures in sets and act in the order of iteration; an address would make
that order differ between the first run and its replay.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextvars import Context
from typing import Any, Protocol

from durable.errors import UsageError
from durable.kernel.loop.asyncio_private import CANCELLING_AND_WAITING


class WorkflowFuture(asyncio.Future[Any]):
    """A future with a number of its own; what `loop.create_future()` returns inside a workflow."""

    __slots__ = ("number",)

    number: int

    def __hash__(self) -> int:
        return self.number


class Withdraws(Protocol):
    """What the futures of calls belong to: the `Calls` of a run."""

    def withdraw(self, future: CallFuture, /) -> None:
        """The future was cancelled."""

    def send(self, *, to: uuid.UUID, name: str | None, value: Any) -> Sending:
        """A signal (`name`), or a request to cancel (None), was asked for."""


class CallFuture(WorkflowFuture):
    """The future outcome of something that the code has asked for.

    `ordinal` is 0 until the activation is idle. A call that is cancelled within its own activation leaves no trace.
    """

    __slots__ = ("calls", "ordinal")

    calls: Withdraws
    ordinal: int

    def cancel(self, msg: Any | None = None) -> bool:
        return self.withdraw(msg)

    def withdraw(self, msg: Any | None = None) -> bool:
        """Cancels the future: nobody awaits it any more."""
        if not super().cancel(msg):
            return False
        self.calls.withdraw(self)
        return True

    def close(self) -> None:
        """Like `close()` of a coroutine that will not be awaited: `TaskGroup` closes what it cannot accept."""
        self.withdraw()


class ActivityFuture(CallFuture):
    """What `.execute()` of an activity returns. Cancelling it asks for the cancellation of the activity's row."""

    __slots__ = ("activity", "digest", "hint", "options", "payload")

    activity: str
    digest: str
    hint: Any
    options: Mapping[str, Any]
    payload: str


class Sending(CallFuture):
    """What sending to another workflow returns: done when it is known whether that workflow has accepted it.

    Nobody is told so, and it costs no event, unless the code awaits it in the activation in which it was sent.
    """

    __slots__ = ("digest", "is_awaited", "is_forgotten", "key", "name", "payload", "to", "type")

    digest: str
    is_awaited: bool
    is_forgotten: bool
    key: str
    name: str | None
    payload: str
    to: uuid.UUID | None
    type: str

    def __await__(self) -> Generator[Any, None, None]:
        self._refuse_if_forgotten()
        return super().__await__()

    __iter__ = __await__

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        self._refuse_if_forgotten()
        self.is_awaited = True
        super().add_done_callback(fn, context=context)

    def _refuse_if_forgotten(self) -> None:
        if self.is_forgotten:
            raise UsageError(
                "What becomes of a signal or a request to cancel is not known later: await it where it is sent."
            )


class _NotGiven:
    """Tells `child.cancel()` from asyncio's `cancel(msg)`."""


_NOT_GIVEN = _NotGiven()


class Child(CallFuture):
    """A child workflow that this one has started: await it for its result. It is started whether or not it is awaited.

    `id`, `type` (the registered name) and `key` are known at once, and are the same in every replay. Awaiting it raises
    `ChildFailed`, `ChildCancelled` or `ChildTimedOut` if it ends otherwise, and `KeyTaken` if its key was taken. If the
    awaiting is cancelled, the child is asked to cancel, unless it was abandoned.
    """

    __slots__ = ("digest", "hint", "id", "key", "options", "parent_close", "payload", "type")

    digest: str
    hint: Any
    id: uuid.UUID
    key: str | None
    options: Mapping[str, Any]
    parent_close: str
    payload: str
    type: str

    def signal(self, name: str, payload: Any = None) -> Sending:
        """Sends the child a signal. Await what this returns only to learn that it was accepted: then it raises
        `WorkflowClosed`, `WorkflowNotFound` or `MailboxFull` if it was not.
        """
        return self.calls.send(to=self.id, name=name, value=payload)

    def cancel(self, msg: Any = _NOT_GIVEN, *, reason: str = "") -> Any:
        """Asks the child to cancel; it may clean up first, and awaiting it still brings its end. To give it up instead,
        cancel the task that awaits it.
        """
        # The same name means something else to asyncio, which passes a message, but for `wait_for` of Python 3.11.
        if msg is not _NOT_GIVEN or sys._getframe(1).f_code is CANCELLING_AND_WAITING:
            return self.withdraw(None if msg is _NOT_GIVEN else msg)
        return self.calls.send(to=self.id, name=None, value=reason)


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
