"""Terminates a workflow from outside: it ends as cancelled, without its code being asked."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.errors import WorkflowClosed, WorkflowNotFound
from durable.flow.audit import auditing, reasons
from durable.flow.endings import closing
from durable.flow.transactions import transaction
from durable.kernel.history.events import EventType
from durable.logs import get_logger
from durable.outcomes import StaffVerb, WorkflowState, WorkflowStatus
from durable.store.runs import workflows

logger = get_logger("durable.flow")


def terminate(workflow_id: uuid.UUID, *, reason: str, actor: Any = None) -> WorkflowState:
    """Ends a live workflow now. Its code does not run again; its activities are settled, and a worker that is still
    running one learns this at its next renewal.

    Commits together: the closing event (with reason, actor and what was left unread), the status, the settled rows, the
    audit row. Raises `WorkflowNotFound`, `WorkflowClosed`, `OptionInvalid` for an empty or unwritable reason,
    `TransactionOpen` inside a transaction of the caller's, and `StoreUnavailable` when another session has locked it.
    """
    reasons.demand(reason, of="terminating a workflow")
    made = auditing.audit(StaffVerb.TERMINATE, workflow_id, actor=actor, reason=reason)

    def body(connection: BaseDatabaseWrapper) -> WorkflowState:
        workflow = workflows.lock(connection, [workflow_id]).get(workflow_id)
        if workflow is None:
            raise WorkflowNotFound(workflow_id)
        if not workflow.is_live:
            raise WorkflowClosed(workflow_id, workflow.status.value, "terminate")
        closing.end(
            connection,
            workflow,
            event=EventType.WORKFLOW_CANCELLED,
            status=WorkflowStatus.CANCELLED,
            at=clock.database_now(connection),
            data={"reason": reason, "actor": made.actor_text, "terminated": True},
        )
        auditing.record(connection, made)
        return WorkflowState.TERMINATED

    state = transaction.verb(body, auditing.commit(made, WorkflowState.TERMINATED))
    logger.info("workflow.terminated", workflow=str(workflow_id), reason=reason, actor=made.actor_text)
    return state
