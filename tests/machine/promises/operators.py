"""Pause, resume, terminate, unblock, poison counts; redrive and discard with their gates in order."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any
from unittest.mock import ANY

from durable.conf import settings
from durable.errors import WorkflowClosed, WorkflowNotBlocked, WorkflowNotFound
from durable.kernel.definitions.registry import registry
from durable.outcomes import WorkflowState
from tests.machine.promises.history import append, close, outcomes, tell
from tests.machine.state import Row, State


def _refusal(state: State, workflow_id: uuid.UUID) -> Any:
    if workflow_id not in state.workflows:
        return WorkflowNotFound
    return None if state.is_live(workflow_id) else WorkflowClosed


def _park(state: State, workflow_id: uuid.UUID, *, parked: bool) -> None:
    for message in state.messages_of(workflow_id):
        message["parked"] = parked and message["kind"] != "terminate"


def pause(state: State, workflow_id: uuid.UUID, reason: str) -> Any:
    """The mark on every open row, messages parked, no wake-up. Again: nothing."""
    if refusal := _refusal(state, workflow_id):
        return refusal
    workflow = state.workflows[workflow_id]
    if workflow["status"] == "running":
        append(state, workflow_id, "workflow_paused", {"actor": "", "reason": reason})
        workflow.update(status="paused", wake_at=None)
        _mark(state, workflow_id, paused=True)
        _audit(state, workflow_id, "pause", reason)
        _park(state, workflow_id, parked=True)
    return WorkflowState.PAUSED


def _mark(state: State, workflow_id: uuid.UUID, *, paused: bool) -> None:
    for row in state.rows_of(workflow_id):
        if row["status"] in ("pending", "claimed", "dead"):
            row["paused"] = paused


def resume(state: State, workflow_id: uuid.UUID, reason: str) -> Any:
    """The mark is gone from every open row; a workflow that is not blocked has its messages back and is due."""
    if refusal := _refusal(state, workflow_id):
        return refusal
    workflow = state.workflows[workflow_id]
    if workflow["status"] == "paused":
        append(state, workflow_id, "workflow_resumed", {"actor": "", "reason": reason})
        workflow["status"] = "running"
        _mark(state, workflow_id, paused=False)
        _audit(state, workflow_id, "resume", reason)
        if not workflow["blocked_reason"]:
            _park(state, workflow_id, parked=False)
            if not workflow["single"]:
                workflow["wake_at"] = state.now
    return WorkflowState.RESUMED


def terminate(state: State, workflow_id: uuid.UUID, reason: str) -> Any:
    """It ends as cancelled, now."""
    if refusal := _refusal(state, workflow_id):
        return refusal
    close(state, workflow_id, "cancelled", {"reason": reason, "actor": "", "terminated": True})
    _audit(state, workflow_id, "terminate", reason)
    return WorkflowState.TERMINATED


def unblock(state: State, workflow_id: uuid.UUID, reason: str) -> Any:
    """The mark is gone, the messages are back, it is due."""
    if refusal := _refusal(state, workflow_id):
        return refusal
    workflow = state.workflows[workflow_id]
    if not workflow["blocked_reason"]:
        return WorkflowNotBlocked
    append(state, workflow_id, "workflow_unblocked", {"actor": "", "reason": reason})
    if workflow["deadline_at"] is not None:
        workflow["deadline_at"] += state.now - workflow["blocked_at"]
    _unmark(workflow)
    _audit(state, workflow_id, "unblock", reason)
    workflow["wake_at"] = state.now
    _park(state, workflow_id, parked=False)
    return WorkflowState.UNBLOCKED


def _unmark(workflow: Row) -> None:
    workflow.update(timers=[], blocked_reason="", blocked_version="", blocked_at=None, poison_turns=0)


def deploy(state: State, version: str) -> int:
    """Other code than the one that blocked them may try once; the mark stays."""
    offered = 0
    for workflow in state.workflows.values():
        if workflow["blocked_reason"] and workflow["blocked_version"] not in ("", version):
            workflow.update(blocked_version="", wake_at=state.now)
            _park(state, workflow["id"], parked=False)
            offered += 1
    return offered


def poison(state: State, workflow_id: uuid.UUID) -> None:
    """Counted; blocked at the limit, once, and again if it was offered to other code meanwhile."""
    if not state.is_live(workflow_id):
        return
    workflow = state.workflows[workflow_id]
    turns = workflow["poison_turns"] + 1
    since = workflow["blocked_at"]
    if turns < settings.turn_poison_limit or (since is not None and workflow["blocked_version"]):
        workflow["poison_turns"] = turns
        return
    if since is None:
        append(state, workflow_id, "workflow_blocked")
    _unmark(workflow)
    workflow.update(blocked_reason=ANY, blocked_version=registry.version(), blocked_at=since or state.now, wake_at=None)
    _park(state, workflow_id, parked=True)


# --- dead letters --------------------------------------------------------------------------------------------------


def redrive_verdict(state: State, workflow_id: uuid.UUID, ordinal: int, *, forced: bool) -> str:
    """What the gates of specification B2 say, the first one that refuses."""
    if workflow_id not in state.workflows:
        return "row_not_found"
    if not state.is_live(workflow_id):
        return "workflow_terminal"
    if outcomes(state, workflow_id, ordinal) and not forced:
        return "history_records_outcome"
    row = state.row_of(workflow_id, ordinal)
    if row is None:
        return "row_not_found"
    if row["status"] != "dead":
        return "not_dead_lettered"
    if row["failure_delivered"] and not forced:
        return "already_judged"
    return "redrivable"


def redrive(
    state: State, workflow_id: uuid.UUID, ordinal: int, *, mode: str, reason: str, request: Any, wait: timedelta
) -> tuple[int, bool]:
    """Exactly this row is pending and due, with both budgets extended by a full one; audit and marker say so."""
    row = state.row_of(workflow_id, ordinal)
    assert row is not None
    judged = row["failure_delivered"] or bool(outcomes(state, workflow_id, ordinal))
    full = registry.activity(row["activity"]).retry
    assert full is not None
    row.update(
        status="pending", visible_after=state.now + wait, claimed_at=None, suspect=False,
        paused=state.workflows[workflow_id]["status"] == "paused",
        delivery_budget=row["delivery_budget"] + settings.delivery_attempts,
        attempt_budget=row["attempt_budget"] + full.max_attempts, redrive_count=row["redrive_count"] + 1,
    )  # fmt: skip
    _audit_of_row(state, row, "redrive", mode, reason, judged, request)
    data = {"actor": "", "reason": reason, "mode": mode, "was_judged": judged}
    append(state, workflow_id, "activity_redriven", data, ordinal=ordinal)
    return row["id"], judged


def _audit(state: State, workflow_id: uuid.UUID, verb: str, reason: str, **more: Any) -> None:
    nothing = dict.fromkeys(("ordinal", "outbox_row_id", "was_judged", "request", "job"))
    state.expect_new(
        "audits",
        **nothing
        | {"verb": verb, "workflow_id": workflow_id, "actor_id": None, "actor_text": "", "through": "operations"}
        | {"mode": "", "reason": reason, "data": {}, "at": state.now}
        | more,
    )


def _audit_of_row(state: State, row: Row, verb: str, mode: str, reason: str, judged: bool, request: Any) -> None:
    about = {"ordinal": row["ordinal"], "outbox_row_id": row["id"], "mode": mode, "was_judged": judged}
    _audit(state, row["workflow_id"], verb, reason, request=request, **about)


def discard_verdict(state: State, workflow_id: uuid.UUID, ordinal: int) -> str:
    """Judged or not, a dead letter of a live workflow can be closed."""
    verdict = redrive_verdict(state, workflow_id, ordinal, forced=True)
    return "discardable" if verdict == "redrivable" else verdict


def discard(
    state: State, workflow_id: uuid.UUID, ordinal: int, *, then: str, reason: str, request: Any
) -> tuple[int, bool]:
    """Closed for good. A held one's workflow is told; a single activity ends."""
    row = state.row_of(workflow_id, ordinal)
    assert row is not None
    workflow = state.workflows[workflow_id]
    judged = row["failure_delivered"] or bool(outcomes(state, workflow_id, ordinal))
    row.update(status="cancelled", discarded_at=state.now)
    _audit_of_row(state, row, "discard", then, reason, judged, request)
    data = {"actor": "", "reason": reason, "then": then, "was_judged": judged}
    append(state, workflow_id, "activity_discarded", data, ordinal=ordinal)
    if judged:
        pass
    elif not workflow["single"]:
        if then == "cancel":
            tell(state, workflow_id, "cancel", ANY)
        tell(state, workflow_id, "failed", ANY, ordinal=ordinal)
    elif then == "fail":
        close(state, workflow_id, "failed", {"failure": ANY}, failure=ANY)
    else:
        close(state, workflow_id, "cancelled", {"reason": reason, "actor": ""})
    return row["id"], judged
