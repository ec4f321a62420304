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
    """What has ended, is paused or blocked, and is no longer due."""
    left: int = 0
    """Nothing was done, but so many are due and left for a moment to a process that may have them in memory."""
    held: int = 0
    """Nothing was done, but at least so many are due and wait until there is room for them."""
    taken: Sequence[Claim] = ()
    """What was staged and is this process's delivery already."""


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
class Reencrypted:
    """How many payloads were rewritten, and how many could not be read and were left as they are."""

    payloads: int = 0
    unreadable: int = 0

    def __add__(self, other: Reencrypted) -> Reencrypted:
        return Reencrypted(self.payloads + other.payloads, self.unreadable + other.unreadable)
