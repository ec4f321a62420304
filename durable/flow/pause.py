"""Pause a workflow: its code does not turn, and none of its activities is claimed, until it is resumed."""

from __future__ import annotations

import uuid
from typing import Any

from durable.flow import transaction
from durable.flow.steps import actors, pausing, reasons
from durable.logs import get_logger
from durable.outcomes import WorkflowState

logger = get_logger("durable.flow")


def pause(workflow_id: uuid.UUID, *, actor: Any = None, reason: str = "") -> WorkflowState:
    """Pause a running workflow. What is already out with a worker goes on; its result waits.

    Commits together: the event, the status, the mark on every row whatever its status, and its messages parked. Pausing
    a paused one changes nothing. Raises `WorkflowNotFound`, `WorkflowClosed`, `OptionInvalid` for a reason that
    can not be stored, `TransactionOpen` inside a transaction of the caller's, and `StoreUnavailable` when somebody else
    has locked it.
    """
    reasons.check(reason)
    actors.identify(actor)
    state = transaction.verb(lambda connection: pausing.pause(connection, workflow_id, actor=actor, reason=reason))
    logger.info("workflow.paused", workflow=str(workflow_id), reason=reason, actor=str(actor or ""))
    return state
