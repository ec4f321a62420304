"""Django signals about what has happened, for the project's code. Sent after the commit, each at most once.

::

    from django.dispatch import receiver
    from durable.signals import workflow_closed

    @receiver(workflow_closed)
    def tell_the_shop(sender, *, workflow_id, type, key, status, **rest): ...

`sender` is the definition (what `@workflow` or `@activity` made), or None where this process does not know it. Values
are plain: ids, texts, numbers. In a worker receivers run on the thread that log lines leave through, elsewhere after
the commit of the caller's transaction; they may use the ORM. One that raises, whatever it raises, is logged, and stops
neither the others nor the engine. A process that dies right after its commit sends nothing, so work that has to be done
belongs in an activity.
"""

from __future__ import annotations

import contextvars
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any, Final

from asgiref.sync import async_to_sync
from django.dispatch import Signal

from durable.errors import AlreadyRegistered, NotRegistered
from durable.errors.showing import class_name, is_a, said
from durable.kernel.definitions.registry import registry
from durable.logs import get_logger
from durable.outbound import departures, send

logger = get_logger("durable.signals")

_LONGEST_NAME: Final = 200

workflow_started = Signal()
"""A workflow or single activity was started: workflow_id, type, key, single, queue."""

workflow_closed = Signal()
"""It has ended: workflow_id, type, key, single, status ("completed", "failed", "cancelled", "timed_out"), error_type,
error_message, reason; the last three are empty where there is none.
"""

workflow_blocked = Signal()
"""Its code does not match its history, or cannot continue for another reason: workflow_id, type, key, single, reason.
"""

activity_failed = Signal()
"""No attempt is left, or the error is not retried: workflow_id, run, ordinal, activity, single, attempt, attempts (how
many it may have), cause, error_type, error_message.
"""

activity_dead_lettered = Signal()
"""It waits for staff, or (`delivered`) its workflow has got the failure: workflow_id, type, key, run, ordinal,
activity, single, cause, delivered, deliveries, attempts (those made), error_type, error_message.
"""

dead_letter_redriven = Signal()
"""Staff gave it back: workflow_id, run, ordinal, activity, mode, was_judged, actor, reason."""

dead_letter_discarded = Signal()
"""Staff closed it: workflow_id, run, ordinal, activity, then, was_judged, actor, reason."""


def of_workflow(signal: Signal, type: str, *, single: bool, **values: Any) -> None:
    """Sends a signal about a workflow, or about a single activity as one, if it has receivers."""
    if signal.receivers:
        _send(
            signal, registry.activity if single else registry.workflow, type, {"type": type, "single": single, **values}
        )


def of_activity(signal: Signal, activity: str, **values: Any) -> None:
    """Sends a signal about an activity, if it has receivers."""
    if signal.receivers:
        _send(signal, registry.activity, activity, {"activity": activity, **values})


def _send(signal: Signal, find: Callable[[str], Any], name: str, values: dict[str, Any]) -> None:
    try:
        sender = find(name)
    except (NotRegistered, AlreadyRegistered):
        sender = None
    if signal.has_listeners(sender):
        send(_Sending(signal, sender, values, _name(signal), str(values.get("workflow_id", ""))))


def send_here(signal: Signal, sender: Any, values: dict[str, Any], *, name: str, workflow_id: uuid.UUID) -> None:
    """Calls the receivers of a signal of another app's on this thread, now, as robustly as those of our own."""
    if signal.has_listeners(sender):
        _Sending(signal, sender, values, name, str(workflow_id)).depart()


@dataclass(slots=True)
class _Sending:
    """One signal on its way to its receivers."""

    signal: Signal
    sender: Any
    values: dict[str, Any]
    name: str
    workflow: str
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    @property
    def kind(self) -> str:
        return "signal"

    def __str__(self) -> str:
        return f"the signal {self.name}"

    is_heavy = False  # its values are plain

    def lighten(self) -> None:
        """There is nothing to let go."""

    def is_admitted(self) -> bool:
        """All of them are."""
        return True

    def depart(self) -> None:
        # Django's `send_robust` does not catch a `BaseException`, and the receivers after it would not be called.
        live: Any = self.signal._live_receivers(self.sender)
        plain, coroutines = live
        for receiver in plain:
            self._call(receiver, receiver)
        for receiver in coroutines:
            self._call(receiver, async_to_sync(receiver))

    def _call(self, receiver: Any, call: Callable[..., Any]) -> None:
        try:
            call(signal=self.signal, sender=self.sender, **self.values)
        # The project's code: what it raises is logged, and the next receiver is called.
        except BaseException as error:
            if departures.is_ctrl_c(error):
                raise
            name = _receiver_name(receiver)
            logger.error(
                "signal.receiver_raised", signal=self.name, receiver=name, workflow=self.workflow, exc_info=error
            )


def _receiver_name(receiver: Any) -> str:
    # Functions are named by their own name, other callables by their class, since reading their attributes runs their
    # code.
    if is_a(receiver, FunctionType, MethodType):
        return said(receiver.__qualname__, _LONGEST_NAME)
    return class_name(type(receiver))


def _name(signal: Signal) -> str:
    return next((name for name, value in globals().items() if value is signal), "?")
