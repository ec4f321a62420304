"""`durable show ID`: one workflow with its pending work and its history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import CommandParser

from durable.client import hidden
from durable.conf import settings
from durable.errors import NewerEngine
from durable.flow.looks import look
from durable.flow.operator.record_view import record_view
from durable.kernel.history.events import Event
from durable.kernel.payloads import birthplace
from durable.kernel.payloads.birthplace import NOWHERE
from durable.management.subcommands import hiding
from durable.management.subcommands.answer import (
    Answer,
    Subcommand,
    WrongUsage,
    plain,
    plain_failure,
    plain_payload,
    printable,
    table,
    workflow_id,
)
from durable.outcomes import FailedActivity, Failure, OutboxStatus, Snapshot

_MOST = 50_000
_LONGEST = 160
_MOST_UNREAD = 100
_MOST_CHARACTERS = 4_000_000
"""Characters of stored data that one call reads: of the history, and of unread messages, each."""


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--after", type=int, default=0, metavar="SEQ", help="only events after this one (default: all)")
    parser.add_argument("--limit", type=int, default=1_000, metavar="N", help="how many events at most (default: 1000)")
    parser.add_argument("--actor", default="", help="who looks; recorded under RECORD_VIEWS")


def _run(options: dict[str, Any]) -> Answer:
    if not 1 <= options["limit"] <= _MOST:
        raise WrongUsage(f"--limit is {options['limit']}; it has to be from 1 to {_MOST:,}.")
    if not 0 <= options["after"] < 2**31:
        raise WrongUsage(f"--after is {options['after']}; it has to be the number of an event, or 0.")
    snapshot = look.snapshot(workflow_id(options["id"]))
    if settings.record_views and not settings.redact_payloads:
        record_view(snapshot.id, actor=options["actor"] or None, what={"page": "durable show"})
    pending = look.pending(snapshot.id)
    unread = look.unread(snapshot.id, limit=_MOST_UNREAD + 1, characters=_MOST_CHARACTERS)
    cause = look.cause_of_failure(snapshot.id)
    events, more, problem = _history(snapshot, options)
    block = look.last_block(snapshot.id) if snapshot.blocked_reason else None
    blocked = {} if block is None else hiding.of_event(block, snapshot)
    data = plain(snapshot) | {
        "block": blocked or None,
        "result": _result(snapshot),
        "failure": plain_failure(snapshot.failure),
        "cause": [{"ordinal": failed.ordinal, "activity": failed.activity, "row": failed.row_id} for failed in cause],
        "reason": snapshot.reason,
        "pending": [_plain_pending(row) for row in pending],
        "unread": [_plain_unread(message) for message in unread[:_MOST_UNREAD]],
        "history": [_plain_event(event, snapshot) for event in events],
        "history_goes_on_after": events[-1].seq if more else None,
        "history_problem": problem,
    }
    lines = [
        *_header(snapshot, cause),
        *_traceback_lines(blocked),
        "",
        *_pending_lines(pending),
        *_unread_lines(unread),
        "",
        *([problem] if problem else _history_lines(events, snapshot)),
    ]
    if more:
        lines.append(f"… and more: --after {events[-1].seq}")
    return Answer(data, lines)


def _history(snapshot: Snapshot, options: dict[str, Any]) -> tuple[list[Event], bool, str]:
    """A page of the history, whether it goes on, and why it cannot be shown; empty if it can."""
    try:
        events, more = look.history_within(
            snapshot.id, after=options["after"], limit=options["limit"], characters=_MOST_CHARACTERS
        )
    except NewerEngine as error:
        return [], False, f"The history cannot be shown here: {error} Use the version that the workers run."
    return events, more, ""


def _result(snapshot: Snapshot) -> Any:
    return hiding.of_payload(
        plain_payload(snapshot.result, birthplace.result(snapshot.id, 1 if snapshot.single else None))
    )


def _plain_pending(row: look.PendingRow) -> dict[str, Any]:
    return {
        "row": row.row_id,
        "ordinal": row.ordinal,
        "activity": row.activity,
        "status": row.status.value,
        "attempts": row.attempts,
        "attempt_budget": row.attempt_budget,
        "deliveries": row.deliveries,
        "delivery_failures": row.delivery_failures,
        "due": row.due.isoformat(),
        "cause": row.cause,
        "worker": row.worker,
        "cancel_asked": row.cancel_asked,
        "last_error": plain_failure(row.last_error),
    }


def _plain_unread(message: look.UnreadMessage) -> dict[str, Any]:
    return {
        "message": message.id,
        "kind": message.kind,
        "data": _said(message),
        "characters": message.characters,
        "arrived_at": message.created_at.isoformat(),
    }


def _said(message: look.UnreadMessage) -> Any:
    """What the event would have held, had it been read; of a damaged message, the text that stands there. None where
    there was no room for it.
    """
    if message.payload is None:
        return None
    try:
        return hiding.of_message(json.loads(message.payload))
    except ValueError:
        return hiding.of_payload(hidden.of_text(message.payload, NOWHERE))


def _plain_event(event: Event, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "type": event.type.value,
        "ordinal": event.ordinal,
        "data": hiding.of_event(event, snapshot),
        "recorded_at": event.recorded_at.isoformat(),
    }


def _header(snapshot: Snapshot, cause: Sequence[FailedActivity]) -> list[str]:
    lines = [
        f"{printable(snapshot.type)} {snapshot.id}",
        f"status    {snapshot.status.value}",
        f"queue     {printable(snapshot.queue)}",
        f"created   {snapshot.created_at:%Y-%m-%d %H:%M:%S}Z",
    ]
    if snapshot.key is not None:
        lines.insert(1, f"key       {printable(snapshot.key)}")
    if snapshot.closed_at is not None:
        lines.append(f"closed    {snapshot.closed_at:%Y-%m-%d %H:%M:%S}Z")
    if snapshot.blocked_reason:
        lines.append(f"blocked   {printable(hiding.of_text(snapshot.blocked_reason))}")
    if snapshot.result is not None:
        lines.append(f"result    {_short(_result(snapshot))}")
    if snapshot.failure is not None:
        lines.append(f"failure   {_words(snapshot.failure)}")
    lines += [_cause(failed) for failed in cause]
    if snapshot.reason:
        lines.append(f"reason    {printable(snapshot.reason)}")
    return lines


def _cause(failed: FailedActivity) -> str:
    if failed.child is not None:
        return f"caused by child {failed.ordinal} {printable(failed.activity)} {failed.child}"
    return f"caused by activity {failed.ordinal} {printable(failed.activity)}".rstrip()


def _traceback_lines(blocked: Mapping[str, Any]) -> list[str]:
    """The traceback of the bug that blocks it, line by line."""
    return [f"          {printable(line)}" for line in str(blocked.get("traceback") or "").splitlines()]


def _pending_lines(pending: Sequence[look.PendingRow]) -> list[str]:
    if not pending:
        return ["No activity is open."]
    rows = [
        (
            row.ordinal,
            row.activity,
            _status(row),
            f"{row.attempts}/{row.attempt_budget or 'any'}",
            row.deliveries,
            f"{row.due:%Y-%m-%d %H:%M:%S}Z",
            row.worker,
            _words(row.last_error) if row.last_error else row.cause,
        )
        for row in pending
    ]
    return table(["#", "ACTIVITY", "STATUS", "ATTEMPTS", "DELIVERIES", "DUE", "WORKER", "LAST ERROR"], rows)


def _unread_lines(unread: Sequence[look.UnreadMessage]) -> list[str]:
    """The unread messages of a workflow that has ended, as a table. Empty if there are none."""
    if not unread:
        return []
    rows = [
        (
            message.id,
            f"{message.created_at:%Y-%m-%d %H:%M:%S}Z",
            message.kind,
            f"({message.characters:,} characters)" if message.payload is None else _short(_said(message)),
        )
        for message in unread[:_MOST_UNREAD]
    ]
    more = ["… and more."] if len(unread) > _MOST_UNREAD else []
    title = "Never read: the workflow ended before it read these messages."
    return ["", title, *table(["MESSAGE", "ARRIVED", "KIND", "DATA"], rows), *more]


def _status(row: look.PendingRow) -> str:
    words = "dead letter" if row.status is OutboxStatus.DEAD else row.status.value
    return f"{words}, cancellation requested, not yet seen" if row.cancel_asked else words


def _history_lines(events: Sequence[Event], snapshot: Snapshot) -> list[str]:
    rows = [
        (
            event.seq,
            f"{event.recorded_at:%Y-%m-%d %H:%M:%S}Z",
            event.type.value,
            "" if event.ordinal is None else event.ordinal,
            _short(hiding.of_event(event, snapshot)) if event.data else "",
        )
        for event in events
    ]
    return table(["SEQ", "RECORDED", "EVENT", "#", "DATA"], rows)


def _short(value: Any) -> str:
    text = printable(json.dumps(value, ensure_ascii=False)[: _LONGEST + 1])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _words(failure: Failure) -> str:
    shown = hiding.of_failure(failure)
    return printable(f"{shown.type}: {shown.message}"[:_LONGEST])


SUBCOMMAND = Subcommand("one workflow: state, pending work, history", _add_arguments, _run)
