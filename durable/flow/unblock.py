"""Unblock a workflow: let its code try again behind its history."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.errors import WorkflowClosed, WorkflowNotBlocked, WorkflowNotFound
from durable.flow import transaction
from durable.flow.steps import actors, reasons
from durable.kernel.events import Event, EventType
from durable.logs import get_logger
from durable.outcomes import WorkflowState
from durable.store import history, messages, workflows
from durable.store.workflows import Progress

logger = get_logger("durable.flow")

_BATCH = 100


def unblock(workflow_id: uuid.UUID, *, actor: Any = None, reason: str = "") -> WorkflowState:
    """Take the mark from a blocked workflow and make it due. If its code still can not go on, it is blocked anew.

    Commits together: the event with actor and reason, the cleared mark, its messages given back. Raises
    `WorkflowNotFound`, `WorkflowClosed`, `WorkflowNotBlocked`, and
    `TransactionOpen` inside a transaction of the caller's.
    """
    reasons.check(reason)
    _, actor_text = actors.identify(actor)
    tries: list[None] = []

    def body(connection: BaseDatabaseWrapper) -> WorkflowState:
        workflow = workflows.lock(connection, [workflow_id]).get(workflow_id)
        if workflow is None:
            raise WorkflowNotFound(workflow_id)
        if not workflow.is_live:
            raise WorkflowClosed(workflow_id, workflow.status.value, "unblock")
        if not workflow.blocked_reason:
            if tries:
                return WorkflowState.UNBLOCKED
            raise WorkflowNotBlocked(workflow_id, workflow.status.value)
        tries.append(None)
        at = clock.database_now(connection)
        event = Event(
            seq=workflow.last_seq + 1,
            type=EventType.WORKFLOW_UNBLOCKED,
            data={"actor": actor_text, "reason": reason},
            recorded_at=at,
        )
        history.append(connection, [(workflow_id, event)])
        workflows.advance(connection, [Progress(workflow_id, workflow.status, event.seq, wake_at=at)])
        messages.unpark(connection, [workflow_id])
        return WorkflowState.UNBLOCKED

    state = transaction.own(body)
    logger.info("workflow.unblocked", workflow=str(workflow_id), reason=reason, actor=actor_text)
    return state


def after_deploy(version: str) -> int:
    """Offer every workflow that other code had to block to this version of the code, once; answers how many.

    The mark stays until a turn succeeds. To be called at a worker's start.
    """
    offered = 0
    while True:
        ids = transaction.reading(lambda c: workflows.blocked_by_other_code(c, version, limit=_BATCH))
        if not ids:
            return offered
        transaction.own(partial(_offer, ids))
        offered += len(ids)


def _offer(ids: list[uuid.UUID], connection: BaseDatabaseWrapper) -> None:
    locked = workflows.lock(connection, ids)
    live = [workflow.id for workflow in locked.values() if workflow.is_live]
    workflows.offer_again(connection, live)
    messages.unpark(connection, live)
