"""Signals of a workflow: first in, first out for each name, kept until somebody waits."""

from __future__ import annotations

import uuid
from collections import deque
from typing import Any

from durable.errors import PayloadError, SignalUnreadable, WorkflowBlocked
from durable.kernel.codec import Codec
from durable.kernel.history.commands import RecordUnreadable
from durable.kernel.loop import handled
from durable.kernel.loop.event_loop import WorkflowLoop
from durable.kernel.loop.futures import WorkflowFuture
from durable.kernel.payloads import birthplace
from durable.kernel.payloads.heft import unusual_heft
from durable.kernel.replay.calls import Calls

Signal = tuple[int, str]
"""The `seq` of its event, and its payload."""

_SIGNAL_WEIGHT = 150
_NAME_WEIGHT = 1_000
"""Roughly how many bytes a kept signal, and a name with kept signals, take besides the payloads."""


class Mailbox:
    """Kept signals and waiters by name. A name never has both.

    `weight` is roughly how many bytes the kept ones take, plus the excess size of signals that were read and are larger
    than usual, since the code may keep them. (Most code reads a signal and drops it; the history bounds how much it may
    keep of usual ones.)
    """

    __slots__ = ("_calls", "_codec", "_kept", "_loop", "_waiting", "_workflow_id", "known_unreadable", "weight")

    def __init__(self, loop: WorkflowLoop, calls: Calls, codec: Codec, workflow_id: uuid.UUID) -> None:
        self._loop = loop
        self._calls = calls
        self._codec = codec
        self._workflow_id = workflow_id
        self._kept: dict[str, deque[Signal]] = {}
        self._waiting: dict[str, deque[WorkflowFuture]] = {}
        self.weight = 0
        self.known_unreadable: dict[int, str] = {}
        """The markers of a replayed activation, by the `seq` of their signal."""

    def deliver(self, name: str, signal: Signal) -> None:
        """Gives a signal to the first waiter, or keeps it after the earlier ones."""
        if not self._hand_over(name, signal):
            self._keep(name, signal).append(signal)

    async def take(self, name: str, hint: Any) -> Any:
        """The next signal of this name, decoded by `hint`. A waiter that is cancelled loses nothing.

        A signal that does not match the type asked for raises `SignalUnreadable` in the code, and is recorded, so that
        every replay raises it: nobody outside can block a workflow. Faults that only a deploy can have caused do block
        it: a payload that the codec cannot open, or one that was readable before.
        """
        handled.mark(self._loop)
        kept = self._kept.get(name)
        if kept:
            seq, payload = kept.popleft()
            self.weight -= _SIGNAL_WEIGHT + len(payload)
            if not kept:
                del self._kept[name]
                self.weight -= _NAME_WEIGHT
        else:
            seq, payload = await self._wait(name)
        born = birthplace.signal(self._workflow_id, name)
        try:
            plain = self._codec.opened(payload, path=f"signal {name}", birthplace=born)
            self.weight += unusual_heft(plain)
            data = self._codec.natives(plain, path=f"signal {name}")
        except PayloadError as problem:
            return await self._block(name, problem)
        said = self.known_unreadable.get(seq)
        if said is None:
            try:
                return self._codec.read(data, hint, path=f"signal {name}")
            except PayloadError as problem:
                if self._loop.replaying:
                    return await self._block(name, problem)
                said = str(problem)
        self._calls.issued.append(RecordUnreadable(seq, said))
        raise SignalUnreadable(name, said)

    async def _block(self, name: str, problem: PayloadError) -> Any:
        self._loop.halt(
            WorkflowBlocked(f"The signal {name!r} cannot be read: {problem}", {"signal": name, "problem": str(problem)})
        )
        return await self._loop.create_future()  # never returns: the code must not continue, nor catch this

    def unread(self) -> tuple[str, ...]:
        """The names of the signals that nobody took, one for each."""
        return tuple(name for name, kept in self._kept.items() for _ in kept)

    def awaited(self) -> tuple[str, ...]:
        """The names of the signals that somebody waits for now, one for each who does."""
        return tuple(name for name, waiters in self._waiting.items() for waiter in waiters if not waiter.done())

    def clear(self) -> None:
        """Forgets who waits."""
        self._waiting.clear()

    async def _wait(self, name: str) -> Signal:
        waiters = self._waiting.setdefault(name, deque())
        waiter = self._loop.create_future()
        waiters.append(waiter)
        try:
            return await waiter  # type: ignore[no-any-return]
        except BaseException:  # cancellation, and GeneratorExit when the workflow is evicted
            if waiter.done() and not waiter.cancelled():
                self._give_back(name, waiter.result())
            else:
                waiter.cancel()
                if waiter in waiters:
                    waiters.remove(waiter)
            raise

    def _hand_over(self, name: str, signal: Signal) -> bool:
        waiters = self._waiting.get(name)
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(signal)
                return True
        return False

    def _give_back(self, name: str, signal: Signal) -> None:
        """It was delivered, but its waiter was cancelled before it ran: the next waiter gets it."""
        if not self._hand_over(name, signal):
            self._keep(name, signal).appendleft(signal)

    def _keep(self, name: str, signal: Signal) -> deque[Signal]:
        """The queue for one more signal of this name, whose weight is counted from now on."""
        kept = self._kept.get(name)
        if kept is None:
            kept = self._kept[name] = deque()
            self.weight += _NAME_WEIGHT
        self.weight += _SIGNAL_WEIGHT + len(signal[1])
        return kept
