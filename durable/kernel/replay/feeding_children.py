"""How the ends of children, and what became of sent signals, reach the code."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

from durable.errors import (
    ChildCancelled,
    ChildFailed,
    ChildTimedOut,
    DurableError,
    KeyTaken,
    MailboxFull,
    NobodyListens,
    NonDeterminism,
    PayloadError,
    WorkflowBlocked,
    WorkflowClosed,
    WorkflowNotFound,
)
from durable.kernel import failures
from durable.kernel.history.events import Event
from durable.kernel.loop.futures import Child, Sending
from durable.kernel.payloads import birthplace
from durable.kernel.payloads.heft import heft
from durable.outcomes import WorkflowStatus

if TYPE_CHECKING:
    # A circle: this is the part of an execution that feeds it, in a file of its own.
    from durable.kernel.replay.execution import Execution

REFUSED: Final = "refused"
"""The status of a child that was not started, since its key was taken."""


def complete(execution: Execution, event: Event) -> int:
    """A child's result."""
    child = _child(execution, event, "result")
    codec, path = execution.codec, f"result of {child.type}"
    try:
        plain = codec.opened(event.data["result"], path=path, birthplace=birthplace.result(child.id, None))
        result = codec.read(codec.natives(plain, path=path), child.hint, path=path)
    except PayloadError as problem:
        raise unreadable(event, f"The result of {child.type} (child {child.id})", problem) from problem
    execution.calls.close(child.ordinal)
    if not child.done():
        child.set_result(result)
    return heft(plain)


def fail(execution: Execution, event: Event) -> int:
    """A child's end without a result."""
    child = _child(execution, event, "end")
    error = _error(execution, event, child)
    execution.calls.close(child.ordinal)
    if child.done():
        return 0
    child.set_exception(error)
    if execution.loop.replaying:
        child.exception()  # marks it as retrieved: the complaint was logged the first time
    return len(error.traceback) if isinstance(error, ChildFailed) else 0


def answer(execution: Execution, event: Event) -> int:
    """Whether a signal, or a request to cancel, was accepted."""
    call = execution.calls.open.get(event.ordinal or 0)
    if type(call) is not Sending:
        raise NonDeterminism(
            position=event.seq,
            recorded=f"what became of the signal that was sent as call {event.ordinal}",
            asked="no such signal, or one that is not awaited",
        )
    execution.calls.close(call.ordinal)
    if call.done():
        return 0
    refused = event.data.get("refused")
    if refused is None:
        call.set_result(None)
    else:
        call.set_exception(_refusal(call, str(refused), event.data))
        if execution.loop.replaying:
            call.exception()
    return 0


def unreadable(event: Event, what: str, problem: Exception) -> WorkflowBlocked:
    """The error for a payload that the current code cannot read."""
    return WorkflowBlocked(f"{what} cannot be read: {problem}", {"position": event.seq, "problem": str(problem)})


def _child(execution: Execution, event: Event, what: str) -> Child:
    child = execution.calls.open.get(event.ordinal or 0)
    if type(child) is not Child or str(child.id) != event.data.get("child"):
        raise NonDeterminism(
            position=event.seq,
            recorded=f"the {what} of child {event.data.get('child')} (call {event.ordinal})",
            asked="no such child, or its awaiting was cancelled before",
        )
    return child


def _error(execution: Execution, event: Event, child: Child) -> DurableError:
    data = event.data
    of: dict[str, Any] = {
        "id": child.id,
        "workflow_type": child.type,
        "key": child.key,
        "ordinal": child.ordinal,
    }
    match data.get("status"):
        case WorkflowStatus.CANCELLED:
            return ChildCancelled(reason=str(data.get("reason") or ""), **of)
        case WorkflowStatus.TIMED_OUT:
            return ChildTimedOut(**of)
        case status if status == REFUSED:
            holder = data.get("holder")
            known = None if holder is None else uuid.UUID(holder)
            return KeyTaken(child.type, child.key or "", known, ordinal=child.ordinal)
        case _:
            pass
    try:
        failure = failures.opened(data["failure"], birthplace.failure(child.id, None), codec=execution.codec)
    except PayloadError as problem:
        raise unreadable(event, f"The failure of {child.type} (child {child.id})", problem) from problem
    return ChildFailed(type=failure.type, message=failure.message, traceback=failure.traceback, **of)


def _refusal(call: Sending, refused: str, data: Any) -> DurableError:
    target = str(call.to) if call.to is not None else f"{call.type} with the key {call.key!r}"
    match refused:
        case "closed":
            return WorkflowClosed(target, str(data.get("status") or "closed"), _verb(call))
        case "single":
            return NobodyListens(target)
        case "full":
            return MailboxFull(target)
        case _:
            return WorkflowNotFound(target)


def _verb(call: Sending) -> str:
    return "a request to cancel" if call.name is None else "a signal"
