"""Frozen values that verbs answer. Match them exhaustively; none of them is a boolean."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from durable.models import OutboxRow


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
    FAILED = "failed"
    CANCELLED = "cancelled"


class Cause(StrEnum):
    """Why a delivery, or an attempt, failed."""

    WORKER_DIED = "worker_died"
    LEASE_LOST = "lease_lost"
    ACK_ABANDONED = "ack_abandoned"
    UNKNOWN_HANDLER = "unknown_handler"
    UNDECODABLE_INPUT = "undecodable_input"
    TRANSPORT_DOWN = "transport_down"
    RETRIES_EXHAUSTED = "retries_exhausted"
    APPLICATION_ERROR = "application_error"
    TIMEOUT = "timeout"


OF_DEAD_LETTERS = tuple(cause for cause in Cause if cause not in (Cause.APPLICATION_ERROR, Cause.TIMEOUT))
"""The causes that a dead letter can have: the two others are those of attempts that failed or go on."""


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


# --- start ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """The workflow was inserted (in the caller's transaction)."""

    workflow_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class KeyHeld:
    """Nothing was inserted: a live workflow of the type holds the key."""

    key: str
    holder: uuid.UUID


# --- claim and what ends a delivery --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """One delivery of an outbox row to this worker. `token` is the fence of everything that ends it."""

    row_id: int
    token: uuid.UUID
    workflow_id: uuid.UUID
    lease: int
    ordinal: int
    activity: str
    payload: str
    options: Mapping[str, Any]
    delivery: int
    delivery_failures: int
    delivery_budget: int
    attempts: int
    attempt_budget: int
    last_heartbeat: str | None
    created_at: datetime
    worker: str
    single: bool = False
    suspect: bool = False

    @property
    def idempotency_key(self) -> str:
        """The dispatch key: the same for every delivery and attempt of this activity."""
        return f"{self.workflow_id}:{self.lease}:{self.ordinal}"

    @property
    def attempt(self) -> int:
        """The number of the attempt that this delivery will make, counted from 1."""
        return self.attempts + 1


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned; `payload` is its encoded result."""

    claim: Claim
    payload: str
    heartbeat: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler failed for good: no attempt is left (`spent`), or the error is one that is not retried. `error` is
    what it raised, for who reports it.
    """

    claim: Claim
    failure: Failure
    cause: Cause
    started_at: datetime
    heartbeat: str | None = None
    spent: bool = True
    error: BaseException | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The handler failed and has attempts left; the row is due again after `delay_us` microseconds."""

    claim: Claim
    failure: Failure
    cause: Cause
    started_at: datetime
    delay_us: int
    heartbeat: str | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler was asked to stop and did. Carries no completion."""

    claim: Claim
    heartbeat: str | None = None


Ending = Completed | Failed | RetryLater | Cancelled


class AckOutcome(StrEnum):
    """What an acknowledgement did for one item."""

    ACKNOWLEDGED = "acknowledged"
    TOKEN_MISSING = "token_missing"


class WakesBy(StrEnum):
    """How a worker learns of work from outside, as its row tells it."""

    POLLING = "polling"
    NOTIFICATION = "notification"
    LOST = "polling (channel lost)"


class Company(StrEnum):
    """Whether a worker seems to share its queues with others. A hint: a dead one may have been alive just now."""

    ALONE = "alone"
    OTHERS = "others"


class GiveBack(StrEnum):
    """What abandoning, releasing or postponing did for one item. Busy: nothing, since somebody else has locked it; only
    a release says so, the others wait.
    """

    PENDING = "pending"
    DEAD_LETTERED = "dead_lettered"
    SETTLED = "settled"
    TOKEN_MISSING = "token_missing"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Held:
    """What a renewal needs to know of a delivery in this process."""

    row_id: int
    token: uuid.UUID
    heartbeat: str | None = None


class Renewal(StrEnum):
    """What a renewal did for one item."""

    RENEWED = "renewed"
    CANCEL_REQUESTED = "cancel_requested"
    BUSY = "busy"
    LOST = "lost"


# --- turns and housekeeping ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What one batch of turns did."""

    workflows: int = 0
    messages: int = 0
    staged: int = 0
    closed: int = 0
    deferred: int = 0
    left: int = 0
    """Nothing was done, but so many are due and left for a moment to a process that may have them in memory."""
    held: int = 0
    """Nothing was done, but at least so many are due and wait until there is room for them."""
    taken: Sequence[Claim] = ()
    """What was staged and is this process's delivery already."""


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """What one round of reconciling did. `errors` maps a workflow's id to the text of what kept it un-armed."""

    settled: int = 0
    rearmed: int = 0
    dead_lettered: int = 0
    suspects_due: int = 0
    errors: Mapping[uuid.UUID, str] = field(default_factory=dict)


# --- callers' and operators' verbs ---------------------------------------------------------------------------------


class CancelAnswer(StrEnum):
    """What `cancel` did."""

    DONE = "done"
    ASKED = "asked"
    ALREADY_OVER = "already_over"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class CancelOutcome:
    """`answer`, and the workflow's status where there is one. `single` says that a single activity was asked: its
    handler, if it runs, sees that when it looks next. It is no part of equality.
    """

    answer: CancelAnswer
    status: WorkflowStatus | None = None
    single: bool = field(default=False, compare=False)


class WorkflowState(StrEnum):
    """What an operator's verb left the workflow in."""

    TERMINATED = "terminated"
    UNBLOCKED = "unblocked"
    PAUSED = "paused"
    RESUMED = "resumed"


# --- dead letters --------------------------------------------------------------------------------------------------


class RedriveMode(StrEnum):
    """`ELIGIBLE` heeds every gate. `FORCED` passes a recorded outcome and the judged marker, and needs a reason."""

    ELIGIBLE = "eligible"
    FORCED = "forced"


Then = Literal["fail", "cancel"]
"""What a discard does to the workflow that still waits: the activity fails, or the workflow is cancelled."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """The row went back to pending. `was_judged`: the workflow had been told of the failure, or had settled it
    itself.
    """

    row: OutboxRow
    was_judged: bool


@dataclass(frozen=True, slots=True)
class Discarded:
    """The dead letter was closed. `was_judged`: nobody waited for it any more, and nothing else happened."""

    row: OutboxRow
    was_judged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which dead letters are meant; what is None matches all, and no ids at all match none. `failed_before` keeps what
    comes later out. Bounds named *after*, *from* and *to* are themselves meant, those named *before* are not.
    """

    workflow_id: uuid.UUID | None = None
    workflow_ids: tuple[uuid.UUID, ...] | None = None
    workflow_type: str | None = None
    activity: str | None = None
    cause: Cause | None = None
    queue: str | None = None
    judged: Literal["judged", "held"] | None = None
    redriven: Literal["never", "again"] | None = None
    failed_after: datetime | None = None
    failed_before: datetime | None = None
    first_failed_after: datetime | None = None
    first_failed_before: datetime | None = None
    attempts_from: int | None = None
    attempts_to: int | None = None
    deliveries_from: int | None = None
    deliveries_to: int | None = None


@dataclass(frozen=True, slots=True)
class Naming:
    """By what people know a dead letter: its workflow's business key, and the first line of its last error."""

    key: str | None
    error: str

    def __str__(self) -> str:
        return ", ".join(filter(None, [f"key {self.key}" if self.key else "", self.error]))


@dataclass(frozen=True, slots=True)
class RedrivePreview:
    """What a redrive would do now, having written nothing.

    `refused` counts by the stable code of the refusal. When `capped`, only the first `looked_at` rows were judged and
    there are more.
    """

    redrivable: int
    refused: Mapping[str, int]
    looked_at: int
    capped: bool

    @property
    def total_text(self) -> str:
        """How many rows match, as text: "10,000+" when there are more than were looked at."""
        return f"{self.looked_at:,}+" if self.capped else f"{self.looked_at:,}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A workflow as callers see it."""

    id: uuid.UUID
    type: str
    key: str | None
    status: WorkflowStatus
    single: bool
    result: str | None
    failure: Failure | None
    reason: str
    queue: str
    blocked_reason: str
    created_at: datetime
    closed_at: datetime | None
