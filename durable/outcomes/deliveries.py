"""What claims and the verbs that end a delivery return, and what upkeep did."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from durable.outcomes.states import Cause, Failure


@dataclass(frozen=True, slots=True)
class Claim:
    """One delivery of an outbox row to this worker. `token` fences every verb that ends it."""

    row_id: int
    token: uuid.UUID
    workflow_id: uuid.UUID
    run: int
    ordinal: int
    activity: str
    payload: str = field(repr=False)
    options: Mapping[str, Any]
    delivery: int
    delivery_failures: int
    delivery_budget: int
    attempts: int
    attempt_budget: int | None
    last_heartbeat: str | None = field(repr=False)
    created_at: datetime
    worker: str
    single: bool = False
    suspect: bool = False

    @property
    def idempotency_key(self) -> str:
        """The dispatch key: the same for every delivery and attempt of this activity."""
        return f"{self.workflow_id}:{self.run}:{self.ordinal}"

    @property
    def attempt(self) -> int:
        """The number of the attempt that this delivery will make, counted from 1."""
        return self.attempts + 1


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned; `payload` is its encoded result."""

    claim: Claim
    payload: str = field(repr=False)
    heartbeat: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler failed for good: no attempt is left (`spent`), or the error is not retried. `error` is the exception,
    for reporting.
    """

    claim: Claim
    failure: Failure
    cause: Cause
    started_at: datetime
    heartbeat: str | None = field(default=None, repr=False)
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
    heartbeat: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler was asked to stop and did. Carries no completion."""

    claim: Claim
    heartbeat: str | None = field(default=None, repr=False)


Ending = Completed | Failed | RetryLater | Cancelled


class AckOutcome(StrEnum):
    """What an acknowledgement did for one item."""

    ACKNOWLEDGED = "acknowledged"
    TOKEN_MISSING = "token_missing"


class WakesBy(StrEnum):
    """How a worker learns of new work, as its row shows it."""

    POLLING = "polling"
    NOTIFICATION = "notification"
    LOST = "polling (channel lost)"


class Company(StrEnum):
    """Whether a worker seems to share its queues with others. Only a hint: one that has just died still counts."""

    ALONE = "alone"
    OTHERS = "others"


class GiveBack(StrEnum):
    """What abandoning, releasing or postponing did for one item. Busy: nothing, since another session has locked it;
    only a release returns this, the others wait.
    """

    PENDING = "pending"
    DEAD_LETTERED = "dead_lettered"
    SETTLED = "settled"
    TOKEN_MISSING = "token_missing"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class HeldDelivery:
    """What a renewal needs to know of a delivery in this process."""

    row_id: int
    token: uuid.UUID
    heartbeat: str | None = field(default=None, repr=False)


class Renewal(StrEnum):
    """What a renewal did for one item."""

    RENEWED = "renewed"
    CANCEL_REQUESTED = "cancel_requested"
    BUSY = "busy"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """What one round of reconciling did. `errors` maps a workflow's id to the text of the error for which it was
    skipped.
    """

    settled: int = 0
    rearmed: int = 0
    dead_lettered: int = 0
    suspects_due: int = 0
    errors: Mapping[uuid.UUID, str] = field(default_factory=dict)
