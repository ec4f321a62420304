"""What holds of the tables at every moment, whatever has happened: docs/lifecycle.md, specification A and B."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from durable.store.operators.proof import DECIDES
from tests.machine.promises import families
from tests.machine.promises.turns import CLOSING, OUTCOMES
from tests.machine.state import Row, State, by_owner


def check(state: State) -> None:
    """Raise the first one that does not hold."""
    events, rows, messages = (by_owner(table) for table in (state.events, state.rows, state.messages))
    failures = by_owner(state.failures, "outbox_row_id")
    for key, workflow in state.workflows.items():
        told = messages.get(key, [])
        _history(workflow, events[key])
        _outcomes(state, workflow, events[key], rows.get(key, []), told)
        _ended(state, workflow, events[key], rows.get(key, []))
        _wakes(workflow, told)
    for row in state.rows.values():
        _row(state, row, failures.get(row["id"], []))
    for item in state.items.values():
        _item(state, item)
    _messages(state)
    families.check(state)
    _keys(state)
    _audits(state)


def _history(workflow: Row, history: list[Row]) -> None:
    assert [e["seq"] for e in history] == list(range(1, workflow["last_seq"] + 1)), "numbers without gaps, from 1"
    assert history[0]["type"] == "workflow_started"
    assert workflow["history_bytes"] is True, "its bytes are counted as it grows"
    assert [e["type"] for e in history].count("workflow_started") == 1
    deciding = [e["type"] for e in history if e["type"] in DECIDES]
    assert DECIDES[deciding[-1]].value == workflow["status"], "the status is what the last deciding event says"
    blocked = [e["type"] for e in history if e["type"] in ("workflow_blocked", "workflow_unblocked")]
    if not workflow["blocked_reason"]:
        markers = {e["data"]["id"] for e in history if e["type"] == "marker_recorded" and e["data"]["kind"] == "patch"}
        assert dict.fromkeys(markers, True) == (workflow["patches"] or {}), "the row says what the markers say"
    if workflow["closed_at"] is None:
        assert (blocked[-1:] == ["workflow_blocked"]) is bool(workflow["blocked_reason"])


def _outcomes(state: State, workflow: Row, history: list[Row], mine: list[Row], waiting: list[Row]) -> None:
    """At most one for each activity, behind its scheduling; and the outbox row agrees."""
    if workflow["single"]:
        assert not [e for e in history if e["type"] in OUTCOMES | {"activity_scheduled"}]
        return
    scheduled = [e["ordinal"] for e in history if e["type"] == "activity_scheduled"]
    rows = {row["ordinal"]: row for row in mine}
    others = [e["ordinal"] for e in history if e["type"] == "child_started"]
    assert scheduled == sorted(rows)
    assert sorted([*scheduled, *others]) == list(range(1, len(rows) + len(others) + 1)), "one counter for all calls"
    count = Counter(e["ordinal"] for e in history if e["type"] in OUTCOMES)
    assert set(count.values()) <= {1}, "no activity has two outcomes"
    began = {e["ordinal"]: e["seq"] for e in history if e["type"] == "activity_scheduled"}
    kinds = {}
    for event in history:
        if event["type"] in OUTCOMES:
            assert event["seq"] > began[event["ordinal"]]
            kinds[event["ordinal"]] = event["type"]
    told = {(m["kind"], m["ordinal"]) for m in waiting}
    for ordinal, row in rows.items():
        _agrees(state, workflow, row, kinds.get(ordinal), {kind for kind, o in told if o == ordinal})


def _agrees(state: State, workflow: Row, row: Row, outcome: str | None, told: set[str]) -> None:
    status, live = row["status"], workflow["closed_at"] is None
    where = f"activity {row['ordinal']} is {status}, the history says {outcome}, and {told or 'nothing'} waits"
    if outcome == "activity_completed":
        assert status == "done", where
    elif outcome == "activity_cancelled" and not row["redrive_count"]:
        item = state.items.get(row["id"])
        asked = item is not None and item["cancel_requested_at"] is not None
        judged = status == "dead" and row["failure_delivered"]
        assert status in ("cancelled", "done") or (status == "claimed" and asked) or judged, where
    elif outcome == "activity_failed" and not row["redrive_count"]:
        judged = status == "dead" and row["failure_delivered"]
        closed = status == "cancelled" and (not live or row["discarded_at"] is not None)
        assert status == "done" or judged or closed, where
    elif outcome is None and live:
        waits = status in ("pending", "claimed") or (status == "dead" and not row["failure_delivered"])
        assert waits or told & {"completed", "failed"}, f"{where}: it would wait for ever"
    if status == "done" and live and outcome is None:
        assert told & {"completed", "failed"}, f"{where}: its completion is lost"


def _ended(state: State, workflow: Row, history: list[Row], mine: list[Row]) -> None:
    ends = [e for e in history if e["type"] in CLOSING]
    if workflow["closed_at"] is None:
        assert not ends
        return
    assert ends == history[-1:], "one closing event, and it comes last"
    left = [row for row in mine if row["status"] in ("pending", "claimed", "dead")]
    assert not left, f"an ended workflow has left {left}"
    assert not [item for item in state.items.values() if item["workflow_id"] == workflow["id"]]
    assert workflow["wake_at"] is None
    assert not workflow["blocked_reason"]


def _wakes(workflow: Row, waiting: list[Row]) -> None:
    """A running workflow that waits for a moment is woken at it, not later."""
    begun = not any(m["kind"] == "start" for m in waiting)
    if workflow["status"] != "running" or workflow["blocked_reason"] or workflow["single"] or not begun:
        return
    moments = [datetime.fromisoformat(timer["due"]) for timer in workflow["timers"]]
    moments += [workflow["deadline_at"]] if workflow["deadline_at"] else []
    if moments:
        assert workflow["wake_at"] is not None, "it sleeps for ever"
        assert workflow["wake_at"] <= min(moments), "it is woken too late"


def _row(state: State, row: Row, failures: list[Row]) -> None:
    workflow = state.workflows[row["workflow_id"]]
    status, item = row["status"], state.items.get(row["id"])
    assert (status == "claimed") is (item is not None), f"row {row['id']} is {status}, its delivery is {item}"
    if status == "pending":
        assert row["claimed_at"] is None
    if status in ("pending", "claimed"):
        assert row["delivery_failures"] < row["delivery_budget"], "its budget is spent, and it goes on"
        assert row["attempts"] < row["attempt_budget"], "its attempts are spent, and it goes on"
    if status == "dead":
        assert row["dead_lettered_at"] is not None
        assert not row["suspect"]
        spent = row["attempts"] if row["cause"] == "retries_exhausted" else row["delivery_failures"]
        full = row["attempt_budget"] if row["cause"] == "retries_exhausted" else row["delivery_budget"]
        assert spent >= full, "a dead letter has spent its budget"
    if status in ("pending", "claimed", "dead"):
        assert row["paused"] is (workflow["status"] == "paused"), "the mark is the workflow's"
        assert row["discarded_at"] is None
    assert row["attempts"] + row["delivery_failures"] <= row["deliveries"], "each delivery ends once"
    numbers = [failure["number"] for failure in failures]
    assert len(numbers) == len(set(numbers)), "one delivery has failed twice"


def _item(state: State, item: Row) -> None:
    row = state.rows[item["outbox_row_id"]]
    copied = ("workflow_id", "attempts", "attempt_budget", "delivery_failures", "delivery_budget")
    assert {name: item[name] for name in copied} == {name: row[name] for name in copied}
    assert item["single"] is state.workflows[item["workflow_id"]]["single"]
    assert item["lock_token"] is not None
    assert item["worker"]
    assert item["locked_until"] is not None


def _messages(state: State) -> None:
    for message in state.messages.values():
        workflow = state.workflows[message["workflow_id"]]
        if message["parked"]:
            held_back = workflow["status"] == "paused" or workflow["blocked_reason"]
            kept = workflow["closed_at"] is not None and message["kind"] in ("signal", "cancel")
            assert held_back or kept, f"nobody will ever read {message}"


def _keys(state: State) -> None:
    held = [(w["type"], w["key"]) for w in state.workflows.values() if w["key"] and w["closed_at"] is None]
    assert len(held) == len(set(held)), "two live workflows hold one key"
    tokens = {item["lock_token"] for item in state.items.values()}
    assert not [row for row in state.rows.values() if row["status"] == "dead" and row["id"] in state.items]
    assert None not in tokens


def _audits(state: State) -> None:
    """Each redrive and each discard has its audit, its marker in the history, and its count on the row."""
    redrives = Counter(a["outbox_row_id"] for a in state.audits.values() if a["verb"] == "redrive")
    discards = Counter(a["outbox_row_id"] for a in state.audits.values() if a["verb"] == "discard")
    for row in state.rows.values():
        assert redrives[row["id"]] == row["redrive_count"]
        assert discards[row["id"]] == (row["discarded_at"] is not None)
    markers = Counter(e["type"] for e in state.events.values() if e["type"].startswith("activity_"))
    assert markers["activity_redriven"] == sum(redrives.values())
    assert markers["activity_discarded"] == sum(discards.values())
