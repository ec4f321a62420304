"""Pauses a workflow: its code is not run, and none of its activities is claimed, until it is resumed."""

from __future__ import annotations

import uuid
from typing import Any

from durable.flow.audit import auditing, reasons
from durable.flow.operator import pausing
from durable.flow.transactions import transaction
from durable.logs import get_logger
from durable.outcomes import StaffVerb, WorkflowState

logger = get_logger("durable.flow")


def pause(workflow_id: uuid.UUID, *, actor: Any = None, reason: str = "") -> WorkflowState:
    """Pauses a running workflow. Running activities finish; their results wait.

    Commits together: the event, the status, the mark on every row whatever its status, its messages parked, and the
    audit row. Pausing a paused one changes nothing. Raises `WorkflowNotFound`, `WorkflowClosed`, `OptionInvalid` for a
    reason that cannot be stored, `TransactionOpen` inside a transaction of the caller's, and `StoreUnavailable`
    when another session has locked it.
    """
    reasons.check(reason)
    made = auditing.audit(StaffVerb.PAUSE, workflow_id, actor=actor, reason=reason)
    commit = auditing.commit(made, WorkflowState.PAUSED)
    state = transaction.verb(lambda connection: pausing.pause(connection, made), commit)
    logger.info("workflow.paused", workflow=str(workflow_id), reason=reason, actor=made.actor_text)
    return state
