"""The events of messages about other workflows: the ends of children, and what became of sent signals."""

from __future__ import annotations

import uuid
from datetime import datetime

from durable.flow.turns.plan import Plan
from durable.kernel.history.events import Event, EventType
from durable.kernel.payloads import wire
from durable.kernel.replay.execution import Awaits, Execution
from durable.logs import get_logger
from durable.outcomes import WorkflowStatus
from durable.store.runs.inbox import DueMessage

logger = get_logger("durable.flow")


def event(plan: Plan, execution: Execution, message: DueMessage, *, at: datetime) -> Event | None:
    """The event to feed; None if the message is only consumed. A child is known by its id, whatever the run was in
    which it was started.
    """
    data = wire.load(message.payload)
    if "child" not in data:
        return _answer(plan, execution, message, at)
    ordinal = execution.call_of_child(uuid.UUID(data["child"]))
    if ordinal is None:
        logger.info(
            "child.end_dropped", workflow=str(plan.workflow.id), child=data["child"], status=str(data.get("status"))
        )
        return None
    type = EventType.CHILD_FAILED
    if data.get("status") == WorkflowStatus.COMPLETED:
        type = EventType.CHILD_COMPLETED
        del data["status"]
    return Event(seq=plan.last_seq + 1, type=type, data=data, recorded_at=at, ordinal=ordinal)


def _answer(plan: Plan, execution: Execution, message: DueMessage, at: datetime) -> Event | None:
    data, ordinal = wire.load(message.payload), message.ordinal
    if message.run != plan.workflow.run or ordinal is None or execution.awaits(ordinal) is not Awaits.OPEN:
        return None
    return Event(seq=plan.last_seq + 1, type=EventType.SIGNAL_ANSWERED, data=data, recorded_at=at, ordinal=ordinal)
