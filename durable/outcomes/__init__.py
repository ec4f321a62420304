"""Frozen values that verbs answer. Match them exhaustively; none of them is a boolean."""

from __future__ import annotations

from durable.outcomes.dead_letters import (
    DeadLetterFilter,
    Discarded,
    Naming,
    RedriveMode,
    Redriven,
    RedrivePreview,
    Then,
)
from durable.outcomes.deliveries import (
    AckOutcome,
    Cancelled,
    Claim,
    Company,
    Completed,
    Ending,
    Failed,
    GiveBack,
    Held,
    ReconcileReport,
    Renewal,
    RetryLater,
    WakesBy,
)
from durable.outcomes.staff import StaffVerb, Through
from durable.outcomes.states import OF_DEAD_LETTERS, TERMINAL, Cause, Failure, OutboxStatus, WorkflowStatus
from durable.outcomes.workflows import (
    CancelAnswer,
    CancelOutcome,
    KeyHeld,
    Reencrypted,
    Snapshot,
    Started,
    TurnReport,
    WorkflowState,
)

__all__ = [
    "OF_DEAD_LETTERS",
    "TERMINAL",
    "AckOutcome",
    "CancelAnswer",
    "CancelOutcome",
    "Cancelled",
    "Cause",
    "Claim",
    "Company",
    "Completed",
    "DeadLetterFilter",
    "Discarded",
    "Ending",
    "Failed",
    "Failure",
    "GiveBack",
    "Held",
    "KeyHeld",
    "Naming",
    "OutboxStatus",
    "ReconcileReport",
    "RedriveMode",
    "RedrivePreview",
    "Redriven",
    "Reencrypted",
    "Renewal",
    "RetryLater",
    "Snapshot",
    "StaffVerb",
    "Started",
    "Then",
    "Through",
    "TurnReport",
    "WakesBy",
    "WorkflowState",
    "WorkflowStatus",
]
