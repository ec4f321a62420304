"""Promises that several verbs share: facts are appended, closing a run settles everything in it."""

from __future__ import annotations

import json
import uuid
from typing import Any
from unittest.mock import ANY

from tests.machine.promises import families
from tests.machine.state import Row, State


class InAnyOrder:
    """Equal to every list of the same elements."""

    def __init__(self, elements: list[Any]) -> None:
        self.elements = elements

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and sorted(map(repr, other)) == sorted(map(repr, self.elements))

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"in any order {self.elements!r}"


def append(state: State, workflow_id: uuid.UUID, type: str, data: Any = ANY, *, ordinal: int | None = None) -> None:
    """One more fact, behind the last one."""
    workflow = state.workflows[workflow_id]
    workflow["last_seq"] += 1
    state.events[workflow_id, workflow["last_seq"]] = {
        "workflow_id": workflow_id,
        "seq": workflow["last_seq"],
        "type": type,
        "ordinal": ordinal,
        "data": data,
        "recorded_at": state.now,
    }


def tell(state: State, workflow_id: uuid.UUID, kind: str, payload: Any, **more: Any) -> None:
    """One more message, due now."""
    message = {
        "workflow_id": workflow_id,
        "run": state.workflows[workflow_id]["run"],
        "kind": kind,
        "ordinal": None,
        "payload": payload,
        "visible_at": state.now,
        "created_at": state.now,
        "parked": False,
        "dedup": None,
    }
    state.expect_new("messages", **{**message, **more})


def close(
    state: State,
    workflow_id: uuid.UUID,
    status: str,
    data: Any,
    *,
    result: str | None = None,
    failure: Any = None,
) -> None:
    """The run closes: one last fact, the status, open rows and dead letters cancelled, deliveries
    gone. What callers had said and nobody has read is listed in the closing event, and stays parked; other messages go.
    """
    for row in state.rows_of(workflow_id):
        if row["status"] in ("pending", "claimed", "dead"):
            row.update(status="cancelled", suspect=False)
            state.items.pop(row["id"], None)
    unread = []
    for key, message in list(state.messages.items()):
        if message["workflow_id"] == workflow_id:
            if message["kind"] not in ("signal", "cancel"):
                del state.messages[key]
            else:
                message["parked"] = True
                said = json.loads(message["payload"])
                said = {"name": said["name"]} if message["kind"] == "signal" else said
                unread.append({"kind": message["kind"], **said})
    if unread:
        data = {**data, "unread": InAnyOrder(unread)}
    append(state, workflow_id, f"workflow_{status}", data)
    state.workflows[workflow_id].update(
        status=status,
        wake_at=None,
        timers=[],
        result=result,
        failure=failure,
        blocked_reason="",
        blocked_version="",
        blocked_at=None,
        poison_turns=0,
        closed_at=state.now,
    )
    families.tell(state, state.workflows[workflow_id])


def outcomes(state: State, workflow_id: uuid.UUID, ordinal: int) -> list[Row]:
    """The terminal outcomes of an activity that the current run holds."""
    since = state.workflows[workflow_id]["run_seq"]
    return [
        event
        for event in state.events_of(workflow_id)
        if event["seq"] >= since
        and event["ordinal"] == ordinal
        and event["type"] in ("activity_completed", "activity_failed", "activity_cancelled")
    ]
