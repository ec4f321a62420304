"""What a running activity can read and report: the object returned by `durable.activity_info()`."""

from __future__ import annotations

import contextvars
import uuid
from collections.abc import Callable
from typing import Any

from durable.errors import OutsideActivity
from durable.kernel.codec import Codec
from durable.kernel.payloads import birthplace
from durable.outcomes import Claim


class ActivityInfo:
    """One attempt of an activity, as its handler sees it. Safe to use from several threads."""

    def __init__(
        self,
        *,
        workflow_id: uuid.UUID,
        ordinal: int,
        attempt: int,
        delivery: int,
        idempotency_key: str,
        codec: Codec,
        cancel_requested: Callable[[], bool],
        beat: Callable[[str], None],
        last_heartbeat: str | None = None,
    ) -> None:
        self.workflow_id = workflow_id
        self.ordinal = ordinal
        self.attempt = attempt
        self.delivery = delivery
        self.idempotency_key = idempotency_key
        self._codec = codec
        self._cancel_requested = cancel_requested
        self._beat = beat
        self._last_heartbeat = last_heartbeat
        self._born = birthplace.heartbeat(workflow_id, ordinal)

    @property
    def cancelled(self) -> bool:
        """Whether this handler should stop, because of its workflow or because the lease was lost. Updated at each
        renewal.
        """
        return self._cancel_requested()

    @property
    def last_heartbeat(self) -> Any:
        """The details of the last heartbeat of this or an earlier attempt; None if there was none."""
        stored = self._last_heartbeat
        return None if stored is None else self._codec.decode(stored, Any, path="last_heartbeat", birthplace=self._born)

    def heartbeat(self, details: Any = None) -> None:
        """Saves the progress for the next attempt; stored with the next renewal of the lease.

        `details` are JSON natives. Raises `PayloadError` at once for what cannot be stored.
        """
        stored = self._codec.encode(details, Any, path="details", birthplace=self._born)
        self._last_heartbeat = stored
        self._beat(stored)

    def __repr__(self) -> str:
        return f"<ActivityInfo {self.idempotency_key} attempt {self.attempt}>"


current: contextvars.ContextVar[ActivityInfo] = contextvars.ContextVar("durable_activity_info")
"""Set by the worker around each handler; an `async def` handler's tasks inherit it."""

claimed: contextvars.ContextVar[Claim] = contextvars.ContextVar("durable_claim")
"""The delivery that the handler runs for. Set with `current`, for handlers of the engine's own."""


def activity_info() -> ActivityInfo:
    """The attempt that runs here. Raises `OutsideActivity` elsewhere."""
    try:
        return current.get()
    except LookupError:
        raise OutsideActivity("durable.activity_info()") from None
