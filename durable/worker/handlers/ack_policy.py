"""What becomes of an outcome: the verb that writes it, and what follows a try that failed (specification A2, A3).

Pure decisions. The ack thread carries them out with its waits and locks, `durable.testing` at once and on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from durable.flow.transactions.faults import Fault, classify, meets_lock
from durable.kernel.texts.failure import describe
from durable.outcomes import AckOutcome, Cause, Ending, Failure
from durable.worker.handlers.execute import CommitFailed, Committed, GiveUp, Lacking, Outcome, PutOff

WAITS_US = (100_000, 200_000, 400_000, 800_000)
"""Delays between tries of an acknowledgement, in microseconds; one more try than delays. Set by specification A2."""

ABANDON_DELAY = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """A handler has ended: write its ending."""

    ending: Ending


@dataclass(frozen=True, slots=True)
class Known:
    """It has been written already, or the token was missing."""

    outcome: AckOutcome


@dataclass(frozen=True, slots=True)
class Abandon:
    """A failed delivery. Due again after `delay`; None: after the delivery back-off."""

    cause: Cause
    failure: Failure
    error: BaseException | None = field(compare=False, repr=False)
    delay: timedelta | None


@dataclass(frozen=True, slots=True)
class Postpone:
    """It could not begin here yet: given back uncounted."""

    delay: timedelta
    lacking: Lacking


@dataclass(frozen=True, slots=True)
class WaitForLock:
    """Somebody else holds the lock at this moment: no try until it is released (ADR 016)."""


@dataclass(frozen=True, slots=True)
class Again:
    """Another try, by itself and not before `wait_us` microseconds have passed."""

    wait_us: int


Step = Acknowledge | Known | Abandon | Postpone | WaitForLock

IsLocked = Callable[[], bool]
"""Whether somebody else holds the lock at this moment. It asks the store, so only where the answer counts."""


def nobody_locks() -> bool:
    """The answer where there is nobody else."""
    return False


def verb(outcome: Outcome, *, is_locked: IsLocked) -> Step:
    """How an outcome is written. Giving back would wait for a held lock five times, on the ack thread, which others
    need: such a lock is waited for without trying.
    """
    step: Step
    match outcome:
        case Committed(outcome=made):
            step = Known(made)
        case GiveUp() | PutOff() if is_locked():
            step = WaitForLock()
        case CommitFailed(error=error) if error is not None and meets_lock(error) and is_locked():
            step = WaitForLock()
        case CommitFailed(failure=failure, error=error):
            step = Abandon(Cause.ACK_ABANDONED, failure, error, ABANDON_DELAY)
        case GiveUp(cause=cause, failure=failure, error=error):
            step = Abandon(cause, failure, error, None)
        case PutOff(delay=delay, lacking=lacking):
            step = Postpone(delay, lacking)
        case _:
            step = Acknowledge(outcome)
    return step


def after_failure(
    error: BaseException, *, tries: int, together: bool, is_locked: IsLocked
) -> Again | WaitForLock | Abandon:
    """What follows when acknowledging has raised `error` at an item's `tries`-th try, `together` with others or alone.

    A permanent error of several says nothing of each: one of them is bad, and singly each speaks for itself.
    """
    fault = classify(error)
    if fault is Fault.PERMANENT and together:
        return Again(0)
    spent = tries > len(WAITS_US)
    if spent and meets_lock(error) and is_locked():
        return WaitForLock()
    if spent or fault is Fault.PERMANENT:
        return Abandon(Cause.ACK_ABANDONED, describe(error), error, ABANDON_DELAY)
    return Again(WAITS_US[tries - 1])
