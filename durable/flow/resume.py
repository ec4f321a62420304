"""Resume a paused workflow: it turns again, and its activities can be claimed."""

from __future__ import annotations

import uuid
from typing import Any

from durable.flow import transaction
from durable.flow.steps import actors, pausing, reasons
from durable.logs import get_logger
from durable.outcomes import WorkflowState

logger = get_logger("durable.flow")


def resume(workflow_id: uuid.UUID, *, actor: Any = None, reason: str = "") -> WorkflowState:
    """Resume a paused workflow. Timers that came due meanwhile fire at its next turn.

    Commits together: the event, the status, the mark off every row, its messages given back. Resuming a running one
    changes nothing. Raises `WorkflowNotFound`, `WorkflowClosed`, `OptionInvalid` for a reason that can not
    be stored, `TransactionOpen` inside a transaction of the caller's, and `StoreUnavailable` when somebody else has
    locked it.
    """
    reasons.check(reason)
    actors.identify(actor)
    state = transaction.verb(lambda connection: pausing.resume(connection, workflow_id, actor=actor, reason=reason))
    logger.info("workflow.resumed", workflow=str(workflow_id), reason=reason, actor=str(actor or ""))
    return state
