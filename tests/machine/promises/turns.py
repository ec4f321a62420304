"""What a batch of turns may have done. Which code ran is the workflows' business: here everything that has changed must
have its explanation, and everything that was read must have become something.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from durable.conf import settings
from durable.kernel.definitions.registry import registry
from durable.outcomes import TurnReport
from tests.machine.promises import families
from tests.machine.promises.history import outcomes
from tests.machine.state import Row, State, by_owner

CLOSING = {f"workflow_{status}": status for status in ("completed", "failed", "cancelled", "timed_out")}
OUTCOMES = {"activity_completed", "activity_failed", "activity_cancelled"}
_OWNED = ("events", "rows", "items", "messages")
_OF_MESSAGE = {
    "completed": "activity_completed",
    "failed": "activity_failed",
    "signal": "signal_received",
    "cancel": "cancel_requested",
}
_OF_CHILDREN = {"child_completed", "child_failed"}


def is_turnable(workflow: Row) -> bool:
    """Running, and not blocked by this very code."""
    return workflow["status"] == "running" and (not workflow["blocked_reason"] or not workflow["blocked_version"])


def due(state: State, queues: tuple[str, ...] | None) -> set[uuid.UUID]:
    """The workflows that have something due."""
    woken = {w["id"] for w in state.workflows.values() if w["wake_at"] is not None and w["wake_at"] <= state.now}
    told = {m["workflow_id"] for m in state.messages.values() if not m["parked"] and m["visible_at"] <= state.now}
    return {w for w in woken | told if queues is None or state.workflows[w]["queue"] in queues}


def not_yet_taken(after: State, report: TurnReport) -> State:
    """The state behind a turn, without what it has claimed by the way."""
    before = after.copy()
    for taken in report.claimed:
        assert before.rows[taken.row_id]["deliveries"] == 1
        before.rows[taken.row_id].update(status="pending", claimed_at=None, worker="", deliveries=0)
        del before.items[taken.row_id]
    return before


def judge(
    before: State, after: State, report: TurnReport, *, queues: tuple[str, ...] | None, limit: int, all_of_them: int = 1
) -> None:
    """Raise what a turn has done that it may not do."""
    candidates = due(before, queues)
    started = after.workflows.keys() - before.workflows.keys()
    before, after = families.without(before, after)
    assert before.workflows.keys() | started == after.workflows.keys() | started
    touched: set[uuid.UUID] = set()
    were, are = ({table: by_owner(getattr(state, table)) for table in _OWNED} for state in (before, after))
    for workflow_id, workflow in before.workflows.items():
        same = all(were[table].get(workflow_id) == are[table].get(workflow_id) for table in _OWNED)
        if not same or workflow != after.workflows[workflow_id]:
            assert workflow_id in candidates, f"{workflow_id} had nothing due, and has changed"
            touched.add(workflow_id)
            _judge(before, after, workflow_id)
    assert before.workflows.keys() == after.workflows.keys()
    for name in ("audits", "failures", "workers", "ledger"):
        assert getattr(before, name) == getattr(after, name), f"a turn has changed the {name}"
    assert report.workflows <= limit
    assert report.staged == len(after.rows) - len(before.rows)
    closed = [w for w in before.workflows if before.is_live(w) and not after.is_live(w)]
    assert report.closed == len(closed)
    suspected = any(before.workflows[w]["poison_turns"] for w in candidates)
    if all_of_them and len(candidates) <= limit and not suspected:
        _nothing_is_left(after, queues, candidates)


def _nothing_is_left(after: State, queues: tuple[str, ...] | None, candidates: set[uuid.UUID]) -> None:
    """A batch that is large enough reads everything that is due."""
    left = due(after, queues) & candidates
    assert not left, f"these were due, and are still due after the turn: {left}"


def _of(state: State, table: str, workflow_id: uuid.UUID) -> dict[Any, Row]:
    return {key: row for key, row in getattr(state, table).items() if row["workflow_id"] == workflow_id}


def _judge(before: State, after: State, workflow_id: uuid.UUID) -> None:
    was, now = before.workflows[workflow_id], after.workflows[workflow_id]
    old, new = _of(before, "messages", workflow_id), _of(after, "messages", workflow_id)
    gone = [message for key, message in old.items() if key not in new]
    assert not new.keys() - old.keys(), "a turn has sent a message"
    if not before.is_live(workflow_id):
        _only(before, after, workflow_id, "messages")
        kept = {key: {**m, "parked": True} for key, m in old.items() if m["kind"] not in ("child", "terminate")}
        assert new == kept, "an ended workflow keeps all that callers have said"
        return
    if any(message["kind"] == "terminate" for message in old.values()):
        _judge_terminated(before, after, workflow_id)
        return
    if not is_turnable(was):
        assert not gone, "messages of a workflow that may not turn were consumed"
        assert all(message["parked"] for message in new.values())
        _only(before, after, workflow_id, "messages", "workflows")
        assert {**was, "wake_at": None} == now
        return
    fresh = after.events_of(workflow_id)[was["last_seq"] :]
    assert [e["seq"] for e in fresh] == list(range(was["last_seq"] + 1, now["last_seq"] + 1))
    for key, event in _of(before, "events", workflow_id).items():
        assert after.events[key] == event, "a fact has been changed"
    closing = [e for e in fresh if e["type"] in CLOSING]
    if closing:
        assert closing == fresh[-1:]
        assert now["status"] == CLOSING[closing[0]["type"]]
        assert now["closed_at"] is not None
    else:
        assert now["status"] == was["status"] == "running"
        assert {k: {**m, "parked": new[k]["parked"], "visible_at": new[k]["visible_at"]} for k, m in old.items()
                if k in new} == new  # fmt: skip
    assert (now["blocked_at"] is not None) is bool(now["blocked_reason"])
    if now["deadline_at"] is not None:
        goes_on = bool(was["blocked_reason"]) and not now["blocked_reason"] and not closing
        assert now["deadline_at"] - was["deadline_at"] == (after.now - was["blocked_at"] if goes_on else timedelta())
    left = _read(before, was, fresh, gone)
    _judge_unread(after, workflow_id, left, closing, new if closing else {}, old)
    _judge_rows(before, after, workflow_id, fresh, bool(closing))


def _judge_terminated(before: State, after: State, workflow_id: uuid.UUID) -> None:
    """By the order of its parent's end, in whatever state it was: nothing else of it is read."""
    was, now = before.workflows[workflow_id], after.workflows[workflow_id]
    fresh = after.events_of(workflow_id)[was["last_seq"] :]
    assert [event["type"] for event in fresh] == ["workflow_cancelled"]
    assert fresh[0]["data"]["terminated"] is True
    assert (now["status"], now["wake_at"]) == ("cancelled", None)
    old, new = _of(before, "messages", workflow_id), _of(after, "messages", workflow_id)
    gone = [message for key, message in old.items() if key not in new]
    _judge_unread(after, workflow_id, gone, fresh, new, old)
    _judge_rows(before, after, workflow_id, fresh, closing=True)


def _only(before: State, after: State, workflow_id: uuid.UUID, *tables: str) -> None:
    for table in set(_OWNED) - set(tables):
        assert _of(before, table, workflow_id) == _of(after, table, workflow_id), f"{table} have changed"
    if "workflows" not in tables:
        assert before.workflows[workflow_id] == after.workflows[workflow_id]


def _read(before: State, was: Row, fresh: list[Row], gone: list[Row]) -> list[Row]:
    """Match each new input with what it was made of; answers the messages that have become nothing."""
    left = list(gone)
    timers = [(timer["id"], datetime.fromisoformat(timer["due"])) for timer in was["timers"]]
    began = any(m["kind"] == "start" for m in gone)
    for event in fresh:
        if event["type"] in _OF_CHILDREN:
            child = event["data"]["child"]
            match = next((m for m in left if m["kind"] == "child" and json.loads(m["payload"])["child"] == child), None)
            assert match is not None, f"no child has sent {event}"
            left.remove(match)
            continue
        kind = next((kind for kind, type in _OF_MESSAGE.items() if type == event["type"]), None)
        if kind is not None:
            match = next((m for m in left if m["kind"] == kind and _says(m, event)), None)
            assert match is not None, f"nobody sent {event}"
            left.remove(match)
        elif event["type"] == "timer_fired" and not began and len(fresh) == 1:
            assert any(at <= before.now for _, at in timers), f"{event} was not due"
    if began:
        (start,) = [m for m in left if m["kind"] == "start"]
        left.remove(start)
        assert start["visible_at"] <= before.now or fresh[-1]["type"] in CLOSING
    return left


def _says(message: Row, event: Row) -> bool:
    if message["ordinal"] != event["ordinal"]:
        return False
    if message["kind"] == "completed":
        return bool(event["data"] == {"result": message["payload"]})
    return bool(event["data"] == json.loads(message["payload"]))


def _judge_unread(
    after: State,
    workflow_id: uuid.UUID,
    left: list[Row],
    closing: list[Row],
    kept: dict[Any, Row],
    old: dict[Any, Row],
) -> None:
    """Results come too late only behind an outcome, or an end. What callers have said stays when the workflow ends:
    parked, as it was, and listed.
    """
    for message in left:
        if message["kind"] in ("completed", "failed"):
            late = outcomes(after, workflow_id, message["ordinal"]) or closing
            assert late, f"a result was lost: {message}"
        if message["kind"] == "child":
            child = json.loads(message["payload"])["child"]
            heard = [e for e in after.events_of(workflow_id) if e["data"].get("child") == child]
            assert closing or "child_cancelled" in [e["type"] for e in heard], f"an end was lost: {message}"
    assert not [message for message in left if message["kind"] == "signal"], "a signal was lost"
    asked = any(e["type"] == "cancel_requested" for e in after.events_of(workflow_id))
    assert asked or not any(m["kind"] == "cancel" for m in left) or _ended_at_once(closing), "a request was lost"
    if closing:
        assert kept == {key: {**old[key], "parked": True} for key in kept}
        assert {message["kind"] for message in kept.values()} <= {"signal", "cancel"}
        said = Counter(_text(listed(m)) for m in kept.values())
        assert Counter(map(_text, closing[0]["data"].get("unread", []))) == said, "what is kept is not what is listed"


def listed(message: Row) -> dict[str, Any]:
    """What a closing event says of a message that nobody has read: of a signal its name alone."""
    said = json.loads(message["payload"])
    return {"kind": message["kind"], **({"name": said["name"]} if message["kind"] == "signal" else said)}


def _ended_at_once(closing: list[Row]) -> bool:
    """Whether the workflow was cancelled before it had begun: its closing event is all that says so."""
    return bool(closing) and closing[0]["type"] == "workflow_cancelled"


def _text(told: Any) -> str:
    return json.dumps(told, sort_keys=True)


def _judge_rows(before: State, after: State, workflow_id: uuid.UUID, fresh: list[Row], closing: bool) -> None:
    scheduled = {e["ordinal"]: e for e in fresh if e["type"] == "activity_scheduled"}
    given_up = {e["ordinal"] for e in fresh if e["type"] == "activity_cancelled"}
    old, new = _of(before, "rows", workflow_id), _of(after, "rows", workflow_id)
    staged = {row["ordinal"]: row for key, row in new.items() if key not in old}
    assert staged.keys() == scheduled.keys(), "what is scheduled is staged, and nothing else"
    for ordinal, row in staged.items():
        _judge_staged(after, row, scheduled[ordinal])
        gone = closing or ordinal in given_up
        assert row["status"] == ("cancelled" if gone else "pending")
    for key, row in old.items():
        expected = dict(row)
        out = before.items.get(key)
        if row["status"] in ("pending", "claimed", "dead") and closing:
            expected.update(status="cancelled", suspect=False)
            if row["status"] == "dead" and row["ordinal"] in given_up:
                expected["failure_delivered"] = True
            out = None
        elif row["ordinal"] in given_up and row["status"] == "pending":
            expected.update(status="cancelled", suspect=False)
        elif row["ordinal"] in given_up and row["status"] == "dead":
            expected["failure_delivered"] = True
        elif row["ordinal"] in given_up and out is not None:
            out = {**out, "cancel_requested_at": out["cancel_requested_at"] or before.now}
        assert new[key] == expected, f"row {key} is {new[key]} and not {expected}"
        assert after.items.get(key) == out, f"the delivery of row {key} is {after.items.get(key)} and not {out}"


def _judge_staged(after: State, row: Row, event: Row) -> None:
    definition = registry.activity(row["activity"])
    assert event["data"]["activity"] == row["activity"]
    assert definition.retry is not None
    fixed = {
        "run": after.workflows[row["workflow_id"]]["run"], "paused": False, "suspect": False, "attempts": 0,
        "deliveries": 0, "delivery_failures": 0, "redrive_count": 0, "failure_delivered": False, "cause": "",
        "claimed_at": None, "dead_lettered_at": None, "discarded_at": None, "visible_after": after.now,
        "created_at": after.now, "queue": definition.queue, "delivery_budget": settings.delivery_attempts,
        "attempt_budget": definition.retry.max_attempts, "error_class": True, "lane": None, "waiting": False,
    }  # fmt: skip
    assert {name: row[name] for name in fixed} == fixed
