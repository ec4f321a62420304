"""The two halves of a pause. No `atomic` in here."""

from __future__ import annotations

import uuid

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.errors import WorkflowClosed, WorkflowNotFound
from durable.flow.audit import auditing
from durable.kernel.history.events import Event, EventType
from durable.outcomes import WorkflowState, WorkflowStatus
from durable.store.deliveries import outbox
from durable.store.operators.staff_actions import Audit
from durable.store.runs import history, messages, sleeping, workflows
from durable.store.runs.workflows import LockedWorkflow


def pause(connection: BaseDatabaseWrapper, made: Audit) -> WorkflowState:
    """Marks a running workflow and all its rows as paused, and parks its messages."""
    workflow_id = made.workflow_id
    workflow = _live(connection, workflow_id, verb="pause")
    if workflow.status is WorkflowStatus.PAUSED:
        return WorkflowState.PAUSED
    _move(connection, workflow, WorkflowStatus.PAUSED, EventType.WORKFLOW_PAUSED, made)
    outbox.pause(connection, list(outbox.lock_open_of(connection, [workflow_id])))
    messages.park(connection, [workflow_id])
    sleeping.sleep(connection, [workflow_id])
    return WorkflowState.PAUSED


def resume(connection: BaseDatabaseWrapper, made: Audit) -> WorkflowState:
    """Removes the mark from a paused workflow and its rows, and makes its messages due again; those of a blocked one
    stay parked.
    """
    workflow_id = made.workflow_id
    workflow = _live(connection, workflow_id, verb="resume")
    if workflow.status is WorkflowStatus.RUNNING:
        return WorkflowState.RESUMED
    _move(connection, workflow, WorkflowStatus.RUNNING, EventType.WORKFLOW_RESUMED, made)
    outbox.resume(connection, list(outbox.lock_open_of(connection, [workflow_id])))
    if not workflow.blocked_reason:
        messages.unpark(connection, [workflow_id])
        if not workflow.single:
            sleeping.rearm(connection, [workflow_id])
    return WorkflowState.RESUMED


def _live(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, *, verb: str) -> LockedWorkflow:
    workflow = workflows.lock(connection, [workflow_id]).get(workflow_id)
    if workflow is None:
        raise WorkflowNotFound(workflow_id)
    if not workflow.is_live:
        raise WorkflowClosed(workflow_id, workflow.status.value, verb)
    return workflow


def _move(
    connection: BaseDatabaseWrapper,
    workflow: LockedWorkflow,
    becomes: WorkflowStatus,
    type: EventType,
    made: Audit,
) -> None:
    """The event, the status and the audit of it."""
    event = Event(
        seq=workflow.last_seq + 1,
        type=type,
        data={"actor": made.actor_text, "reason": made.reason},
        recorded_at=clock.database_now(connection),
    )
    added = history.append(connection, [(workflow.id, event)])
    workflows.set_status(connection, workflow.id, was=workflow.status, becomes=becomes, last_seq=event.seq, added=added)
    auditing.record(connection, made)
