"""Start, enqueue, signal, cancel: what callers do, in their own transactions."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any, Self
from unittest.mock import ANY

from durable.conf import settings
from durable.errors import KeyTaken, NobodyListens, WorkflowClosed, WorkflowNotFound
from durable.outcomes import CancelAnswer, CancelOutcome, WorkflowStatus
from tests.machine.promises.history import close, tell
from tests.machine.state import State

FILLED_LATER = {
    "history_seq": 1, "parent_run": None, "parent_ordinal": None, "parent_close": "", "children": 0, "patches": None,
    "progress": None, "status_data": None, "waits_for": None, "terminated": False,
}  # fmt: skip
"""Columns of workflows that no verb writes yet."""


def holder(state: State, type: str, key: str | None) -> uuid.UUID | None:
    """The live workflow of a type that holds a key."""
    if key is None:
        return None
    return next(
        (w["id"] for w in state.workflows.values() if (w["type"], w["key"]) == (type, key) and state.is_live(w["id"])),
        None,
    )


def begin(
    state: State,
    workflow_id: uuid.UUID,
    definition: Any,
    *,
    single: bool,
    key: str | None = None,
    timeout: timedelta | None = None,
    wait: timedelta | None = None,
) -> None:
    """A live workflow with its first fact, and what makes it go on: a start message, or a row."""
    begins_at = state.now + (wait or timedelta())
    state.workflows[workflow_id] = {
        "id": workflow_id, "type": definition.name, "key": key, "single": single, "status": "running", "run": 1,
        "run_seq": 1, "input": ANY, "result": None, "failure": None, "parent_id": None,
        "queue": definition.queue, "priority": 0, "custom_status": "", "last_seq": 1, "wake_at": None, "timers": [],
        "history_bytes": True, "error_class": True, "blocked_reason": "", "blocked_version": "", "poison_turns": 0,
        "blocked_at": None,
        "deadline_at": None if timeout is None else begins_at + timeout, "created_at": state.now, "closed_at": None,
        **FILLED_LATER,
    }  # fmt: skip
    state.events[workflow_id, 1] = {
        "workflow_id": workflow_id, "seq": 1, "type": "workflow_started", "ordinal": None, "data": ANY,
        "recorded_at": begins_at,
    }  # fmt: skip
    if single:
        state.expect_new(
            "rows", workflow_id=workflow_id, run=1, ordinal=1, activity=definition.name, input=ANY,
            options=_options(definition), namespace="", queue=definition.queue, node=None, status="pending",
            paused=False, suspect=False, priority=0, visible_after=begins_at, created_at=state.now, claimed_at=None,
            deliveries=0, delivery_failures=0, delivery_budget=settings.delivery_attempts, attempts=0,
            attempt_budget=definition.retry.max_attempts, last_heartbeat=None, failure_delivered=False, cause="",
            dead_lettered_at=None, redrive_count=0, discarded_at=None, error_class=True,
            lane=None, waiting=False, worker="",
        )  # fmt: skip
    else:
        tell(state, workflow_id, "start", "", visible_at=begins_at)


def _options(definition: Any) -> dict[str, str]:
    options = {}
    if definition.on_dead_letter == "deliver":
        options["on_dead_letter"] = "deliver"
    if definition.on_exhausted == "hold":
        options["on_exhausted"] = "hold"
    return options


def taken(state: State, answer: object, type: str, key: str | None) -> bool:
    """Whether the answer is that the key is taken, which it has to be exactly while a live workflow holds it."""
    held_by = holder(state, type, key)
    if isinstance(answer, KeyTaken):
        assert (answer.key, answer.holder) == (key, held_by)
        return True
    assert held_by is None, f"{key} of {type} belongs to workflow {held_by}, and {answer} got it"
    return False


def signal(state: State, workflow_id: uuid.UUID, name: str, payload: Any, *, dedup: str | None) -> Any:
    """Accepted once for each `dedup` that still waits; refused by name where nobody could ever read it."""
    if workflow_id not in state.workflows:
        return WorkflowNotFound
    if not state.is_live(workflow_id):
        return WorkflowClosed
    if state.workflows[workflow_id]["single"]:
        return NobodyListens
    waits = {m["dedup"] for m in state.messages_of(workflow_id)}
    if dedup is None or dedup not in waits:
        accept(state, workflow_id, name, payload, dedup=dedup)
    return None


def accept(state: State, workflow_id: uuid.UUID, name: str, payload: Any, *, dedup: str | None = None) -> None:
    """One message more, whatever has become of the workflow since it was asked."""
    tell(state, workflow_id, "signal", Json({"name": name, "payload": json.dumps(payload)}), dedup=dedup)


def ask(state: State, workflow_id: uuid.UUID, *, reason: str) -> None:
    """A request to cancel waits for the next turn."""
    tell(state, workflow_id, "cancel", Json({"reason": reason, "actor": ""}), dedup="")


class Json(str):  # noqa: SLOT000 - it carries what it stands for
    """Equal to every text of the same JSON."""

    value: Any

    def __new__(cls, value: Any) -> Self:
        made = super().__new__(cls, json.dumps(value))
        made.value = value
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and bool(json.loads(other) == self.value)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return 0


def cancel(state: State, workflow_id: uuid.UUID, *, reason: str) -> CancelOutcome:
    """Asked, once; a single activity that nobody runs is done at once. Never raises."""
    if workflow_id not in state.workflows:
        return CancelOutcome(CancelAnswer.NOT_FOUND)
    workflow = state.workflows[workflow_id]
    status = WorkflowStatus(workflow["status"])
    if status.is_terminal:
        return CancelOutcome(CancelAnswer.ALREADY_OVER, status)
    if not workflow["single"]:
        if not any(m["dedup"] == "" for m in state.messages_of(workflow_id)):
            ask(state, workflow_id, reason=reason)
        return CancelOutcome(CancelAnswer.ASKED, status)
    (row,) = state.rows_of(workflow_id)
    if row["status"] == "claimed":
        out = state.items[row["id"]]
        out["cancel_requested_at"] = out["cancel_requested_at"] or state.now
        return CancelOutcome(CancelAnswer.ASKED, status)
    close(state, workflow_id, "cancelled", {"reason": reason, "actor": ""})
    return CancelOutcome(CancelAnswer.DONE, WorkflowStatus.CANCELLED)
