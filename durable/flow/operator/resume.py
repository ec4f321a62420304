"""Resumes a paused workflow: it is turned again, and its activities can be claimed."""

from __future__ import annotations

import uuid
from typing import Any

from durable.flow.audit import auditing, reasons
from durable.flow.operator import pausing
from durable.flow.transactions import transaction
from durable.logs import get_logger
from durable.outcomes import StaffVerb, WorkflowState

logger = get_logger("durable.flow")


def resume(workflow_id: uuid.UUID, *, actor: Any = None, reason: str = "") -> WorkflowState:
    """Resumes a paused workflow. Timers that came due meanwhile fire at its next turn.

    Commits together: the event, the status, the mark off every row, its messages given back, and the audit row.
    Resuming a running one changes nothing. Raises `WorkflowNotFound`, `WorkflowClosed`, `OptionInvalid` for a reason
    that cannot be stored, `TransactionOpen` inside a transaction of the caller's, and `StoreUnavailable`
    when another session has locked it.
    """
    reasons.check(reason)
    made = auditing.audit(StaffVerb.RESUME, workflow_id, actor=actor, reason=reason)
    commit = auditing.commit(made, WorkflowState.RESUMED)
    state = transaction.verb(lambda connection: pausing.resume(connection, made), commit)
    logger.info("workflow.resumed", workflow=str(workflow_id), reason=reason, actor=made.actor_text)
    return state
