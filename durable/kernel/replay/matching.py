"""Comparing what the code asks for with what its history records, one activation at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from durable.errors import NonDeterminism
from durable.kernel.history.commands import (
    CancelActivity,
    CancelWorkflow,
    CompleteWorkflow,
    Ending,
    FailWorkflow,
    RecordUnreadable,
)
from durable.kernel.history.events import Event, EventType
from durable.kernel.history.known import UNREADABLE
from durable.kernel.loop.futures import ActivityFuture

Asked = ActivityFuture | CancelActivity | RecordUnreadable | Ending

_ENDINGS: dict[type, EventType] = {
    CompleteWorkflow: EventType.WORKFLOW_COMPLETED,
    FailWorkflow: EventType.WORKFLOW_FAILED,
    CancelWorkflow: EventType.WORKFLOW_CANCELLED,
}


_SCHEDULED = EventType.ACTIVITY_SCHEDULED
_CANCELLED = EventType.ACTIVITY_CANCELLED
_MARKER = EventType.MARKER_RECORDED


def match(asked: Sequence[Asked], records: Sequence[Event], *, after: int) -> tuple[list[Event], int]:
    """Pairs each command of an activation with its record; returns the records in the order of `asked`, and the drift.

    A command that does not match the next record takes the first unused one of the same activation with equal kind,
    name and input digest: that is drift, counted once for each. A leftover record or command raises `NonDeterminism`.
    `after` is the `seq` of the activation's input event.
    """
    wanted = [_key_of_asked(command) for command in asked]
    recorded = [_key_of_record(record) for record in records]
    if wanted == recorded:
        return list(records), 0
    free: dict[int, None] = dict.fromkeys(range(len(records)))
    matched: list[Event] = []
    missed: list[Asked] = []
    drift = 0
    for command, key in zip(asked, wanted, strict=True):
        at = next((index for index in free if recorded[index] == key), None)
        if at is None:
            missed.append(command)
            continue
        drift += at != next(iter(free))
        del free[at]
        matched.append(records[at])
    if missed or free:
        _differ(missed, [records[index] for index in free], after=after + 1 + len(records))
    return matched, drift


def _differ(missed: list[Asked], left: list[Event], *, after: int) -> None:
    asked = _words_of_asked(missed[0]) if missed else "nothing"
    if missed and left and _is_same_call(missed[0], left[0]):
        asked += " with other arguments"  # and not their digests, which are as confidential as payloads
    raise NonDeterminism(
        position=left[0].seq if left else after,
        recorded=words_of_record(left[0]) if left else "nothing more here",
        asked=asked,
    )


def _is_same_call(command: Asked, record: Event) -> bool:
    return type(command) is ActivityFuture and record.type is _SCHEDULED and command.activity == record.data["activity"]


def _key_of_asked(command: Asked) -> tuple[Any, ...]:
    if type(command) is ActivityFuture:
        return (_SCHEDULED, command.activity, command.digest)
    if type(command) is CancelActivity:
        return (_CANCELLED, command.ordinal)
    if type(command) is RecordUnreadable:
        return (_MARKER, UNREADABLE, command.seq)
    return (_ENDINGS[type(command)],)


def _key_of_record(record: Event) -> tuple[Any, ...]:
    if record.type is _SCHEDULED:
        return (record.type, record.data["activity"], record.data["digest"])
    if record.type is _CANCELLED:
        return (record.type, record.ordinal)
    if record.type is _MARKER:
        return (record.type, record.data["kind"], record.data["seq"])
    return (record.type,)


def unreadable(records: Sequence[Event]) -> dict[int, str]:
    """The markers of unreadable signals among the records of an activation, by the `seq` of the signal."""
    return {
        record.data["seq"]: str(record.data.get("problem") or "")
        for record in records
        if record.type is _MARKER and record.data["kind"] == UNREADABLE
    }


def words_of_record(record: Event) -> str:
    """A record, for people."""
    if record.type is _SCHEDULED:
        return f"a call of {record.data['activity']} (activity {record.ordinal})"
    if record.type is _CANCELLED:
        return f"the cancellation of activity {record.ordinal}"
    if record.type is _MARKER:
        return f"that the signal of event {record.data['seq']} could not be read"
    return {
        EventType.WORKFLOW_COMPLETED: "the workflow's completion",
        EventType.WORKFLOW_FAILED: "the workflow's failure",
        EventType.WORKFLOW_CANCELLED: "the workflow's end as cancelled",
    }[record.type]


def _words_of_asked(command: Asked) -> str:
    if isinstance(command, ActivityFuture):
        return f"a call of {command.activity}"
    if isinstance(command, CancelActivity):
        return f"the cancellation of activity {command.ordinal}"
    if isinstance(command, RecordUnreadable):
        return f"that the signal of event {command.seq} cannot be read"
    if isinstance(command, CompleteWorkflow):
        return "the workflow's completion"
    if isinstance(command, FailWorkflow):
        return f"the workflow's failure with {command.failure.type}: {command.failure.message}"
    return "the workflow's end as cancelled"
