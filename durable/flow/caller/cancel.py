"""Ask a workflow to cancel itself, in the caller's transaction."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.flow.audit import auditing, reasons
from durable.flow.endings import closing
from durable.flow.transactions import transaction
from durable.kernel.history.events import EventType, MessageKind
from durable.kernel.payloads import wire
from durable.outcomes import CancelAnswer, CancelOutcome, OutboxStatus, StaffVerb, WorkflowStatus
from durable.store.deliveries import outbox, work_items
from durable.store.runs import messages, workflows
from durable.store.runs.workflows import LockedWorkflow

# Prevents a second request while one is waiting. Empty, which no signal's `dedup` may be: the two share a column.
_ONCE = ""


def cancel(workflow_id: uuid.UUID, *, reason: str = "", actor: Any = None, audited: bool = False) -> CancelOutcome:
    """Asks a live workflow to stop. Returns done, asked, already over (with the status), or not found; never raises for
    these, and is idempotent.

    Joins the caller's transaction. A workflow is *asked*: its code sees the request at its next turn, and may clean up;
    if it has not read the request when it ends, the request is kept as unread. Raises `StoreUnavailable` if another
    session has locked a single activity, outside of the caller's transactions. A single activity has no such code: one
    that nobody has claimed is *done* at once, one that runs is asked through its worker. `audited`: an operator asks
    for it, not the application, so an audit row is committed with it, even if it was requested before.
    """
    reasons.check(reason)
    made = auditing.audit(StaffVerb.CANCEL, workflow_id, actor=actor, reason=reason)

    def body(connection: BaseDatabaseWrapper) -> CancelOutcome:
        workflow = workflows.look(connection, [workflow_id]).get(workflow_id)
        if workflow is None:
            return CancelOutcome(CancelAnswer.NOT_FOUND)
        if workflow.single:
            return _cancel_single(connection, workflow_id, reason, made.actor_text)
        payload = wire.dump({"reason": reason, "actor": made.actor_text})
        if messages.insert_for_live(connection, workflow_id, MessageKind.CANCEL, payload, dedup=_ONCE):
            return CancelOutcome(CancelAnswer.ASKED, workflow.status)
        now = workflows.look(connection, [workflow_id])[workflow_id]
        answer = CancelAnswer.ASKED if now.is_live else CancelAnswer.ALREADY_OVER
        return CancelOutcome(answer, now.status)

    def asked(connection: BaseDatabaseWrapper) -> CancelOutcome:
        outcome = body(connection)
        if audited and outcome.answer in (CancelAnswer.DONE, CancelAnswer.ASKED):
            auditing.record(connection, made)
        return outcome

    return transaction.joined_bounded(asked)


def _cancel_single(
    connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, reason: str, actor_text: str
) -> CancelOutcome:
    workflow: LockedWorkflow = workflows.lock(connection, [workflow_id])[workflow_id]
    if not workflow.is_live:
        return CancelOutcome(CancelAnswer.ALREADY_OVER, workflow.status, single=True)
    rows = outbox.lock_open_of(connection, [workflow_id])
    out = [row.id for row in rows.values() if row.status is OutboxStatus.CLAIMED]
    if out:
        work_items.lock_of_rows(connection, out)
        work_items.ask_to_cancel(connection, out)
        return CancelOutcome(CancelAnswer.ASKED, workflow.status, single=True)
    closing.end(
        connection,
        workflow,
        event=EventType.WORKFLOW_CANCELLED,
        status=WorkflowStatus.CANCELLED,
        at=clock.database_now(connection),
        data={"reason": reason, "actor": actor_text},
    )
    return CancelOutcome(CancelAnswer.DONE, WorkflowStatus.CANCELLED, single=True)
