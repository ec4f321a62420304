"""Signal a workflow: one message for its next turn, in the caller's transaction."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.errors import MailboxFull, NobodyListens, WorkflowClosed, WorkflowNotFound
from durable.flow.audit import auditing
from durable.flow.caller import waking
from durable.flow.transactions import transaction
from durable.kernel.history.events import MessageKind
from durable.kernel.payloads import wire
from durable.outcomes import StaffVerb
from durable.store.connections import wakeups
from durable.store.runs import messages, workflows
from durable.store.runs.messages import Limits, Standing


def signal(
    workflow_id: uuid.UUID,
    name: str,
    *,
    payload: str,
    dedup: str | None = None,
    actor: Any = None,
    audited: bool = False,
) -> None:
    """Inserts a signal with an encoded payload. If the workflow has not read it when it ends, it is kept with the
    workflow as unread, even if this transaction commits after the end.

    Joins the caller's transaction. A second signal with the same `dedup` to one workflow is accepted and changes
    nothing while the first still waits. Raises `WorkflowClosed`, `WorkflowNotFound`, `NobodyListens` for a single
    activity, `MailboxFull` when there is no room for it, and what the database raised. `audited`: an operator sends it,
    not the application, so an audit row with the name, but without the payload, is committed with the signal.
    """
    made = auditing.audit(StaffVerb.SIGNAL, workflow_id, actor=actor, data={"signal": name}) if audited else None
    envelope = wire.dump({"name": name, "payload": payload})
    room = settings.room
    within = Limits(
        signals=settings.max_unread_signals,
        size=settings.max_unread_bytes,
        history_events=room.signal_events,
        history_bytes=room.signal_bytes,
    )

    def is_there(connection: BaseDatabaseWrapper) -> bool:
        return _is_there(connection, workflow_id, dedup, within)

    # Counting what waits may take long, and SQLite has a single write lock, so it is counted before that is taken.
    answer = transaction.ahead_of_the_lock(is_there)
    if answer:
        return

    def body(connection: BaseDatabaseWrapper) -> None:
        for counted in (answer is not None, False):
            if messages.insert_for_live(
                connection, workflow_id, MessageKind.SIGNAL, envelope, dedup=dedup, within=within, counted=counted
            ):
                waking.wake(connection, [wakeups.EVERY_QUEUE])
                if made is not None:
                    auditing.record(connection, made)
                return
            if is_there(connection):
                return
        standing = messages.standing(connection, workflow_id, within)
        raise _full(workflow_id, standing or Standing(0, 0, history_has_room=False))

    if made is None:
        transaction.joined(body)
    else:
        transaction.joined_steps(body)


def _is_there(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID, dedup: str | None, within: Limits) -> bool:
    """Whether the same signal is already waiting. Otherwise raises if it cannot be inserted; False means that there is
    room.
    """
    workflow = workflows.look(connection, [workflow_id]).get(workflow_id)
    if workflow is None:
        raise WorkflowNotFound(workflow_id)
    if not workflow.is_live:
        raise WorkflowClosed(workflow_id, workflow.status.value, "a signal")
    if workflow.single:
        raise NobodyListens(workflow_id)
    if dedup is not None and messages.is_waiting(connection, workflow_id, dedup):
        return True
    standing = messages.standing(connection, workflow_id, within)
    if standing is not None and not standing.has_room(within):
        raise _full(workflow_id, standing)
    return False


def _full(workflow_id: uuid.UUID, standing: Standing) -> MailboxFull:
    return MailboxFull(
        workflow_id,
        signals=standing.signals,
        size=standing.size,
        history_is_full=not standing.history_has_room,
    )
