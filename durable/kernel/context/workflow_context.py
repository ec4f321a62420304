"""What workflow code may call besides its activities: time, randomness, waiting and logging, the
same in every replay.
"""

from __future__ import annotations

import asyncio
import logging
import random as _random
import uuid
from collections.abc import Awaitable, Coroutine, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from durable.errors import KeyInvalid, OutsideWorkflow
from durable.kernel.definitions.definition import ActivityDefinition
from durable.kernel.definitions.options import check_text
from durable.kernel.limits import MAX_PATCH_LENGTH, MAX_SIGNAL_NAME_LENGTH
from durable.kernel.loop import lines
from durable.kernel.loop.asyncio_private import get_running_loop
from durable.kernel.loop.event_loop import RUNNING, WorkflowLoop
from durable.kernel.loop.futures import WorkflowFuture

if TYPE_CHECKING:
    from durable.kernel.replay.execution import Execution

T = TypeVar("T")

_ADVICE = "Call it from a workflow's own code, on its own thread."
_LEAVING = "This workflow is being taken from memory: what its `finally` does now has no effect, and runs again later."


def in_turn() -> bool:
    """Whether the caller is workflow code, even while it is being evicted."""
    return isinstance(get_running_loop(), WorkflowLoop)


def current(call: str = "A durable call") -> Execution:
    """The execution whose code is running or being evicted. Raises `OutsideWorkflow` if there is none."""
    loop = get_running_loop()
    if not isinstance(loop, WorkflowLoop):
        raise OutsideWorkflow(call, _ADVICE)
    return loop.execution


def schedule(
    definition: ActivityDefinition[Any, Any], payload: str, digest: str, options: Mapping[str, Any]
) -> Awaitable[Any]:
    """Calls an activity; returns the future of its result. Raises `OutsideWorkflow` outside of a turn.

    While the workflow is evicted, this, `sleep` and `wait_for_signal` raise only when they are awaited, so that other
    calls in the same `asyncio.gather(...)` are not left as coroutines that nobody awaits.
    """
    loop = waiting_loop(f"{definition.name}.execute(...)")
    if not isinstance(loop, WorkflowLoop):
        return loop
    return loop.execution.calls.schedule(
        activity=definition.name, payload=payload, digest=digest, options=options, hint=definition.result_hint
    )


@dataclass(frozen=True, slots=True)
class WorkflowInfo:
    """The workflow whose code is running. `key` is None if it has no business key; `run` counts from 1. `parent_id` is
    the workflow that has started it as a child, or None.
    """

    id: uuid.UUID
    key: str | None
    type: str
    run: int
    parent_id: uuid.UUID | None = None


def workflow_info() -> WorkflowInfo:
    """The workflow whose code is running, the same in every replay. Raises `OutsideWorkflow` elsewhere."""
    execution = running_loop("durable.workflow_info()").execution
    return WorkflowInfo(
        execution.workflow_id, execution.key, execution.definition.name, execution.fed_run, execution.parent_id
    )


def now() -> datetime:
    """The time of the event that the code is handling; aware UTC, the same in every replay."""
    return running_loop("durable.now()").now


def uuid4() -> uuid.UUID:
    """A random UUID that is the same in every replay. Unique but not secret: it can be computed from
    the workflow's id.
    """
    return uuid.UUID(int=running_loop("durable.uuid4()").execution.rng.getrandbits(128), version=4)


def random() -> float:
    """A random number from 0 up to, not including, 1, the same in every replay. Not secret. See also `rng()`."""
    return running_loop("durable.random()").execution.rng.random()


def rng() -> _random.Random:
    """The workflow's own random generator, for choices and shuffles that are the same in every replay."""
    return running_loop("durable.rng()").execution.rng


def patched(id: str) -> bool:
    """Whether this run takes the new way of a change to the code: True in runs that come here for the first time, False
    in those whose history went by before the change. The first answer for an `id` stands for the run.

    `if durable.patched("fraud-check"): ...new code... else: ...old code...`. Delete the `if` and the old way when
    `manage.py durable patches` says that no live workflow needs it. Raises `KeyInvalid` for an id that is empty or
    longer than 200 characters, and `OutsideWorkflow` elsewhere.
    """
    loop = running_loop("durable.patched(...)")
    check_text("patch", id, MAX_PATCH_LENGTH)
    return loop.execution.patches.asked(id)


def sleep(span: timedelta | float) -> Coroutine[Any, Any, None]:
    """Waits for a timedelta or seconds, however long, without holding any resources. `math.inf` waits for ever.

    Raises `ValueError` for NaN and `OverflowError` beyond the year 9999, both at the call.
    """
    loop = waiting_loop("durable.sleep(...)")
    if not isinstance(loop, WorkflowLoop):
        return cast("Coroutine[Any, Any, None]", loop)
    loop.timers.deadline(loop.elapsed, span)
    return _sleep(loop, span)


@overload
def wait_for_signal(name: str) -> Coroutine[Any, Any, Any]: ...
@overload
def wait_for_signal(name: str, *, as_type: type[T]) -> Coroutine[Any, Any, T]: ...
def wait_for_signal(name: str, *, as_type: Any = None) -> Coroutine[Any, Any, Any]:
    """Returns the payload of the next signal of this name: first in, first out, including those that came before the
    call.

    The payload is plain JSON, or decoded as `as_type`; if it does not match, raises `SignalUnreadable`. A wait that is
    cancelled, as by `asyncio.timeout`, takes no signal. Raises `KeyInvalid` at the call for an invalid name.
    """
    loop = waiting_loop("durable.wait_for_signal(...)")
    if not isinstance(loop, WorkflowLoop):
        return cast("Coroutine[Any, Any, Any]", loop)
    if not isinstance(name, str):
        raise KeyInvalid("signal name", name, "it has to be text")
    if not 0 < len(name) <= MAX_SIGNAL_NAME_LENGTH:
        raise KeyInvalid("signal name", name, f"1 to {MAX_SIGNAL_NAME_LENGTH} characters are allowed")
    return loop.execution.mailbox.take(name, Any if as_type is None else as_type)


class WorkflowLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs with the workflow's id and run as extras; silent in replay and while a workflow is evicted.

    A line of workflow code is made at the call and emitted when its turn is committed; the lines of an activation that
    is rolled back are dropped. Elsewhere a line is emitted at once. Errors of log handlers reach neither workflow nor
    activity.
    """

    def log(self, level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
        if not self.isEnabledFor(level):
            return
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # the caller's place is not this line
        msg, options = self.process(msg, kwargs)
        line = lines.of_code(self.logger, level, msg, args, options)
        loop = get_running_loop()
        if isinstance(loop, WorkflowLoop):
            loop.lines.append(line)
        else:
            lines.say(line)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - logging's name
        loop = get_running_loop()
        if isinstance(loop, WorkflowLoop) and (loop.replaying or loop.state is not RUNNING):
            return False
        return super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        loop = get_running_loop()
        if isinstance(loop, WorkflowLoop):
            execution = loop.execution
            bound = {"workflow_id": str(execution.workflow_id), "run": execution.run}
            kwargs["extra"] = {**(kwargs.get("extra") or {}), **bound}
        return msg, kwargs


logger = WorkflowLogger(logging.getLogger("durable.workflow"), {})
"""The logger for workflow code."""


def running_loop(call: str) -> WorkflowLoop:
    """The loop of the workflow whose code is running. Raises `OutsideWorkflow` elsewhere, and while it is evicted."""
    loop = get_running_loop()
    if not isinstance(loop, WorkflowLoop):
        raise OutsideWorkflow(call, _ADVICE)
    if loop.state is not RUNNING:
        raise OutsideWorkflow(call, _LEAVING)
    return loop


def waiting_loop(call: str) -> WorkflowLoop | WorkflowFuture:
    """The loop for a call that is awaited; while the workflow is evicted, an object that raises when it is awaited."""
    loop = get_running_loop()
    if not isinstance(loop, WorkflowLoop):
        raise OutsideWorkflow(call, _ADVICE)
    if loop.state is RUNNING:
        return loop
    refused = loop.create_future()
    refused.set_exception(OutsideWorkflow(call, _LEAVING))
    refused.exception()  # marks it as retrieved, so that nothing complains if it is never awaited
    return refused


async def _sleep(loop: WorkflowLoop, span: timedelta | float) -> None:
    if (span.days < 0 or not span) if isinstance(span, timedelta) else span <= 0:
        await asyncio.sleep(0)
    else:
        await _pause(loop, span)


async def _pause(loop: WorkflowLoop, span: timedelta | float) -> None:
    woken = loop.create_future()
    handle = loop.call_after(span, _wake, woken)
    try:
        await woken
    finally:
        handle.cancel()


def _wake(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)
