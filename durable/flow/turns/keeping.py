"""Makes sure that a workflow with a full history can end: a request to cancel is always read. No `atomic` in here."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.flow.turns.plan import Plan
from durable.kernel.history.room import HISTORY_FULL
from durable.logs import get_logger
from durable.outcomes import WorkflowStatus
from durable.store.runs import blocked, messages
from durable.store.runs.workflows import LockedWorkflow

logger = get_logger("durable.flow")


def is_full(workflow: LockedWorkflow) -> bool:
    """Whether it is blocked, and only because its history is as long as it may become."""
    return bool(workflow.blocked_reason) and workflow.error_class == HISTORY_FULL


def offer(connection: BaseDatabaseWrapper, waiting: Sequence[LockedWorkflow], at: datetime) -> set[uuid.UUID]:
    """Lets the code of (locked) workflows with a full history run to its end, after a request to cancel or when its
    time is up. Returns which. Once for each request: if the workflow is blocked again, the request is parked.
    """
    full = [workflow for workflow in waiting if workflow.status is WorkflowStatus.RUNNING and is_full(workflow)]
    if not full:
        return set()
    over = {workflow.id for workflow in full if workflow.deadline_at is not None and workflow.deadline_at <= at}
    offered = over | messages.asked_to_cancel(connection, [workflow.id for workflow in full])
    blocked.offer_again(connection, list(offered))
    return offered


def leave_signals(connection: BaseDatabaseWrapper, full: Sequence[Plan]) -> None:
    """Parks the signals of workflows whose history has no more room for them. Logs a line the first time."""
    room = settings.room
    live = [plan for plan in full if plan.closing is None and not plan.blocked]
    messages.park_signals(connection, [plan.workflow.id for plan in live])
    for plan in live:
        if room.accepts_signals(plan.workflow.history_events, plan.workflow.history_bytes):
            logger.warning(
                "workflow.takes_no_signals",
                workflow=str(plan.workflow.id),
                type=plan.workflow.type,
                events=plan.history_events,
                bytes=plan.history_bytes,
            )
