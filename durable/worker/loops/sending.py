"""Calls a transport on a thread of its own, with a time limit: a broker that hangs holds up nobody else."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial

from durable.transports.interface import Transport
from durable.worker.threads.calls import Calls

CALL_FOR = 10.0
"""Seconds that one call of a transport may take."""

MOST_HANGING = 3
"""How many threads whose call has not come back are left to it. Until one of them does, no further call is made."""


class CallHangs(Exception):
    """A call of a transport has taken longer than it may, or so many do that no other is made."""


class Sender:
    """The transport of one queue. After a call that took too long, its thread and its transport are left alone, and new
    ones are made. Used by one thread.
    """

    def __init__(self, name: str, make: Callable[[], Transport], *, call_for: float | None = None) -> None:
        self._name = name
        self._make = make
        self._call_for = CALL_FOR if call_for is None else call_for
        self._calls: Calls | None = None
        self._transport: Transport | None = None
        self._hanging: list[Future[None]] = []

    def ping(self) -> None:
        """Raises what the transport raises, or `CallHangs`."""
        self._call(lambda transport: transport.ping())

    def send(self, row_id: int, token: uuid.UUID) -> None:
        """The same for sending one delivery."""
        self._call(lambda transport: transport.send(row_id, token))

    def end(self) -> None:
        """Lets the thread end."""
        if self._calls is not None:
            self._calls.end()
            self._calls = None

    def _call(self, call: Callable[[Transport], None]) -> None:
        self._hanging = [future for future in self._hanging if not future.done()]
        if len(self._hanging) >= MOST_HANGING:
            raise CallHangs(f"{len(self._hanging)} calls of the transport of {self._name!r} have not come back.")
        if self._calls is None:
            self._calls = Calls(f"durable-send-{self._name}")
        made = self._calls.put(partial(self._make_and_call, self._calls, call))
        try:
            made.result(self._call_for)
        except FutureTimeout:
            if made.done():  # the transport's own
                raise
            self._hanging.append(made)
            self.end()
            self._transport = None
            raise CallHangs(
                f"A call of the transport of {self._name!r} has taken longer than {self._call_for:g} s."
            ) from None

    def _make_and_call(self, calls: Calls, call: Callable[[Transport], None]) -> None:
        """On the thread of the calls."""
        transport = self._transport
        if transport is None:
            transport = self._make()
            if self._calls is calls:  # else it has come too late
                self._transport = transport
        call(transport)
