"""The facts that make up a history, and the messages that become facts.

Wire names never change. `data` is a plain JSON envelope; only the payload inside it (a string) went through the codec:

==================== ========================================================================================
type                 data
==================== ========================================================================================
workflow_started     type, input (payload; absent for a single activity), python ("3.11"), digest_key (wrapped by the
                     codec; shown to nobody; absent in runs that began before it and for a single activity), trace (the
                     caller's traceparent and tracestate, if it had a trace; not for a single activity), parent (id, of
                     a child)
workflow_begun       (nothing)
workflow_completed   result (payload), dropped_tasks, dropped_commands, unread
workflow_failed      cause (ordinals), failure {type, message, traceback} or {type, sealed}, dropped_tasks,
                     dropped_commands, unread
workflow_cancelled   reason, actor, terminated, dropped_tasks, dropped_commands, unread
workflow_timed_out   unread (names of signals, reasons of cancel requests), unread_more (how many it does not list)
workflow_paused      actor, reason
workflow_resumed     actor, reason
workflow_reopened    actor, reason, keeps ([[from, to], …]: the earlier events that count)
workflow_blocked     reason, version, what staff are shown (position, recorded, asked; of a bug in the code: error_type,
                     traceback); or the texts in sealed
workflow_unblocked   actor, reason
cancel_requested     actor, reason
activity_scheduled   activity, digest (keyed by digest_key, hidden like a payload)
activity_completed   result (payload)
activity_failed      failure, attempts
activity_cancelled   (nothing)
child_started        child (id), type, digest (as above), key, parent_close, refused {holder} if its key was taken
child_completed      child, result (payload, of the child)
child_failed         child, status (failed, cancelled, timed_out, refused), failure (of the child), reason, holder
child_cancelled      child
signal_sent          to (id) or type and key, name or cancel (true), digest, refused (closed, not_found, single, full)
signal_answered      refused, status
activity_redriven    actor, mode, reason, was_judged
activity_discarded   actor, reason, then, was_judged
timer_fired          timer [seq, place]
signal_received      name, payload
marker_recorded      kind "unreadable": seq of the signal, problem; kind "patch": id
==================== ========================================================================================

Keys that would be empty or zero may be left out.

A workflow may wait long between its start and its first turn. Its time begins with the first turn: `now()` of the first
activation is the time of the first record after `workflow_started`. If that activation makes no record, the turn adds
`workflow_begun`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

DIGEST_KEY: Final = "digest_key"
"""The key of the digests of a run's arguments, in the data of `workflow_started`. It is never shown."""

TRACE: Final = "trace"
"""The key of the caller's trace, in the data of `workflow_started` and in the options of an outbox row. Engines that do
not know it pass over it.
"""

PARENT: Final = "parent"
"""The key of the workflow that has started a child, in the data of its `workflow_started`."""


class EventType(StrEnum):
    """Every kind of fact. The value is the wire name."""

    WORKFLOW_STARTED = "workflow_started"
    WORKFLOW_BEGUN = "workflow_begun"
    WORKFLOW_COMPLETED = "workflow_completed"
    WORKFLOW_FAILED = "workflow_failed"
    WORKFLOW_CANCELLED = "workflow_cancelled"
    WORKFLOW_TIMED_OUT = "workflow_timed_out"
    WORKFLOW_PAUSED = "workflow_paused"
    WORKFLOW_RESUMED = "workflow_resumed"
    WORKFLOW_REOPENED = "workflow_reopened"
    WORKFLOW_BLOCKED = "workflow_blocked"
    WORKFLOW_UNBLOCKED = "workflow_unblocked"
    CANCEL_REQUESTED = "cancel_requested"
    ACTIVITY_SCHEDULED = "activity_scheduled"
    ACTIVITY_COMPLETED = "activity_completed"
    ACTIVITY_FAILED = "activity_failed"
    ACTIVITY_CANCELLED = "activity_cancelled"
    CHILD_STARTED = "child_started"
    CHILD_COMPLETED = "child_completed"
    CHILD_FAILED = "child_failed"
    CHILD_CANCELLED = "child_cancelled"
    SIGNAL_SENT = "signal_sent"
    SIGNAL_ANSWERED = "signal_answered"
    ACTIVITY_REDRIVEN = "activity_redriven"
    ACTIVITY_DISCARDED = "activity_discarded"
    TIMER_FIRED = "timer_fired"
    SIGNAL_RECEIVED = "signal_received"
    MARKER_RECORDED = "marker_recorded"


INPUTS = frozenset(
    {
        EventType.WORKFLOW_STARTED,
        EventType.ACTIVITY_COMPLETED,
        EventType.ACTIVITY_FAILED,
        EventType.CHILD_COMPLETED,
        EventType.CHILD_FAILED,
        EventType.SIGNAL_ANSWERED,
        EventType.TIMER_FIRED,
        EventType.SIGNAL_RECEIVED,
        EventType.CANCEL_REQUESTED,
    }
)
"""Events that are fed to the workflow's code; each begins an activation."""

RECORDS = frozenset(
    {
        EventType.ACTIVITY_SCHEDULED,
        EventType.ACTIVITY_CANCELLED,
        EventType.CHILD_STARTED,
        EventType.CHILD_CANCELLED,
        EventType.SIGNAL_SENT,
        EventType.MARKER_RECORDED,
        EventType.WORKFLOW_COMPLETED,
        EventType.WORKFLOW_FAILED,
        EventType.WORKFLOW_CANCELLED,
    }
)
"""Events that record a command of the code; matched on replay. (`workflow_cancelled` with `terminated`, and
`workflow_timed_out`, are written from outside the code and end the history: replay stops there without matching.)"""

CLOSING = frozenset(
    {
        EventType.WORKFLOW_COMPLETED,
        EventType.WORKFLOW_FAILED,
        EventType.WORKFLOW_CANCELLED,
        EventType.WORKFLOW_TIMED_OUT,
    }
)
"""Events that end a workflow."""


class MessageKind(StrEnum):
    """What waits for a workflow's next turn. The value is the wire name."""

    START = "start"
    COMPLETED = "completed"
    FAILED = "failed"
    SIGNAL = "signal"
    CANCEL = "cancel"
    TERMINATE = "terminate"
    CHILD = "child"


@dataclass(frozen=True, slots=True)
class Event:
    """One fact of a history. `seq` counts from 1 without gaps; `ordinal` is set for events of activities, of children,
    and of what was sent to other workflows: they share one counter.

    `recorded_at` is cut to whole milliseconds here: it is the workflow's time in every replay, and has to survive
    formats that keep no more, such as Django's JSON. Starts, which write without an `Event`, cut it in their statement.
    """

    seq: int
    type: EventType
    data: Mapping[str, Any] = field(repr=False)
    recorded_at: datetime
    ordinal: int | None = None

    def __post_init__(self) -> None:
        beyond = self.recorded_at.microsecond % 1_000
        if beyond:
            object.__setattr__(self, "recorded_at", self.recorded_at - timedelta(microseconds=beyond))
