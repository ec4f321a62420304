"""What redrive, discard and the preview take and return."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, overload

from durable.outcomes.states import Cause, OutboxStatus


class RedriveMode(StrEnum):
    """`ELIGIBLE` respects every gate. `FORCED` overrides a recorded outcome and the judged marker, and
    needs a reason.
    """

    ELIGIBLE = "eligible"
    FORCED = "forced"


Then = Literal["fail", "cancel"]
"""What a discard does to a workflow that is waiting: the activity fails, or the workflow is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSnapshot:
    """An outbox row as operators see it: as it was when it was read, or when the verb had changed it.

    It holds no payload: `input` and `last_heartbeat` are columns of `durable.models.OutboxRow`. `cause` is a `Cause`,
    as text, or the text that another version of the engine has written; empty if no delivery has failed. `worker` is
    the name of the worker that claimed it last.
    """

    id: int
    workflow_id: uuid.UUID
    run: int
    ordinal: int
    activity: str
    queue: str
    status: OutboxStatus
    paused: bool
    suspect: bool
    priority: int
    visible_after: datetime
    created_at: datetime
    claimed_at: datetime | None
    deliveries: int
    delivery_failures: int
    delivery_budget: int
    attempts: int
    attempt_budget: int | None
    failure_delivered: bool
    cause: str
    error_class: str
    error_group: str
    dead_lettered_at: datetime | None
    redrive_count: int
    discarded_at: datetime | None
    worker: str

    @property
    def pk(self) -> int:
        """The row's id, as Django calls it."""
        return self.id

    @property
    def dispatch_key(self) -> str:
        """`workflow:run:ordinal`, also the idempotency key that handlers see."""
        return f"{self.workflow_id}:{self.run}:{self.ordinal}"


@dataclass(frozen=True, slots=True)
class Redriven:
    """The row went back to pending. `was_judged`: the workflow had got the failure, or had stopped waiting."""

    row: RowSnapshot
    was_judged: bool


@dataclass(frozen=True, slots=True)
class Discarded:
    """The dead letter was closed. `was_judged`: its workflow was no longer waiting, and nothing else happened."""

    row: RowSnapshot
    was_judged: bool


@dataclass(frozen=True, slots=True)
class DeadLetters(Sequence[RowSnapshot]):
    """Some of a workflow's dead letters, oldest first. `more`: there are others after the last of these."""

    rows: tuple[RowSnapshot, ...] = ()
    more: bool = False

    @overload
    def __getitem__(self, index: int) -> RowSnapshot: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RowSnapshot, ...]: ...
    def __getitem__(self, index: int | slice) -> RowSnapshot | tuple[RowSnapshot, ...]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)


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
