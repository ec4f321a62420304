"""What the code of a workflow asks for in one activation. Imperative; each becomes exactly one event."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from durable.outcomes import Failure


@dataclass(frozen=True, slots=True)
class ScheduleActivity:
    """Stage an activity. `options` holds only what the call overrode with `.options(...)`."""

    ordinal: int
    activity: str
    payload: str = field(repr=False)
    digest: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CancelActivity:
    """The code no longer awaits the activity: its row is to be cancelled, and a late result is consumed."""

    ordinal: int


@dataclass(frozen=True, slots=True)
class StartChild:
    """Start a child workflow. `options` holds only what the call chose; `parent_close` what its parent's end does."""

    ordinal: int
    child: uuid.UUID
    type: str
    key: str | None
    payload: str = field(repr=False)
    digest: str
    parent_close: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CancelChild:
    """The code no longer awaits the child: it is asked to cancel, unless it was abandoned, and its end is consumed."""

    ordinal: int
    child: uuid.UUID
    asks: bool


@dataclass(frozen=True, slots=True)
class SendSignal:
    """Send a signal (`name`), or a request to cancel (None), to the workflow with the id `to`, or to the one of a type
    that holds a key. `payload` is plain JSON; of a request, its reason. `awaited`: the code waits for what becomes of
    it.
    """

    ordinal: int
    to: uuid.UUID | None
    type: str
    key: str
    name: str | None
    payload: str = field(repr=False)
    digest: str
    awaited: bool


@dataclass(frozen=True, slots=True)
class RecordPatch:
    """The run takes the new way of this patch; every replay takes it from here on."""

    id: str


@dataclass(frozen=True, slots=True)
class RecordUnreadable:
    """The code took the signal of this `seq`, which does not match the type asked for; every replay raises the same."""

    seq: int
    problem: str


@dataclass(frozen=True, slots=True)
class CompleteWorkflow:
    """The code returned; `payload` is the encoded result.

    `dropped_tasks` counts the tasks that were still pending; `dropped_commands` names the activities that were called
    when nobody could await them, and which were therefore never staged.
    """

    payload: str = field(repr=False)
    dropped_tasks: int = 0
    dropped_commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailWorkflow:
    """The code raised `error`, which is kept for who reports it. What was dropped: as in `CompleteWorkflow`.

    `cause` has the ordinals of the activities whose failures led to the error.
    """

    failure: Failure
    dropped_tasks: int = 0
    dropped_commands: tuple[str, ...] = ()
    error: BaseException | None = field(default=None, compare=False, repr=False)
    cause: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CancelWorkflow:
    """The code ended in `CancelledError` after a cancel request. What was dropped: as in `CompleteWorkflow`."""

    reason: str
    dropped_tasks: int = 0
    dropped_commands: tuple[str, ...] = ()


Ending = CompleteWorkflow | FailWorkflow | CancelWorkflow
Command = (
    ScheduleActivity | CancelActivity | StartChild | CancelChild | SendSignal | RecordUnreadable | RecordPatch | Ending
)
