"""States of rows, why deliveries fail, and what failed, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class WorkflowStatus(StrEnum):
    """Status of a workflow. `docs/lifecycle.md` says who moves a workflow in and out of each."""

    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"

    @property
    def is_terminal(self) -> bool:
        """Whether this is one of the four hard terminals."""
        return self in TERMINAL


TERMINAL = frozenset(
    {WorkflowStatus.COMPLETED, WorkflowStatus.FAILED, WorkflowStatus.CANCELLED, WorkflowStatus.TIMED_OUT}
)


class OutboxStatus(StrEnum):
    """Status of an outbox row."""

    PENDING = "pending"
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"


class Cause(StrEnum):
    """Why a delivery, or an attempt, failed."""

    WORKER_DIED = "worker_died"
    LEASE_LOST = "lease_lost"
    ACK_ABANDONED = "ack_abandoned"
    UNKNOWN_HANDLER = "unknown_handler"
    UNDECODABLE_INPUT = "undecodable_input"
    TRANSPORT_DOWN = "transport_down"
    TRANSPORT_LOST = "transport_lost"
    RETRIES_EXHAUSTED = "retries_exhausted"
    APPLICATION_ERROR = "application_error"
    TIMEOUT = "timeout"
    HEARTBEAT_TIMEOUT = "heartbeat_timeout"


OF_ATTEMPTS = (Cause.APPLICATION_ERROR, Cause.TIMEOUT, Cause.HEARTBEAT_TIMEOUT)
"""The causes of failed attempts."""

OF_DEAD_LETTERS = tuple(cause for cause in Cause if cause not in OF_ATTEMPTS)
"""The causes that a dead letter can have."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as text. Never rebuilt into an exception by calling the original class."""

    type: str
    message: str
    traceback: str = ""

    def as_data(self) -> dict[str, str]:
        """Plain JSON, as events and rows store it."""
        return {"type": self.type, "message": self.message, "traceback": self.traceback}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Failure:
        """The inverse of `as_data`; missing parts read as empty text."""
        return cls(str(data.get("type", "")), str(data.get("message", "")), str(data.get("traceback", "")))
