"""What the verbs of workflows return, and a workflow as callers see it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from durable.outcomes.deliveries import Claim
from durable.outcomes.states import Failure, WorkflowStatus


@dataclass(frozen=True, slots=True)
class Started:
    """The workflow was inserted (in the caller's transaction)."""

    workflow_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class KeyHeld:
    """Nothing was inserted: a live workflow of the type holds the key."""

    key: str
    holder: uuid.UUID


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What one batch of turns did."""

    workflows: int = 0
    messages: int = 0
    staged: int = 0
    closed: int = 0
    deferred: int = 0
    parked: int = 0
    """Workflows that have ended, or are paused or blocked, and are no longer due."""
    left: int = 0
    """Due workflows that were left for a moment to another process, which may have them in memory."""
    without_room: int = 0
    """At least this many due workflows wait until there is room for them in memory."""
    claimed: Sequence[Claim] = ()
    """The rows that the turn has staged and claimed for this process."""
    raised: Sequence[BaseException] = field(default=(), compare=False, repr=False)
    """The errors of bugs in workflow code, each of which has blocked a workflow."""


class CancelAnswer(StrEnum):
    """What `cancel` did."""

    DONE = "done"
    ASKED = "asked"
    ALREADY_OVER = "already_over"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class CancelOutcome:
    """`answer`, and the workflow's status if there is one. `single`: it was a single activity, whose handler, if it is
    running, sees the request when it next checks. `single` is not part of equality.
    """

    answer: CancelAnswer
    status: WorkflowStatus | None = None
    single: bool = field(default=False, compare=False)


class WorkflowState(StrEnum):
    """The state of the workflow after an operator's verb."""

    TERMINATED = "terminated"
    UNBLOCKED = "unblocked"
    PAUSED = "paused"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class PatchState:
    """How many live workflows of a type take which way of a patch. `unsaid` have not come by, and began before the new
    way was first taken (`first_recorded_at`; None: by nobody yet), so they may have passed the place already.
    """

    type: str
    id: str
    new: int
    old: int
    unsaid: int
    first_recorded_at: datetime | None

    @property
    def is_removable(self) -> bool:
        """Whether the `if` and the old way can be deleted from the code: no live workflow needs them."""
        return not self.old and not self.unsaid


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A workflow as callers see it."""

    id: uuid.UUID
    type: str
    key: str | None
    status: WorkflowStatus
    single: bool
    result: str | None = field(repr=False)
    failure: Failure | None
    reason: str
    queue: str
    blocked_reason: str
    created_at: datetime
    closed_at: datetime | None


@dataclass(frozen=True, slots=True)
class FailedActivity:
    """A call whose failure ended its workflow: of an activity, or of a child (`child` is its id, `activity` its type).
    `row_id` is None, and `activity` empty, if its row is gone.
    """

    ordinal: int
    row_id: int | None
    activity: str
    child: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class Reencrypted:
    """How many payloads were rewritten, and how many were unreadable and left as they are."""

    payloads: int = 0
    unreadable: int = 0

    def __add__(self, other: Reencrypted) -> Reencrypted:
        return Reencrypted(self.payloads + other.payloads, self.unreadable + other.unreadable)
