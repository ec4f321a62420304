"""Comparing what the code asks for with what its history records, one activation at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from durable.errors import NonDeterminism
from durable.kernel.history.commands import (
    CancelActivity,
    CancelChild,
    CancelWorkflow,
    CompleteWorkflow,
    Ending,
    FailWorkflow,
    RecordUnreadable,
)
from durable.kernel.history.events import Event, EventType
from durable.kernel.history.known import UNREADABLE
from durable.kernel.loop.futures import ActivityFuture, Child, Sending
from durable.kernel.replay.calls import Asked
from durable.kernel.replay.patches import is_patch

Wanted = Asked | Ending

_ENDINGS: dict[type, EventType] = {
    CompleteWorkflow: EventType.WORKFLOW_COMPLETED,
    FailWorkflow: EventType.WORKFLOW_FAILED,
    CancelWorkflow: EventType.WORKFLOW_CANCELLED,
}


_SCHEDULED = EventType.ACTIVITY_SCHEDULED
_CANCELLED = EventType.ACTIVITY_CANCELLED
_MARKER = EventType.MARKER_RECORDED
_CHILD = EventType.CHILD_STARTED
_GIVEN_UP = EventType.CHILD_CANCELLED
_SENT = EventType.SIGNAL_SENT


def match(asked: Sequence[Wanted], records: Sequence[Event], *, after: int) -> tuple[list[Event], int]:
    """Pairs each command of an activation with its record; returns the records in the order of `asked`, and the drift.

    A command that does not match the next record takes the first unused one of the same activation with equal kind,
    name and input digest: that is drift, counted once for each. A leftover record or command raises `NonDeterminism`.
    `after` is the `seq` of the activation's input event. Markers of patches are passed over: replayed code asks for
    none.
    """
    follows = after + 1 + len(records)
    records = [record for record in records if not is_patch(record)]
    wanted = [_key_of_asked(command) for command in asked]
    recorded = [_key_of_record(record) for record in records]
    if wanted == recorded:
        return list(records), 0
    free: dict[int, None] = dict.fromkeys(range(len(records)))
    matched: list[Event] = []
    missed: list[Wanted] = []
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
        _differ(missed, [records[index] for index in free], after=follows)
    return matched, drift


def _differ(missed: list[Wanted], left: list[Event], *, after: int) -> None:
    asked = _words_of_asked(missed[0]) if missed else "nothing"
    if missed and left and _is_same_call(missed[0], left[0]):
        asked += " with other arguments"  # and not their digests, which are as confidential as payloads
    raise NonDeterminism(
        position=left[0].seq if left else after,
        recorded=words_of_record(left[0]) if left else "nothing more here",
        asked=asked,
    )


def _is_same_call(command: Wanted, record: Event) -> bool:
    return _key_of_asked(command)[:-1] == _key_of_record(record)[:-1] and record.type in (_SCHEDULED, _CHILD, _SENT)


def _key_of_asked(command: Wanted) -> tuple[Any, ...]:
    if type(command) is ActivityFuture:
        return (_SCHEDULED, command.activity, command.digest)
    return _key_of_other(command)


def _key_of_other(command: Wanted) -> tuple[Any, ...]:
    match command:
        case CancelActivity():
            key: tuple[Any, ...] = (_CANCELLED, command.ordinal)
        case Child():
            key = (_CHILD, command.type, command.key, command.digest)
        case CancelChild():
            key = (_GIVEN_UP, command.ordinal)
        case Sending():
            to = None if command.to is None else str(command.to)
            key = (_SENT, to, command.type, command.key, command.name, command.digest)
        case RecordUnreadable():
            key = (_MARKER, UNREADABLE, command.seq)
        case _:
            key = (_ENDINGS[type(command)],)
    return key


def _key_of_record(record: Event) -> tuple[Any, ...]:
    if record.type is _SCHEDULED:
        return (record.type, record.data["activity"], record.data["digest"])
    if record.type in (_CANCELLED, _GIVEN_UP):
        return (record.type, record.ordinal)
    data = record.data
    if record.type is _CHILD:
        return (record.type, data["type"], data.get("key"), data["digest"])
    if record.type is _SENT:
        to, type, key, name = (data.get(part) for part in ("to", "type", "key", "name"))
        return (record.type, to, type or "", key or "", name, data.get("digest", ""))
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
    return _WORDS_OF_RECORDS[record.type](record)


_WORDS_OF_RECORDS: dict[EventType, Callable[[Event], str]] = {
    _SCHEDULED: lambda record: f"a call of {record.data['activity']} (activity {record.ordinal})",
    _CANCELLED: lambda record: f"the cancellation of activity {record.ordinal}",
    _CHILD: lambda record: f"the start of the child {record.data['type']} (call {record.ordinal})",
    _GIVEN_UP: lambda record: _words_of_giving_up(record.ordinal),
    _SENT: lambda record: _words_of_sending(record.data.get("name")),
    _MARKER: lambda record: f"that the signal of event {record.data['seq']} could not be read",
    EventType.WORKFLOW_COMPLETED: lambda _: "the workflow's completion",
    EventType.WORKFLOW_FAILED: lambda _: "the workflow's failure",
    EventType.WORKFLOW_CANCELLED: lambda _: "the workflow's end as cancelled",
}


def _words_of_asked(command: Wanted) -> str:
    return _WORDS_OF_ASKED[type(command)](command)


_WORDS_OF_ASKED: dict[type, Callable[[Any], str]] = {
    ActivityFuture: lambda call: f"a call of {call.activity}",
    CancelActivity: lambda command: f"the cancellation of activity {command.ordinal}",
    Child: lambda child: f"the start of the child {child.type}",
    CancelChild: lambda command: _words_of_giving_up(command.ordinal),
    Sending: lambda sending: _words_of_sending(sending.name),
    RecordUnreadable: lambda command: f"that the signal of event {command.seq} cannot be read",
    CompleteWorkflow: lambda _: "the workflow's completion",
    FailWorkflow: lambda end: f"the workflow's failure with {end.failure.type}: {end.failure.message}",
    CancelWorkflow: lambda _: "the workflow's end as cancelled",
}


def _words_of_giving_up(ordinal: int | None) -> str:
    return f"that the child of call {ordinal} is no longer awaited"


def _words_of_sending(name: str | None) -> str:
    return "a request to cancel another workflow" if name is None else f"the sending of a signal {name!r}"
