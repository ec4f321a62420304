"""`Handle`: what a caller holds of one workflow."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from datetime import timedelta
from time import monotonic, sleep
from typing import Any, Generic, TypeVar, assert_never, cast

from asgiref.sync import sync_to_async

from durable.client import waiting
from durable.client.places import outside_transactions, outside_workflows, synchronous
from durable.client.waiting import FIRST_PAUSE, LONGEST_PAUSE
from durable.conf import settings
from durable.errors import NotRegistered, OptionInvalid, WorkflowCancelled, WorkflowFailed, WorkflowTimedOut
from durable.flow.caller import cancel as cancelling
from durable.flow.caller import signal as signalling
from durable.flow.looks import look
from durable.kernel.definitions.options import check_text
from durable.kernel.definitions.registry import registry
from durable.kernel.limits import MAX_DEDUP_LENGTH, MAX_REASON_LENGTH, MAX_SIGNAL_NAME_LENGTH
from durable.kernel.payloads import birthplace
from durable.outcomes import CancelOutcome, Failure, Snapshot, WorkflowStatus

R = TypeVar("R")

_UNKNOWN: Any = object()
_AWAITED = "Make it in an activity; a child that is to be awaited is started with `.execute(...)`."


class Handle(Generic[R]):
    """One workflow, by its id. Holds no state: each call queries the database. Handles of one workflow are equal."""

    __slots__ = ("_hint", "id")

    def __init__(self, id: uuid.UUID, *, hint: Any = _UNKNOWN) -> None:
        self.id = id
        self._hint = hint

    def status(self) -> WorkflowStatus:
        """The workflow's status now. Raises `WorkflowNotFound`."""
        synchronous("handle.status()", "handle.astatus()", _AWAITED)
        return look.snapshot(self.id).status

    def result(self, timeout: float | timedelta | None = None) -> R:
        """Waits for the end and returns the workflow's result. `timeout` is seconds or a timedelta; None waits for
        ever.

        Raises `WorkflowFailed`, `WorkflowCancelled` or `WorkflowTimedOut` if it ended otherwise, `TimeoutError` if it
        has not ended in time, `WorkflowNotFound`, and at once `InsideTransaction` where its end could not be seen.
        """
        synchronous("handle.result()", "handle.aresult()", _AWAITED)
        pauses = _until(self.id, _seconds(timeout))
        while True:
            snapshot = self._look()
            if snapshot.status.is_terminal:
                return self._outcome(snapshot)
            sleep(next(pauses))

    def signal(self, name: str, payload: Any = None, *, dedup: str | None = None) -> None:
        """Sends a signal, in the caller's transaction. `payload` are JSON natives. Returns before the signal is
        delivered.

        A second signal with the same `dedup` changes nothing while the first is still waiting. Raises `WorkflowClosed`,
        `WorkflowNotFound`, `PayloadError`, `KeyInvalid`, `MailboxFull` when too much waits to be read, and
        `NobodyListens` for a single activity.
        """
        synchronous("handle.signal(...)", "handle.asignal(...)", "Use durable.signal_workflow(handle.id, ...).")
        stored = _signal(self.id, name, payload, dedup)
        signalling.signal(self.id, name, payload=stored, dedup=dedup)

    def cancel(self, *, reason: str = "") -> CancelOutcome:
        """Asks the workflow to stop, in the caller's transaction. Returns done, asked, already over, or not found.

        Its code may clean up first. Idempotent; never raises because of the workflow's state.
        """
        synchronous("handle.cancel()", "handle.acancel()", "Use durable.cancel_workflow(handle.id).")
        if reason:
            check_text("reason", reason, MAX_REASON_LENGTH)
        return cancelling.cancel(self.id, reason=reason)

    async def astatus(self) -> WorkflowStatus:
        """`status` for async callers."""
        outside_workflows("handle.astatus()")
        return await sync_to_async(self.status, thread_sensitive=True)()

    async def aresult(self, timeout: float | timedelta | None = None) -> R:  # noqa: ASYNC109 - the twin of `result`
        """`result` for async callers, with the same errors. It waits on the loop: one thread of the process, with one
        connection, polls for all callers. Inside the transaction of a `TestCase`, and with an SQLite database in
        memory, which no other connection sees, it polls on the caller's connection.
        """
        outside_workflows("handle.aresult()")
        seconds = _seconds(timeout)
        if await waiting.sees_what_others_commit():
            return self._outcome(await waiting.ended(self.id, seconds))
        pauses = _until(self.id, seconds)
        while True:
            snapshot = await sync_to_async(self._look, thread_sensitive=True)()
            if snapshot.status.is_terminal:
                return self._outcome(snapshot)
            await asyncio.sleep(next(pauses))

    async def asignal(self, name: str, payload: Any = None, *, dedup: str | None = None) -> None:
        """`signal` for async callers."""
        outside_workflows("handle.asignal(...)")
        await sync_to_async(self.signal, thread_sensitive=True)(name, payload, dedup=dedup)

    async def acancel(self, *, reason: str = "") -> CancelOutcome:
        """`cancel` for async callers."""
        outside_workflows("handle.acancel()")
        return await sync_to_async(self.cancel, thread_sensitive=True)(reason=reason)

    def _look(self) -> Snapshot:
        snapshot = look.snapshot(self.id)
        if not snapshot.status.is_terminal:
            outside_transactions(self.id)
        return snapshot

    def _outcome(self, snapshot: Snapshot) -> R:
        match snapshot.status:
            case WorkflowStatus.COMPLETED:
                hint = _hint_of(snapshot) if self._hint is _UNKNOWN else self._hint
                if snapshot.result is None:
                    return cast(R, None)
                born = birthplace.result(snapshot.id, 1 if snapshot.single else None)
                return cast(R, settings.codec().decode(snapshot.result, hint, path="result", birthplace=born))
            case WorkflowStatus.FAILED:
                failure = snapshot.failure or Failure("", "")
                raise WorkflowFailed(
                    snapshot.id, type=failure.type, message=failure.message, traceback=failure.traceback
                )
            case WorkflowStatus.CANCELLED:
                raise WorkflowCancelled(snapshot.id, reason=snapshot.reason)
            case WorkflowStatus.TIMED_OUT:
                raise WorkflowTimedOut(snapshot.id)
            case WorkflowStatus.RUNNING | WorkflowStatus.PAUSED:
                raise AssertionError(f"Workflow {snapshot.id} has not ended.")
            case _:
                assert_never(snapshot.status)

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Handle) else NotImplemented

    def __hash__(self) -> int:
        return hash((Handle, self.id))

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"


def send_for_staff(
    workflow_id: uuid.UUID, name: str, payload: Any = None, *, dedup: str | None = None, actor: Any = None
) -> None:
    """`Handle.signal` as an operator sends it: the same, with an audit row that commits with it."""
    stored = _signal(workflow_id, name, payload, dedup)
    signalling.signal(workflow_id, name, payload=stored, dedup=dedup, actor=actor, audited=True)


def _signal(workflow_id: uuid.UUID, name: str, payload: Any, dedup: str | None) -> str:
    """The payload of a signal as it is stored. Checks its name and `dedup` first."""
    check_text("signal name", name, MAX_SIGNAL_NAME_LENGTH)
    if dedup is not None:
        check_text("dedup", dedup, MAX_DEDUP_LENGTH)
    born = birthplace.signal(workflow_id, name)
    return settings.codec().encode(payload, Any, path="payload", birthplace=born)


def _hint_of(snapshot: Snapshot) -> Any:
    """The annotation of the result, if its function is registered here; otherwise the result is read as
    JSON natives.
    """
    try:
        definition = registry.activity(snapshot.type) if snapshot.single else registry.workflow(snapshot.type)
    except NotRegistered:
        return Any
    return definition.result_hint


def _seconds(timeout: float | timedelta | None) -> float | None:
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0
    if seconds is not None and not number:
        raise OptionInvalid("timeout", timeout, "seconds, a timedelta, or None to wait for ever; zero or more")
    return seconds


def _until(workflow_id: uuid.UUID, seconds: float | None) -> Iterator[float]:
    """Yields the seconds to wait before each look. Raises `TimeoutError` when the time is over."""
    # This host's clock: it is only used to wait, nothing is decided by it.
    ends = None if seconds is None else monotonic() + seconds
    pause = FIRST_PAUSE
    while True:
        left = pause if ends is None else ends - monotonic()
        if left <= 0:
            raise waiting.expired(workflow_id, seconds)
        yield min(pause, left)
        pause = min(pause * 2, LONGEST_PAUSE)
