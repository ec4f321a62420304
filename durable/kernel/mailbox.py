"""Signals of a workflow: first in, first out for each name, kept until somebody waits."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from durable.errors import PayloadError, WorkflowBlocked
from durable.kernel import birthplace

if TYPE_CHECKING:
    import uuid

    from durable.kernel.codec import Codec
    from durable.kernel.futures import WorkflowFuture
    from durable.kernel.loop import WorkflowLoop


class Mailbox:
    """Kept signals and waiters by name. For no name are there both."""

    __slots__ = ("_codec", "_kept", "_loop", "_waiting", "_workflow_id", "weight")

    def __init__(self, loop: WorkflowLoop, codec: Codec, workflow_id: uuid.UUID) -> None:
        self._loop = loop
        self._codec = codec
        self._workflow_id = workflow_id
        self._kept: dict[str, deque[str]] = {}
        self._waiting: dict[str, deque[WorkflowFuture]] = {}
        self.weight = 0

    def deliver(self, name: str, payload: str) -> None:
        """Hand a signal to the first that waits for it, or keep it behind the ones that came before."""
        if not self._hand_over(name, payload):
            self._kept.setdefault(name, deque()).append(payload)
            self.weight += len(payload)

    async def take(self, name: str, hint: Any) -> Any:
        """The next signal of this name, decoded by `hint`. A waiter that is cancelled loses nothing.

        A signal that does not decode blocks the workflow: the code that can read it may come with the next deploy.
        """
        kept = self._kept.get(name)
        if kept:
            payload = kept.popleft()
            self.weight -= len(payload)
        else:
            payload = await self._wait(name)
        born = birthplace.signal(self._workflow_id, name)
        try:
            return self._codec.decode(payload, hint, path=f"signal {name}", birthplace=born)
        except PayloadError as problem:
            self._loop.halt(
                WorkflowBlocked(
                    f"The signal {name!r} can not be read: {problem}", {"signal": name, "problem": str(problem)}
                )
            )
        return await self._loop.create_future()  # for ever: the code must not go on, nor catch this

    def unread(self) -> tuple[str, ...]:
        """The names of the signals that nobody took, one for each."""
        return tuple(name for name, kept in self._kept.items() for _ in kept)

    def awaited(self) -> tuple[str, ...]:
        """The names of the signals that somebody waits for now, one for each who does."""
        return tuple(name for name, waiters in self._waiting.items() for waiter in waiters if not waiter.done())

    def clear(self) -> None:
        """Forget who waits."""
        self._waiting.clear()

    async def _wait(self, name: str) -> str:
        waiters = self._waiting.setdefault(name, deque())
        waiter = self._loop.create_future()
        waiters.append(waiter)
        try:
            return await waiter  # type: ignore[no-any-return]
        except BaseException:  # cancellation, and GeneratorExit when the workflow is taken from memory
            if waiter.done() and not waiter.cancelled():
                self._give_back(name, waiter.result())
            else:
                waiter.cancel()
                if waiter in waiters:
                    waiters.remove(waiter)
            raise

    def _hand_over(self, name: str, payload: str) -> bool:
        waiters = self._waiting.get(name)
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(payload)
                return True
        return False

    def _give_back(self, name: str, payload: str) -> None:
        """It was handed over, but its taker was cancelled before it could look: the next one gets it."""
        if not self._hand_over(name, payload):
            self._kept.setdefault(name, deque()).appendleft(payload)
            self.weight += len(payload)
