"""The plans of a batch of workflows: their code runs on what was read, and nothing is written. No `atomic` in here.

Where this happens before the transaction that writes, a plan counts only if, under the lock, the workflow's row and the
messages that the plan consumes are as they were read.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import tracing
from durable.conf import settings
from durable.errors import WorkflowBlocked
from durable.flow.turns import feeding
from durable.flow.turns.plan import Closing, Plan
from durable.flow.turns.preparing import Announcements, Batch, is_turnable, unexpected
from durable.flow.turns.reading import Read
from durable.kernel.history.events import TRACE, EventType, MessageKind
from durable.kernel.payloads import wire
from durable.kernel.texts.failure import interrupts
from durable.outbound import holding
from durable.outcomes import WorkflowStatus
from durable.store.runs import inbox
from durable.store.runs.inbox import DueMessage, Inbox, NewerMessage
from durable.store.runs.workflows import LockedWorkflow

UNKNOWN_TYPE_WAITS: Final = timedelta(seconds=5)
_NOTHING: Final = Inbox()


def decide(
    read: Read, candidates: Sequence[uuid.UUID], batch: Batch, announce: Announcements, *, until: float
) -> dict[uuid.UUID, Plan]:
    """The plans of those that may turn, in the order of the candidates; at least one, even if the time is up, so that
    slow machines make progress. A workflow without a plan stays due: its history has changed, or none of its messages
    were read. Lines and signals are kept with the plan.
    """
    plans: dict[uuid.UUID, Plan] = {}
    not_for_us: list[LockedWorkflow] = []
    for owner in candidates:
        workflow = read.workflows.get(owner)
        if workflow is None or not is_turnable(workflow):
            continue
        due = read.inboxes.get(owner, _NOTHING)
        order = next((message for message in due.messages if message.kind is MessageKind.TERMINATE), None)
        if order is not None:
            plan = terminated(Plan(workflow, read.at), order.payload)
            plan.consumed.append(order.id)
            plans[owner] = plan
            continue
        if owner in batch.unknown:
            not_for_us.append(workflow)
            continue
        if batch.seen.get(owner) != workflow.last_seq or (plans and time.perf_counter() > until):
            continue
        if due.waits and owner not in batch.blocked_by:
            continue
        with holding() as said:
            plans[owner] = _decide(Plan(workflow, read.at, batch.terms, said=said), due, batch, announce, until)
    for workflow in not_for_us:
        due = read.inboxes.get(workflow.id, _NOTHING)
        unknown, started = batch.unknown[workflow.id], batch.started.get(workflow.id)
        begun = unknown.since if started is None else max(unknown.since, started.recorded_at)
        with holding() as said:
            plan = Plan(workflow, read.at, said=said)
            plans[workflow.id] = _judge_unknown(plan, due, unknown.error, begun, read.asleep.get(workflow.id))
    return plans


def terminated(plan: Plan, payload: str) -> Plan:
    """Plans the end of a workflow by an order, whose payload this is, of its parent's end. No code of it runs: so it
    ends also if it is paused or blocked, or if its type is not known here.
    """
    data = {**wire.load(payload), "terminated": True}
    plan.closing = Closing(EventType.WORKFLOW_CANCELLED, WorkflowStatus.CANCELLED, data)
    return plan


@dataclass(frozen=True, slots=True)
class Ahead:
    """What was decided before the lock, and the rows on which it was based."""

    read: Read
    plans: Mapping[uuid.UUID, Plan]

    def standing(
        self, connection: BaseDatabaseWrapper, locked: Mapping[uuid.UUID, LockedWorkflow]
    ) -> dict[uuid.UUID, Plan]:
        """The plans of (locked) workflows of which nothing has changed since: neither the row, nor a message that the
        plan consumes. What may have come in addition stays due. One statement.
        """
        same = {owner: plan for owner, plan in self.plans.items() if locked.get(owner) == plan.workflow}
        consumed = {id for plan in same.values() for id in plan.consumed}
        waited = [message for owner in same for message in self.read.inboxes.get(owner, _NOTHING).messages]
        there = inbox.unchanged(connection, [message for message in waited if message.id in consumed])
        return {owner: plan for owner, plan in same.items() if there.issuperset(plan.consumed)}


def _decide(plan: Plan, due: Inbox, batch: Batch, announce: Announcements, until: float) -> Plan:
    """Runs one workflow's code on what is due for it."""
    owner = plan.workflow.id
    if (blocked_by := batch.blocked_by.get(owner)) is not None:
        feeding.block(plan, blocked_by)
        return plan
    start = next((message for message in due.messages if message.kind is MessageKind.START), None)
    if start is not None and start.due > plan.at:
        feeding.await_start(plan, start, due.messages)
        # The code has not been tried, so a blocked workflow that was offered to it keeps its mark.
        plan.unknown = bool(plan.workflow.blocked_reason) and plan.closing is None
        return plan
    batch.ran.add(owner)
    plan.traced = _traced(plan.workflow, batch)
    announce.runs(owner)
    try:
        feeding.feed(
            plan,
            batch.executions[owner],
            due,
            started=batch.started.get(owner),
            room=settings.room,
            has_time=lambda: time.perf_counter() <= until,
        )
    except BaseException as error:  # as in `_replay`
        if interrupts(error):
            raise
        feeding.block(plan, unexpected(plan.workflow, error))
    finally:
        announce.runs(None)
    if plan.workflow.blocked_reason and plan.execution is not None and plan.closing is None:
        plan.append(EventType.WORKFLOW_UNBLOCKED, {"reason": "This version of the code fits the history."})
    return plan


def _traced(workflow: LockedWorkflow, batch: Batch) -> tracing.Turn:
    """Goes on with the trace in which it was started; the execution knows it from its first input on."""
    started = batch.started.get(workflow.id)
    trace = batch.executions[workflow.id].trace or (None if started is None else started.data.get(TRACE))
    return tracing.Turn(workflow.type, trace=trace, workflow_id=str(workflow.id), run=workflow.run)


def _judge_unknown(plan: Plan, due: Inbox, error: WorkflowBlocked, begun: datetime, timer: datetime | None) -> Plan:
    """Code of this type, or what a newer engine has written, is not known here: wait for a deploy that brings it, or
    for a worker that has it, then show it to staff.

    The wait counts from its first message or timer, not from the last look, and not before its start, nor before what
    is not known was written.
    """
    waiting: list[DueMessage | NewerMessage] = [*due.messages, *due.newer]
    since = max(begun, min([message.created_at for message in waiting], default=timer or plan.at))
    if plan.at - since >= settings.unknown_handler_for:
        feeding.block(plan, error)
    else:
        plan.later = {message.id: max(message.due, plan.at + UNKNOWN_TYPE_WAITS) for message in waiting}
        plan.unknown = True
    return plan
