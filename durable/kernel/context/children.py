"""What workflow code may do with other workflows: start children, and send signals and requests to cancel."""

from __future__ import annotations

import uuid
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from durable.errors import KeyInvalid, OptionInvalid
from durable.kernel.codec import write_call
from durable.kernel.context.workflow_context import running_loop, waiting_loop
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.kernel.definitions.options import DETACHED, StartOptions, check_key
from durable.kernel.loop import futures
from durable.kernel.loop.event_loop import WorkflowLoop

R = TypeVar("R")

if TYPE_CHECKING:
    import asyncio

    # Futures that also stand where a coroutine is asked for, as in `TaskGroup.create_task`: the workflow's loop takes
    # them there. A type checker asks nobody to await them.
    class Sending(asyncio.Future[None], Coroutine[None, None, None]):
        """See `durable.kernel.loop.futures.Sending`."""

    class Child(asyncio.Future[R], Coroutine[None, None, R], Generic[R]):
        """See `durable.kernel.loop.futures.Child`."""

        id: uuid.UUID
        key: str | None
        type: str

        def signal(self, name: str, payload: Any = None) -> Sending: ...
        def cancel(self, *, reason: str = "") -> Sending: ...  # type: ignore[override]
else:
    Child = futures.Child
    Sending = futures.Sending

__all__ = ["Child", "Sending", "cancel_workflow", "execute", "open_children", "send_by_key", "signal_workflow"]

_DEFAULT_CLOSE = "cancel"


def execute(
    definition: WorkflowDefinition[Any, R],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: StartOptions,
    *,
    detached: bool = False,
) -> Child[R]:
    """Starts a child workflow with the end of the activation. Raises `OutsideWorkflow`, `ArgumentsMismatch`,
    `PayloadError`, `KeyInvalid` and `OptionInvalid` at the call.

    `detached`: it is abandoned, and its end is not told to this workflow.
    """
    verb = "start" if detached else "execute"
    loop = waiting_loop(f"{definition.fn.__name__}.{verb}(...)")
    if not isinstance(loop, WorkflowLoop):
        return cast("Child[R]", loop)
    execution = loop.execution
    if options.on_conflict == "existing":
        raise OptionInvalid("on_conflict", "existing", '"refuse" for a child: the holder would not tell this workflow')
    if detached and options.parent_close not in (None, "abandon"):
        raise OptionInvalid("parent_close", options.parent_close, '"abandon" for start(...); use execute(...)')
    if options.key is not None:
        check_key(options.key, execution.max_key_length)
    chosen = {name: getattr(options, name) for name in ("queue", "priority", "timeout", "start_at")}
    child = execution.calls.start(
        definition,
        write_call(definition, args, kwargs),
        key=options.key,
        parent_close=DETACHED if detached else options.parent_close or _DEFAULT_CLOSE,
        options={name: value for name, value in chosen.items() if value is not None},
    )
    return cast("Child[R]", child)


def open_children() -> list[Child[Any]]:
    """The children of this workflow that have not ended as far as it knows, oldest first, to be awaited, signalled or
    cancelled. Those whose awaiting was cancelled, and those begun with `start(...)`, are not among them.
    """
    execution = running_loop("durable.open_children()").execution
    return cast("list[Child[Any]]", execution.calls.open_children())


def signal_workflow(workflow_id: uuid.UUID | str, name: str, payload: Any = None) -> Sending:
    """Sends a signal to another workflow. `payload` are JSON natives. Await what this returns, where it is sent, only
    to learn that the signal was accepted.

    Raises `KeyInvalid` and `PayloadError` at the call; the awaiting raises `WorkflowNotFound`, `WorkflowClosed`,
    `MailboxFull`, and `NobodyListens` for a single activity. Raises `OutsideWorkflow` elsewhere: there,
    `durable.get_workflow(id).signal(...)` sends it.
    """
    return _send("durable.signal_workflow(...)", to=_id(workflow_id), name=name, value=payload)


def cancel_workflow(workflow_id: uuid.UUID | str, *, reason: str = "") -> Sending:
    """Asks another workflow to cancel; it may clean up first. Awaiting it is as for `signal_workflow`."""
    return _send("durable.cancel_workflow(...)", to=_id(workflow_id), name=None, value=reason)


def send_by_key(definition: WorkflowDefinition[Any, Any], key: str, name: str | None, value: Any) -> Sending:
    """The same for the workflow of a type that holds a key: a signal, or (without a name) a request to cancel."""
    shown = f"{definition.fn.__name__}.{'cancel' if name is None else 'signal'}(...)"
    loop = waiting_loop(shown)
    if isinstance(loop, WorkflowLoop):
        check_key(key, loop.execution.max_key_length)
    return _send(shown, type=definition.name, key=key, name=name, value=value)


def _send(shown: str, **what: Any) -> Sending:
    loop = waiting_loop(shown)
    sending: Any = loop.execution.calls.send(**what) if isinstance(loop, WorkflowLoop) else loop
    return cast("Sending", sending)


def _id(workflow_id: Any) -> uuid.UUID:
    if isinstance(workflow_id, uuid.UUID):
        return workflow_id
    try:
        return uuid.UUID(workflow_id)
    except (AttributeError, TypeError, ValueError):
        raise KeyInvalid("workflow id", workflow_id, "it has to be a UUID, or the text of one") from None
