"""What parents and children may do to one another: rows that a turn starts, and messages between workflows."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from typing import Any
from unittest.mock import ANY

from tests.machine.state import Row, State

DETACHED = "detached"
ENDS = {"child_completed", "child_failed", "child_cancelled"}
ASKED = {"cancel": "cancel", "terminate": "terminate"}


def tell(state: State, workflow: Row) -> None:
    """The messages that the end of a workflow leaves, exactly: for its live parent, and for each live child."""
    parent = state.workflows.get(workflow["parent_id"])
    if parent is not None and state.is_live(parent["id"]) and workflow["parent_close"] != DETACHED:
        _send(state, parent, "child", run=workflow["parent_run"], ordinal=workflow["parent_ordinal"])
    for child in children(state, workflow["id"]):
        kind = ASKED.get(child["parent_close"])
        if kind is None or not state.is_live(child["id"]):
            continue
        if not any(message["kind"] == kind for message in state.messages_of(child["id"])):
            at = child["created_at"] if kind == "terminate" else state.now
            _send(state, child, kind, run=child["run"], visible_at=at)


def _send(state: State, to: Row, kind: str, **more: Any) -> None:
    plain = {"ordinal": None, "visible_at": state.now, "parked": False, "dedup": None}
    row = {"workflow_id": to["id"], "kind": kind, "payload": ANY, "created_at": state.now}
    state.expect_new("messages", **{**plain, **row, **more})


def children(state: State, parent: uuid.UUID) -> list[Row]:
    """The workflows that another one has started."""
    return [row for row in state.workflows.values() if row["parent_id"] == parent]


def without(before: State, after: State) -> tuple[State, State]:
    """The states before and behind a turn without what it has started and sent, which is judged here. What was sent to
    a workflow that the same turn has ended is taken for something that waited for it before.
    """
    core, earlier = after.copy(), before.copy()
    started = after.workflows.keys() - before.workflows.keys()
    for workflow_id in started:
        _judge_started(before, after, after.workflows[workflow_id])
        del core.workflows[workflow_id]
    sent = {key: message for key, message in after.messages.items() if key not in before.messages}
    closed = {w for w in after.workflows if before.is_live(w) and not after.is_live(w)}
    for key, message in sent.items():
        if message["workflow_id"] in closed:
            earlier.messages[key] = {**message, "parked": False}
        else:
            del core.messages[key]
    for table in ("events", "messages"):
        for key, row in list(getattr(core, table).items()):
            if row["workflow_id"] in started:
                del getattr(core, table)[key]
    for workflow_id, row in core.workflows.items():
        mine = sum(after.workflows[new]["parent_id"] == workflow_id for new in started)
        assert row["children"] == before.workflows[workflow_id]["children"] + mine
        row["children"] -= mine
    others = [message for message in sent.values() if message["kind"] != "start"]
    for message in others:
        _judge_sent(before, after, closed, message)
    _judge_told(before, after, closed, others)
    return earlier, core


def _judge_started(before: State, after: State, child: Row) -> None:
    parent = after.workflows[child["parent_id"]]
    events = [
        event
        for event in after.events_of(parent["id"])[before.workflows[parent["id"]]["last_seq"] :]
        if event["type"] == "child_started" and event["data"]["child"] == str(child["id"])
    ]
    assert len(events) == 1, f"{child} was started {len(events)} times"
    data = events[0]["data"]
    assert (child["type"], child["parent_close"]) == (data["type"], data["parent_close"])
    assert (child["parent_run"], child["parent_ordinal"]) == (parent["run"], events[0]["ordinal"])
    assert (child["status"], child["last_seq"], child["children"]) == ("running", 1, 0)
    assert [event["type"] for event in after.events_of(child["id"])] == ["workflow_started"]
    assert "start" in [message["kind"] for message in after.messages_of(child["id"])]


def _judge_sent(before: State, after: State, closed: set[uuid.UUID], message: Row) -> None:
    """A turn sends nothing for which there is no reason."""
    to, said = after.workflows[message["workflow_id"]], json.loads(message["payload"])
    held_back = to["status"] == "paused" or bool(to["blocked_reason"]) or to["id"] in closed
    assert not message["parked"] or (held_back and message["kind"] != "terminate")
    if message["kind"] == "child":
        child = after.workflows[uuid.UUID(said["child"])]
        assert child["id"] in closed
        assert (child["parent_id"], said["status"]) == (to["id"], child["status"])
        assert (message["run"], message["ordinal"]) == (child["parent_run"], child["parent_ordinal"])
        return
    parent = after.workflows[to["parent_id"]]
    assert to["parent_close"] in ASKED
    if "parent" in said:
        assert parent["id"] in closed
        assert message["kind"] == ASKED[to["parent_close"]]
    else:
        fresh = after.events_of(parent["id"])[before.workflows[parent["id"]]["last_seq"] :]
        given_up = [event["data"]["child"] for event in fresh if event["type"] == "child_cancelled"]
        assert message["kind"] == "cancel"
        assert str(to["id"]) in given_up


def _judge_told(before: State, after: State, closed: set[uuid.UUID], sent: list[Row]) -> None:
    """Whoever has to learn of an end is told once."""
    ends = Counter(json.loads(m["payload"])["child"] for m in sent if m["kind"] == "child")
    for workflow_id in closed:
        row = after.workflows[workflow_id]
        waits = after.is_live(row["parent_id"]) and row["parent_close"] != DETACHED
        assert ends[str(workflow_id)] == int(waits), f"the end of {row} was told {ends[str(workflow_id)]} times"
        for child in children(after, workflow_id):
            kind = ASKED.get(child["parent_close"])
            if kind is not None and after.is_live(child["id"]):
                there = [message["kind"] for message in after.messages_of(child["id"])]
                asked = kind == "cancel" and any(
                    event["type"] == "cancel_requested" for event in after.events_of(child["id"])
                )
                assert kind in there or asked, f"{child} was not told of its parent's end"


def check(state: State) -> None:
    """What holds at every moment: a call and its row, an end and its news; both, or neither."""
    for parent in state.workflows.values():
        history = state.events_of(parent["id"])
        started = [event["data"]["child"] for event in history if event["type"] == "child_started"]
        rows = children(state, parent["id"])
        assert sorted(started) == sorted(str(row["id"]) for row in rows)
        assert parent["children"] == len(rows)
        heard = Counter(event["data"]["child"] for event in history if event["type"] in ENDS)
        assert not heard or max(heard.values()) == 1, "an end was told twice"
        waiting = [
            json.loads(m["payload"]).get("child") for m in state.messages_of(parent["id"]) if m["kind"] == "child"
        ]
        for row in rows:
            if not state.is_live(row["id"]) and state.is_live(parent["id"]) and row["parent_close"] != DETACHED:
                assert heard[str(row["id"])] or str(row["id"]) in waiting, f"{row} has ended, and its parent waits"
