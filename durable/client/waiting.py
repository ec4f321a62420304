"""Waiting for results in async code: one thread of the process polls for all of them, with one connection.

It runs while somebody waits, and a moment longer. The waiters are futures, of any number of event loops.
"""

from __future__ import annotations

import asyncio
import copy
import os
import threading
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TypeVar

from asgiref.sync import AsyncToSync, SyncToAsync, sync_to_async
from django.db import connections

from durable.errors import WorkflowNotFound
from durable.flow.looks import look
from durable.flow.transactions import transaction
from durable.outcomes import Snapshot

T = TypeVar("T")

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.25
"""Seconds between looks at a workflow whose result is waited for; each pause is twice the one before."""
LINGER = 0.05
"""Seconds for which the thread stays when nobody waits, so that consecutive `await`s need no new connection."""
STORE_GRACE = 1.0
"""Seconds beyond its timeout that a waiter gives the last look, so that a hanging database does not hold it longer."""


READ_AT_ONCE = 4_000_000
"""Bytes of results that are read at once, however many workflows have ended between two looks."""


class Ticket:
    """One waiter. If its loop or its future is gone, it waits for nothing."""

    def __init__(self, workflow_id: uuid.UUID, seconds: float | None, future: asyncio.Future[Snapshot]) -> None:
        self.workflow_id = workflow_id
        self.seconds = seconds
        self.ends = None if seconds is None else monotonic() + seconds
        self.loop = future.get_loop()
        self._future = weakref.ref(future)
        self.at = 0.0
        self._pause = FIRST_PAUSE

    def future(self) -> asyncio.Future[Snapshot] | None:
        """The future, while somebody holds it and its loop is there."""
        return None if self.loop.is_closed() else self._future()

    def again(self) -> None:
        """Looks once more after a pause, or at the end of its time."""
        self.at = monotonic() + self._pause
        if self.ends is not None:
            self.at = min(self.at, self.ends)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def is_late(self) -> bool:
        """Whether its time was up at the last look."""
        return self.ends is not None and self.ends <= self.at


class Waiter:
    """The tickets of the process, and the thread that polls for them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tickets: set[Ticket] = set()
        self._thread: threading.Thread | None = None

    def add(self, ticket: Ticket) -> None:
        """Starts polling for a ticket."""
        with self._changed:
            self._tickets.add(ticket)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="durable-results", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads: the caller gets the error
                    self._tickets.discard(ticket)
                    raise
                self._thread = thread
            self._changed.notify()

    def remove(self, ticket: Ticket) -> None:
        """Nobody waits for this ticket any longer."""
        with self._changed:
            self._tickets.discard(ticket)
            self._changed.notify()

    def _run(self) -> None:
        try:
            transaction.keep_out_of_the_pool()
            while tickets := self._next():
                self._look(tickets)
        except BaseException as error:  # noqa: BLE001 - memory was short, say: the waiters get it
            self._end_with(error)
        finally:
            connections.close_all()

    def _end_with(self, error: BaseException) -> None:
        """Gives the error to all that wait. The next one to wait begins another thread."""
        with self._changed:
            tickets, self._tickets, self._thread = list(self._tickets), set(), None
        for ticket in tickets:
            self._answer(ticket, error, None)

    def _next(self) -> list[Ticket]:
        """Waits until a look is due for somebody, and returns all tickets, since one statement serves them all. An
        empty list ends the thread.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._tickets, LINGER)
            while True:
                # Of copies: the garbage collector may close an abandoned `aresult()` here, which removes its ticket.
                self._tickets = {ticket for ticket in list(self._tickets) if ticket.future() is not None}
                if not self._tickets:
                    self._thread = None
                    return []
                left = min((ticket.at for ticket in list(self._tickets)), default=0) - monotonic()
                if left <= 0:
                    return list(self._tickets)
                self._changed.wait(left)

    def _look(self, tickets: list[Ticket]) -> None:
        now = monotonic()
        for ticket in tickets:
            ticket.at = now
        waiting: dict[uuid.UUID, list[Ticket]] = defaultdict(list)
        for ticket in tickets:
            waiting[ticket.workflow_id].append(ticket)
        standings, fault = _asked(look.standings, waiting)
        ended = {owner: standing.size for owner, standing in standings.items() if standing.has_ended}
        for owner in waiting.keys() - ended.keys():
            for ticket in waiting[owner]:
                self._answer(ticket, fault, _before_the_end(ticket, is_there=owner in standings))
        for piece in _pieces(ended):
            snapshots, fault = _asked(look.snapshots, piece)
            for ticket in (ticket for owner in piece for ticket in waiting[owner]):
                self._answer(ticket, fault, _end(ticket, snapshots))

    def _answer(self, ticket: Ticket, fault: BaseException | None, outcome: Snapshot | BaseException | None) -> None:
        """Gives the waiters the error, else their results; None means that there is none yet."""
        if fault is not None:  # one for each: an exception is given another traceback wherever it is raised
            outcome = _own(fault)
        if outcome is None:
            ticket.again()
            return
        with self._changed:
            self._tickets.discard(ticket)
        with suppress(RuntimeError):  # the loop was closed meanwhile
            ticket.loop.call_soon_threadsafe(partial(_tell, ticket, outcome))


def _asked(
    ask: Callable[[Iterable[uuid.UUID]], dict[uuid.UUID, T]], ids: Iterable[uuid.UUID]
) -> tuple[dict[uuid.UUID, T], BaseException | None]:
    """The results, and the error, if there was one."""
    try:
        return ask(ids), None
    # Whatever it is (the database is away, or a receiver of the project raised), the waiters get it.
    except BaseException as error:  # noqa: BLE001
        return {}, error


def _pieces(sizes: Mapping[uuid.UUID, int]) -> Iterator[list[uuid.UUID]]:
    """Workflows to be read together: at most `READ_AT_ONCE` bytes, or a single one that has more by itself."""
    piece: list[uuid.UUID] = []
    left = READ_AT_ONCE
    for owner, size in sizes.items():
        if piece and size > left:
            yield piece
            piece, left = [], READ_AT_ONCE
        piece.append(owner)
        left -= size
    if piece:
        yield piece


def _before_the_end(ticket: Ticket, *, is_there: bool) -> BaseException | None:
    if not is_there:
        return WorkflowNotFound(ticket.workflow_id)
    return expired(ticket.workflow_id, ticket.seconds) if ticket.is_late() else None


def _end(ticket: Ticket, snapshots: Mapping[uuid.UUID, Snapshot]) -> Snapshot | BaseException | None:
    snapshot = snapshots.get(ticket.workflow_id)
    if snapshot is not None and snapshot.status.is_terminal:
        return snapshot
    return _before_the_end(ticket, is_there=snapshot is not None)


def _own(fault: BaseException) -> BaseException:
    try:
        own = copy.copy(fault)
    except Exception:  # noqa: BLE001 - an exception of a driver's or a project's, which may not know how
        return fault
    own.__cause__ = fault.__cause__ or fault
    return own


def _tell(ticket: Ticket, outcome: Snapshot | BaseException) -> None:
    future = ticket.future()
    if future is None or future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def expired(workflow_id: uuid.UUID, seconds: float | None) -> TimeoutError:
    """The error of a wait whose time is up."""
    return TimeoutError(f"Workflow {workflow_id} has not ended within {seconds:g} s.")


_waiter = Waiter()


def _begin_anew() -> None:
    """In a forked child: the parent's thread, tickets and lock stay with the parent."""
    global _waiter
    _waiter = Waiter()


os.register_at_fork(after_in_child=_begin_anew)


async def ended(workflow_id: uuid.UUID, seconds: float | None) -> Snapshot:
    """Waits on the loop until a workflow has ended. Holds no thread and no connection of the caller's.

    Raises `TimeoutError`, `WorkflowNotFound`, and what the database raised.
    """
    future: asyncio.Future[Snapshot] = asyncio.get_running_loop().create_future()
    ticket = Ticket(workflow_id, seconds, future)
    waiter = _waiter
    waiter.add(ticket)
    try:
        limit = None if ticket.ends is None else max(0.0, ticket.ends - monotonic()) + STORE_GRACE
        done, _waiting = await asyncio.wait({future}, timeout=limit)
        if not done:
            raise expired(workflow_id, seconds)
        return future.result()
    finally:
        waiter.remove(ticket)


async def sees_what_others_commit() -> bool:
    """Whether the caller has no transaction open, and another connection can see its database.

    Checks on the caller's thread, without opening a connection there, and not at all if it has no thread yet.
    """
    connection = transaction.engine_connection()
    if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
        return False
    context = SyncToAsync.thread_sensitive_context.get(None)
    above = getattr(getattr(AsyncToSync, "executors", None), "current", None)
    if context is not None and above is None and context not in SyncToAsync.context_to_thread_executor:
        return True
    return await sync_to_async(_in_no_transaction, thread_sensitive=True)()


def _in_no_transaction() -> bool:
    connection = transaction.engine_connection()
    return not connection.in_atomic_block and (connection.connection is None or connection.get_autocommit())
