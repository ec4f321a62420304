"""Injecting faults by name: into activities, and into the commits of the engine's own transactions."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal
from unittest import mock

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.errors import NotRegistered
from durable.flow.delivery import abandon, acknowledge, claim, postpone, release, renew
from durable.flow.transactions import transaction
from durable.flow.turns import turn
from durable.flow.upkeep import reconcile
from durable.kernel.definitions.definition import ActivityDefinition
from durable.testing import doubles
from durable.testing.errors import InjectedFault, UnknownFault

When = Literal["before", "after"]
Error = BaseException | type[BaseException] | Callable[[], BaseException]

_VERBS: dict[str, tuple[ModuleType, tuple[str, ...]]] = {
    "turn": (turn, ("turn",)),
    "claim": (claim, ("claim", "claim_suspect")),
    "acknowledge": (acknowledge, ("acknowledge", "transactional")),
    "abandon": (abandon, ("abandon",)),
    "postpone": (postpone, ("postpone",)),
    "release": (release, ("release",)),
    "renew": (renew, ("renew",)),
    "reconcile": (reconcile, ("reconcile",)),
}
POINTS = tuple(_VERBS)
"""The engine's verbs that `failing` accepts."""


@dataclass(slots=True)
class Injected:
    """How often a fault has been raised, and how often it still will be."""

    raised: int
    left: int


class _AtWork(threading.local):
    """Whether this thread is executing the verb."""

    depth = 0


class _Countdown:
    """Raises the error the given number of times, from any thread."""

    def __init__(self, times: int, error: Error) -> None:
        self.state = Injected(0, times)
        self._error = error
        self._lock = threading.Lock()

    def strike(self) -> None:
        with self._lock:
            if self.state.left <= 0:
                return
            self.state.left -= 1
            self.state.raised += 1
        raise _made(self._error)


@contextmanager
def failing(
    target: doubles.AnyActivity, *, times: int = 1, error: Error | None = None, when: When = "before"
) -> Iterator[Injected]:
    """Makes an activity, or a verb of the engine, fail `times` times within a block. Yields the count.

    An activity (its definition or registered name) raises `error` (default: `InjectedFault`) in place of its handler,
    or after it (`when="after"`); only in `drain` and `run`. A verb of the engine is one of `POINTS`: its transaction
    raises `error` (default: a database error that is worth a retry) at its commit: `before` it, so that everything is
    rolled back, or `after` it, so that the verb does not know the outcome. Real workers in this process meet the fault,
    too, so that their retries, and those of the verb, are tested. An error may be an exception, its class, or a
    callable that makes one. Raises `UnknownFault` for any other target.
    """
    if isinstance(target, str) and target in _VERBS:
        countdown = _Countdown(times, _database_error if error is None else error)
        with _at_commits_of(target, countdown, when):
            yield countdown.state
        return
    countdown = _Countdown(times, InjectedFault("injected by durable.testing.failing") if error is None else error)
    with doubles.wrapped(_activity(target), lambda handler: _failing(handler, countdown, when)):
        yield countdown.state


def _activity(target: Any) -> str:
    if not isinstance(target, str | ActivityDefinition):
        raise UnknownFault(target, POINTS)
    try:
        return doubles.name_of(target)
    except NotRegistered:
        raise UnknownFault(target, POINTS) from None


def _failing(handler: doubles.Handler, countdown: _Countdown, when: When) -> doubles.Handler:
    def call(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            countdown.strike()
        answer = handler(*args, **kwargs)
        if when == "after":
            countdown.strike()
        return answer

    return call


@contextmanager
def _at_commits_of(point: str, countdown: _Countdown, when: When) -> Iterator[None]:
    """Watches the verb's calls, and during each call the ends of the transactions that it begins on its thread."""
    module, names = _VERBS[point]
    at_work = _AtWork()
    begin = transaction.begin

    @contextmanager
    def begin_watched(connection: BaseDatabaseWrapper) -> Iterator[None]:
        with begin(connection):
            yield
            if when == "before" and at_work.depth:
                countdown.strike()
        if when == "after" and at_work.depth:
            countdown.strike()

    def watched(verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            at_work.depth += 1
            try:
                return verb(*args, **kwargs)
            finally:
                at_work.depth -= 1

        return call

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(transaction, "begin", begin_watched))
        for name in names:
            patches.enter_context(mock.patch.object(module, name, watched(getattr(module, name))))
        yield


def _made(error: Error) -> BaseException:
    return error if isinstance(error, BaseException) else error()


def _database_error() -> BaseException:
    """An error that is worth a retry on both databases, on the same connection, so that a test's own transaction stays
    open.
    """
    text = "database is locked (injected by durable.testing.failing)"
    error = OperationalError(text)
    error.__cause__ = sqlite3.OperationalError(text)
    return error
