"""What redrive, discard and the preview take and return."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from durable.outcomes.states import Cause

if TYPE_CHECKING:
    from durable.models import OutboxRow


class RedriveMode(StrEnum):
    """`ELIGIBLE` respects every gate. `FORCED` overrides a recorded outcome and the judged marker, and
    needs a reason.
    """

    ELIGIBLE = "eligible"
    FORCED = "forced"


Then = Literal["fail", "cancel"]
"""What a discard does to a workflow that is waiting: the activity fails, or the workflow is cancelled."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """The row went back to pending. `was_judged`: the workflow had got the failure, or had stopped waiting."""

    row: OutboxRow
    was_judged: bool


@dataclass(frozen=True, slots=True)
class Discarded:
    """The dead letter was closed. `was_judged`: its workflow was no longer waiting, and nothing else happened."""

    row: OutboxRow
    was_judged: bool


class DeadLetters(list["OutboxRow"]):
    """Some of a workflow's dead letters, oldest first. `more`: there are others after the last of these."""

    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Selects dead letters. A condition that is None matches all; an empty collection of ids matches none.
    `failed_before` leaves out rows that fail later. Bounds named *after*, *from* and *to* are inclusive, those named
    *before* exclusive.
    """

    workflow_id: uuid.UUID | None = None
    workflow_ids: tuple[uuid.UUID, ...] | None = None
    workflow_type: str | None = None
    activity: str | None = None
    cause: Cause | None = None
    error_group: str | None = None
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
    """How people recognise a dead letter: its business key, and the first line and class of its last error."""

    key: str | None
    error: str
    error_class: str = ""

    def without_text(self) -> Naming:
        """The same for users who may not see the error's text."""
        return Naming(self.key, self.error_class, self.error_class)

    def __str__(self) -> str:
        return ", ".join(filter(None, [f"key {self.key}" if self.key else "", self.error]))


@dataclass(frozen=True, slots=True)
class RedrivePreview:
    """What a redrive would do now, having written nothing.

    `refused` counts by the stable code of the refusal. When `capped`, only the first `looked_at` rows were checked and
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
