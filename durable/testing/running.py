"""`drain` and `run`: run workflows within a test, and move the clock to what is due later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

from durable import clock
from durable.client.handle import Handle
from durable.conf import settings
from durable.decorators.activities import Activity, BoundActivity
from durable.decorators.workflows import BoundWorkflow, WorkflowType
from durable.flow.looks import look
from durable.outcomes import OutboxStatus, Snapshot, WorkflowStatus
from durable.testing import control, waiting
from durable.testing.errors import NeverEnds
from durable.testing.inline import Inline, Tally

R = TypeVar("R")

Startable: TypeAlias = WorkflowType[Any, R] | BoundWorkflow[Any, R] | Activity[Any, R] | BoundActivity[Any, R]
Signal: TypeAlias = tuple[timedelta, str] | tuple[timedelta, str, Any]
Step: TypeAlias = tuple[timedelta, Callable[[Handle[Any]], object]]

TEN_YEARS = timedelta(days=3650)
_STANDSTILLS = 10


@dataclass(frozen=True, slots=True)
class Drained:
    """What a `drain` did.

    `turns` counts turns of workflows; `attempts` activity attempts, of which `retried` failed and will be retried;
    `closed` workflows and single activities that ended. `faults` are database errors after which the work went on. `at`
    is the time at the end, `next_due_at` the time at which more will be due (None: never).
    """

    turns: int
    attempts: int
    retried: int
    closed: int
    faults: tuple[str, ...]
    at: datetime
    next_due_at: datetime | None


def drain(*, until: datetime | timedelta | None = None, slots: int | None = None) -> Drained:
    """Runs everything that is due now, of all workflows, on this thread and its connections, until nothing is due.

    Works inside the transaction of Django's `TestCase` as well as without one. With `until` (an aware datetime, or a
    span from now) the clock is moved from one due time to the next, and finally to `until`; if it was not frozen, it
    runs again afterwards. `slots` activities are claimed together, as by a worker with that `CONCURRENCY` (the
    default). Activities run one after another, `async def` ones and transactional ones included. Raises `NeverIdle`,
    what the database raised, and, as it is, an error of workflow code that is one of its `blocks_on`.
    """
    with control.cache() as cache:
        inline = Inline(cache, slots=slots)
        if until is None:
            inline.work()
            return _report(inline.tally)
        with control.still_clock():
            end = clock.host_now() + until if isinstance(until, timedelta) else until
            inline.work()
            standstills = 0
            while (due := next_due_at()) is not None and due <= end and standstills < _STANDSTILLS:
                standstills = standstills + 1 if due <= clock.host_now() else 0
                control.move_to(due)
                inline.work()
            control.move_to(end)
            inline.work()
            return _report(inline.tally)


def run(
    target: Startable[R] | Handle[R],
    *args: Any,
    signals: Iterable[Signal] = (),
    steps: Iterable[Step] = (),
    within: timedelta = TEN_YEARS,
    slots: int | None = None,
    **kwargs: Any,
) -> R:
    """Runs a workflow to its end and returns its result; with a handle, one that was started before.

    Timers, retry delays and `start_at` are skipped: when nothing is due, the clock is moved to the next time at which
    something is. `args` and `kwargs` go to `start` (of an activity: to `enqueue`). `signals` are `(after, name)` or
    `(after, name, payload)`, counted from the call; `steps` are `(after, call)`, and the call gets the handle, for
    example to cancel or to check the status. Signals and steps after the end are left out. Everything else in the
    database that is due runs as well.

    Raises as `Handle.result` does; an error of the code that is one of its `blocks_on`, as it is; `WorkflowBlocked` or
    `NonDeterminism` if the workflow is blocked for another reason; and `NeverEnds`,
    with what it waits for in words, if nothing can move it forward, or if more than `within` would have to be skipped.
    """
    with control.still_clock(), control.cache() as cache:
        began = clock.host_now()
        handle = _started(target, args, kwargs)
        inline = Inline(cache, slots=slots)
        script = _script(handle, signals, steps)
        standstills = 0
        while True:
            while script and began + script[0][0] <= clock.host_now():
                script.pop(0)[1](handle)
            inline.work()
            snapshot = look.snapshot(handle.id)
            if snapshot.status.is_terminal:
                return handle.result(timeout=0)
            moment = _next_moment(snapshot, began + script[0][0] if script else None)
            standstills = standstills + 1 if moment is not None and moment <= clock.host_now() else 0
            if moment is None or moment > began + within or standstills == _STANDSTILLS:
                raise NeverEnds(handle.id, waiting.words(handle.id, skipped=within if moment else None))
            control.move_to(moment)


def next_due_at() -> datetime | None:
    """When something will be due, of all workflows; None: never."""
    left = look.next_due(None)
    return None if left is None else clock.host_now() + left


def _started(target: Startable[R] | Handle[R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handle[R]:
    if isinstance(target, Handle):
        if args or kwargs:
            raise TypeError("A workflow that was started already takes no arguments; pass the handle alone.")
        return target
    if isinstance(target, WorkflowType | BoundWorkflow):
        return target.start(*args, **kwargs)
    if isinstance(target, Activity | BoundActivity):
        return target.enqueue(*args, **kwargs)
    raise TypeError(f"{target!r} is no workflow, no activity and no handle: there is nothing to run.")


def _script(
    handle: Handle[Any], signals: Iterable[Signal], steps: Iterable[Step]
) -> list[tuple[timedelta, Callable[[Handle[Any]], object]]]:
    """Signals and steps in the order of their times; signals first where these are equal."""
    script: list[Step] = [(after, _signalling(name, payload)) for after, name, payload in map(_signal, signals)]
    script += steps
    return sorted(script, key=lambda entry: entry[0])


def _signal(step: Sequence[Any]) -> tuple[timedelta, str, Any]:
    after, name, *rest = step
    return after, name, rest[0] if rest else None


def _signalling(name: str, payload: Any) -> Callable[[Handle[Any]], object]:
    return lambda handle: handle.signal(name, payload)


def _next_moment(snapshot: Snapshot, scripted: datetime | None) -> datetime | None:
    """The next time at which anything happens. Raises for a blocked workflow; a paused one waits."""
    if snapshot.blocked_reason:
        raise waiting.blocked(snapshot)
    moments = [moment for moment in (next_due_at(), scripted) if moment is not None]
    lost = any(row.status is OutboxStatus.CLAIMED for row in look.pending(snapshot.id))
    if lost and snapshot.status is WorkflowStatus.RUNNING:
        # A claim, or the verb that should have ended it, failed: nobody has the delivery, and its lease has to expire.
        moments.append(clock.host_now() + settings.lease_for + timedelta(microseconds=1))
    return min(moments, default=None)


def _report(tally: Tally) -> Drained:
    return Drained(
        turns=tally.turns,
        attempts=tally.attempts,
        retried=tally.retried,
        closed=tally.closed,
        faults=tuple(tally.faults),
        at=clock.host_now(),
        next_due_at=next_due_at(),
    )
