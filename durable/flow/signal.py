"""Signal a workflow: one message for its next turn, in the caller's transaction."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.errors import NobodyListens, WorkflowClosed, WorkflowNotFound
from durable.flow import transaction
from durable.flow.steps import auditing, waking
from durable.kernel import wire
from durable.kernel.events import MessageKind
from durable.outcomes import StaffVerb
from durable.store import messages, wakeups, workflows


def signal(
    workflow_id: uuid.UUID,
    name: str,
    *,
    payload: str,
    dedup: str | None = None,
    actor: Any = None,
    audited: bool = False,
) -> None:
    """Insert a signal with an encoded payload. Accepted, not delivered: one that the workflow has not read when it ends
    is kept with it as unread, also when this transaction commits after the end.

    Joins the caller's transaction. A second signal with the same `dedup` to one workflow is accepted and changes
    nothing while the first still waits. Raises `WorkflowClosed`, `WorkflowNotFound`, `NobodyListens` for a single
    activity, and what the database raised. `audited` is what an operator sends, as opposed to the application: an audit
    row with the name, and without the payload, is committed with the signal.
    """
    made = auditing.audit(StaffVerb.SIGNAL, workflow_id, actor=actor, data={"signal": name}) if audited else None
    told = wire.dump({"name": name, "payload": payload})

    def body(connection: BaseDatabaseWrapper) -> None:
        if messages.insert_for_live(connection, workflow_id, MessageKind.SIGNAL, told, dedup=dedup):
            waking.wake(connection, [wakeups.EVERY_QUEUE])
            if made is not None:
                auditing.record(connection, made)
            return
        found = workflows.look(connection, [workflow_id])
        if workflow_id not in found:
            raise WorkflowNotFound(workflow_id)
        workflow = found[workflow_id]
        if not workflow.is_live:
            raise WorkflowClosed(workflow_id, workflow.status.value, "a signal")
        if workflow.single:
            raise NobodyListens(workflow_id)

    if made is None:
        transaction.joined(body)
    else:
        transaction.joined_steps(body)
