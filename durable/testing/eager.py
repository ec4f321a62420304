"""`eager`: what a view starts is done when the view returns, so that a test needs no `drain`."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest import mock

from django.db import transaction as django_transaction

from durable.errors import OptionInvalid, TransactionOpen
from durable.flow.caller import cancel, enqueue, signal, start
from durable.flow.transactions import transaction
from durable.kernel.replay.cache import Cache
from durable.outcomes import Claim, Failed, RetryLater
from durable.testing import control
from durable.testing.errors import HandlerFailure, HandlersFailed
from durable.testing.inline import Inline
from durable.worker.handlers.execute import Outcome

_VERBS = ((start, "start"), (enqueue, "enqueue"), (signal, "signal"), (cancel, "cancel"))
"""What callers ask for. What operators decide (a redrive, say) is run by `drain`."""

MOST_ADDED = 5
"""Errors that are added to the one of a test that fails anyway."""


class _Here(threading.local):
    due = False
    """Whether something was asked for, and was not run yet."""
    at_work = False


_here = _Here()
_blocks: list[Eager] = []
"""From the outermost to the innermost, which alone works."""


@dataclass(slots=True, eq=False)
class Eager:
    """What an `eager` block has met so far: attempts that failed, and errors of workflow code that blocked it."""

    failures: list[HandlerFailure] = field(default_factory=list)
    bugs: list[BaseException] = field(default_factory=list)

    def _asked(self) -> None:
        if _blocks[-1] is self:
            _here.due = True
            self._work_if_committed()

    def _work_if_committed(self) -> None:
        """Works, if a worker could see something to do. What handlers ask for is seen by the work that runs them."""
        if not _here.due or _here.at_work or _blocks[-1] is not self:
            return
        try:
            transaction.demand_none()
        except TransactionOpen:
            return
        _here.at_work = True
        try:
            # In a context of its own: a worker has neither the view's language nor its other context variables.
            contextvars.Context().run(self._work)
            _here.due = False
        finally:
            _here.at_work = False

    def _work(self) -> None:
        with control.cache() as cache:
            _Recording(cache, self).work()


class _Recording(Inline):
    """Goes on after the errors of handlers and of workflow code, as a worker does, and keeps them."""

    def __init__(self, cache: Cache, eager: Eager) -> None:
        super().__init__(cache)
        self._eager = eager

    def _met_bugs(self, bugs: Sequence[BaseException]) -> None:
        self._eager.bugs.extend(bugs)

    def _attempt(self, claimed: Claim) -> Outcome:
        outcome = super()._attempt(claimed)
        if isinstance(outcome, Failed | RetryLater):
            self._eager.failures.append(
                HandlerFailure(claimed.activity, claimed.workflow_id, claimed.attempt, outcome.failure)
            )
        return outcome


@contextmanager
def eager(*, errors: Literal["raise", "keep"] = "raise") -> Iterator[Eager]:
    """In this block, whatever is started, enqueued, signalled or cancelled is run at once, as far as it is due.

    "At once" is when a worker could see it: after the commit of the caller's transaction, before the code after its
    `atomic` block. Within Django's `TestCase`, which never commits, it is when the last `atomic` block of the code
    under test has been left. Everything else that is due runs, too, on the calling thread; time is not skipped.

    The caller does not see an error of a handler or of workflow code, as in production. At the end of the block it is
    raised: what workflow code raised, as it is, else `HandlersFailed`. If the block raises anything itself, that gets
    the errors as notes. `errors="keep"` raises nothing; they are in the object that the block yields. Of a block inside
    another one, the inner one gets the errors. Raises `OptionInvalid` for another value of `errors`.
    """
    if errors not in ("raise", "keep"):
        raise OptionInvalid("errors", errors, "'raise' or 'keep'")
    made = Eager()
    with _asking(made):
        try:
            yield made
            made._work_if_committed()
        except BaseException as error:
            for line in _lines(made)[:MOST_ADDED]:
                error.add_note(line)
            raise
    if errors == "raise":
        if made.bugs:
            raise made.bugs[0]
        if made.failures:
            raise HandlersFailed(tuple(made.failures))


def _lines(made: Eager) -> list[str]:
    lines = [f"Eager: workflow code raised {type(bug).__name__}: {bug}" for bug in made.bugs]
    return lines + [f"Eager: {HandlersFailed.line(failed)}" for failed in made.failures]


@contextmanager
def _asking(made: Eager) -> Iterator[None]:
    """Tells it of every verb of a caller, and of every end of a transaction."""
    leave = django_transaction.Atomic.__exit__

    def left(atomic: Any, *error: Any) -> Any:
        try:
            answer = leave(atomic, *error)
        except Exception:
            # A hook of `on_commit` has raised, and what was committed before it is for workers to see. Within a
            # transaction it was a savepoint that failed, and nothing more can be done there.
            if not django_transaction.get_connection(atomic.using).in_atomic_block:
                made._work_if_committed()
            raise
        made._work_if_committed()
        return answer

    def told(verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            answer = verb(*args, **kwargs)
            made._asked()
            return answer

        return call

    with ExitStack() as patches:
        _blocks.append(made)
        patches.callback(_blocks.remove, made)
        patches.enter_context(mock.patch.object(django_transaction.Atomic, "__exit__", left))
        for module, name in _VERBS:
            patches.enter_context(mock.patch.object(module, name, told(getattr(module, name))))
        yield
