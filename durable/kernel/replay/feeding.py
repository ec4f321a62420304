"""The two ends of an activation: how an input event reaches the code, and how the end of the code becomes a command."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING

from durable.errors import ActivityError, ArgumentsMismatch, NonDeterminism, PayloadError
from durable.errors.showing import is_a
from durable.kernel import failures
from durable.kernel.codec import read_arguments, read_digest_key
from durable.kernel.history.commands import CancelWorkflow, CompleteWorkflow, Ending, FailWorkflow
from durable.kernel.history.events import PARENT, TRACE, Event, EventType
from durable.kernel.loop.event_loop import trouble_of_the_machine
from durable.kernel.loop.futures import ActivityFuture
from durable.kernel.payloads import birthplace
from durable.kernel.payloads.heft import heft
from durable.kernel.replay import causes, feeding_children, judging
from durable.kernel.replay.feeding_children import unreadable
from durable.kernel.texts.failure import describe, for_log

if TYPE_CHECKING:
    # A circle: this is the part of an execution that feeds it, in a file of its own.
    from durable.kernel.replay.execution import Execution


_STARTED = EventType.WORKFLOW_STARTED


def feed(execution: Execution, event: Event) -> int:
    """Schedules the effect of an input event; returns the bytes of payload that the code may now keep.

    Raises `WorkflowBlocked` for a payload that the current code cannot read, and `NonDeterminism` for an event for
    which it does not wait.
    """
    if (execution.loop.main is None) is not (event.type is _STARTED):
        raise NonDeterminism(
            position=event.seq, recorded=f"the event {event.type}", asked="exactly one start, at first"
        )
    return _FEEDERS[event.type](execution, event)


def ending(execution: Execution, dropped: tuple[str, ...]) -> Ending:
    """How the workflow ended, when its main task is done or abandoned. `dropped` are calls that nobody awaits.

    Raises `StackExhausted` or `WorkflowBlocked` if the cause is the machine and not the code, and `CodeRaised` if the
    code has a bug, which a deploy may repair.
    """
    loop = execution.loop
    main = loop.main
    left = sum(not task.done() for task in loop.tasks if task is not main)
    try:
        if main is None or not main.done():
            raise loop.exit if loop.exit is not None else RuntimeError("The workflow has not ended.")
        result = main.result()
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raised ends its workflow, and nothing else
        return _raised(execution, error, left, dropped, left_code=True)
    try:
        born = birthplace.result(execution.workflow_id, None)
        payload = execution.codec.encode(result, execution.definition.result_hint, path="result", birthplace=born)
        return CompleteWorkflow(payload, left, dropped)
    except BaseException as error:  # noqa: BLE001 - a result's own code may raise anything, too
        return _raised(execution, error, left, dropped, left_code=False)


def _raised(
    execution: Execution, error: BaseException, left: int, dropped: tuple[str, ...], *, left_code: bool
) -> Ending:
    if is_a(error, asyncio.CancelledError) and execution.cancel_reason is not None:
        return CancelWorkflow(execution.cancel_reason, left, dropped)
    blocked = trouble_of_the_machine(error)
    if blocked is not None:
        raise blocked from for_log(error)
    bug = judging.bug(execution, error) if left_code else None
    if bug is not None:
        raise bug from error
    cause = causes.ordinals(error, last_ordinal=execution.calls.last_ordinal)
    return FailWorkflow(describe(error), left, dropped, error, cause)


def _start(execution: Execution, event: Event) -> int:
    payload: str = event.data["input"]
    definition, codec, workflow_id = execution.definition, execution.codec, execution.workflow_id
    born = birthplace.arguments(workflow_id, definition.name)
    try:
        plain = codec.opened(payload, path=definition.name, birthplace=born)
        args, kwargs = read_arguments(definition, plain, codec=codec)
    except (PayloadError, ArgumentsMismatch) as problem:
        raise unreadable(event, "The workflow's arguments", problem) from problem
    try:
        execution.calls.digest_key = read_digest_key(event.data, codec=codec, workflow_id=workflow_id)
    except PayloadError as problem:
        raise unreadable(event, "The key of the workflow's digests", problem) from problem
    execution.trace = event.data.get(TRACE)
    parent = event.data.get(PARENT)
    execution.parent_id = None if parent is None else uuid.UUID(parent)
    loop = execution.loop
    loop.main = loop.create_task(definition.fn(*args, **kwargs), name="main", context=Context())
    return heft(plain)


def _complete(execution: Execution, event: Event) -> int:
    future = _open(execution, event)
    payload: str = event.data["result"]
    born = birthplace.result(execution.workflow_id, future.ordinal)
    codec, path = execution.codec, f"result of {future.activity}"
    try:
        plain = codec.opened(payload, path=path, birthplace=born)
        result = codec.read(codec.natives(plain, path=path), future.hint, path=path)
    except PayloadError as problem:
        raise unreadable(event, f"The result of {future.activity} (activity {event.ordinal})", problem) from problem
    execution.calls.close(future.ordinal)
    if not future.done():
        future.set_result(result)
    return heft(plain)


def _fail(execution: Execution, event: Event) -> int:
    future = _open(execution, event)
    born = birthplace.failure(execution.workflow_id, event.ordinal)
    try:
        failure = failures.opened(event.data["failure"], born, codec=execution.codec)
    except PayloadError as problem:
        what = f"The failure of {future.activity} (activity {event.ordinal})"
        raise unreadable(event, what, problem) from problem
    execution.calls.close(future.ordinal)
    if future.done():
        return 0
    future.set_exception(
        ActivityError(
            activity=future.activity,
            ordinal=future.ordinal,
            type=failure.type,
            message=failure.message,
            traceback=failure.traceback,
            attempts=int(event.data.get("attempts", 0)),
        )
    )
    if execution.loop.replaying:
        future.exception()  # marks it as retrieved: the complaint was logged the first time
    return len(failure.traceback)


def _fire(execution: Execution, event: Event) -> int:
    seq, place = event.data["timer"]
    handle = execution.loop.timers.pop((seq, place))
    if handle is None:
        raise NonDeterminism(
            position=event.seq,
            recorded=f"that timer {place} of event {seq} fired",
            asked="no such timer, or one that was cancelled before",
        )
    execution.loop.fire(handle)
    return 0


def _receive(execution: Execution, event: Event) -> int:
    payload: str = event.data["payload"]
    execution.mailbox.deliver(event.data["name"], (event.seq, payload))
    return 0  # what it takes is weighed by the mailbox


def _cancel(execution: Execution, event: Event) -> int:
    execution.cancel_reason = str(event.data.get("reason") or "")
    main = execution.loop.main
    if main is not None:
        main.cancel()
    return 0


_FEEDERS: dict[EventType, Callable[[Execution, Event], int]] = {
    EventType.WORKFLOW_STARTED: _start,
    EventType.ACTIVITY_COMPLETED: _complete,
    EventType.ACTIVITY_FAILED: _fail,
    EventType.CHILD_COMPLETED: feeding_children.complete,
    EventType.CHILD_FAILED: feeding_children.fail,
    EventType.SIGNAL_ANSWERED: feeding_children.answer,
    EventType.TIMER_FIRED: _fire,
    EventType.SIGNAL_RECEIVED: _receive,
    EventType.CANCEL_REQUESTED: _cancel,
}


def _open(execution: Execution, event: Event) -> ActivityFuture:
    future = execution.calls.open.get(event.ordinal or 0)
    if type(future) is not ActivityFuture:
        outcome = "result" if event.type is EventType.ACTIVITY_COMPLETED else "failure"
        raise NonDeterminism(
            position=event.seq,
            recorded=f"the {outcome} of activity {event.ordinal}",
            asked="no such activity, or it was cancelled before",
        )
    return future
