"""Unblocks a workflow: its code is run against its history again."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import Error as DjangoDatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.conf import settings
from durable.errors import WorkflowClosed, WorkflowNotBlocked, WorkflowNotFound
from durable.flow.audit import auditing, reasons
from durable.flow.transactions import transaction
from durable.kernel.history.events import Event, EventType
from durable.logs import get_logger, words
from durable.outcomes import StaffVerb, WorkflowState
from durable.store.deliveries import together
from durable.store.runs import blocked, messages, workflows
from durable.store.runs.workflows import Progress

logger = get_logger("durable.flow")

_BATCH = 100


def unblock(workflow_id: uuid.UUID, *, actor: Any = None, reason: str = "") -> WorkflowState:
    """Removes the mark from a blocked workflow and makes it due. If its code still cannot continue, it is blocked
    again. Its deadline moves on by the time for which it was blocked.

    Commits together: the event with actor and reason, the cleared mark, its messages given back, the audit row. Raises
    `WorkflowNotFound`, `WorkflowClosed`, `WorkflowNotBlocked`, `TransactionOpen` inside a transaction of the caller's,
    and `StoreUnavailable` when another session has locked it.
    """
    reasons.check(reason)
    made = auditing.audit(StaffVerb.UNBLOCK, workflow_id, actor=actor, reason=reason)

    def body(connection: BaseDatabaseWrapper) -> WorkflowState:
        workflow = workflows.lock(connection, [workflow_id]).get(workflow_id)
        if workflow is None:
            raise WorkflowNotFound(workflow_id)
        if not workflow.is_live:
            raise WorkflowClosed(workflow_id, workflow.status.value, "unblock")
        if not workflow.blocked_reason:
            raise WorkflowNotBlocked(workflow_id, workflow.status.value)
        at = clock.database_now(connection)
        event = Event(
            seq=workflow.last_seq + 1,
            type=EventType.WORKFLOW_UNBLOCKED,
            data={"actor": made.actor_text, "reason": reason},
            recorded_at=at,
        )
        deadline = workflow.deadline(at)
        progress = Progress(workflow_id, workflow.status, event.seq, wake_at=at, deadline_at=deadline)
        together.record(connection, [(workflow_id, event)], [progress])
        messages.unpark(connection, [workflow_id])
        auditing.record(connection, made)
        return WorkflowState.UNBLOCKED

    state = transaction.verb(body, auditing.commit(made, WorkflowState.UNBLOCKED))
    logger.info("workflow.unblocked", workflow=str(workflow_id), reason=reason, actor=made.actor_text)
    return state


@dataclass(frozen=True, slots=True)
class Offered:
    """How many workflows were offered to this version of the code, and which were locked."""

    count: int
    left: frozenset[uuid.UUID]


def after_deploy(version: str, *, left: frozenset[uuid.UUID] | None = None) -> Offered:
    """Lets every workflow that was blocked under other code be tried once with this version of the code.

    The mark stays until a turn succeeds. Call it at a worker's start, and again with those `left` until there are none:
    it does not wait for locked workflows.
    """
    if left is not None:
        busy = _offer_some(sorted(left), version)
        return Offered(len(left) - len(busy), frozenset(busy))
    return _offer_all(version, partial(blocked.by_other_code, version=version, limit=_BATCH))


def after_old_workers(version: str) -> Offered:
    """As `after_deploy`, for what workers of other versions have blocked since, once the last of them is gone: in a
    rolling deploy they may be given what was offered to this version. Call it now and then; one statement if there is
    none.
    """
    within = 2 * settings.lease_for
    return _offer_all(version, partial(blocked.by_code_that_has_left, version=version, limit=_BATCH, within=within))


def _offer_all(version: str, chosen: Callable[..., list[uuid.UUID]]) -> Offered:
    offered, after = 0, uuid.UUID(int=0)
    passed_over: set[uuid.UUID] = set()
    while ids := transaction.reading(partial(chosen, after=after)):
        after = ids[-1]
        busy = _offer_some(ids, version)
        offered += len(ids) - len(busy)
        passed_over |= busy
    return Offered(offered, frozenset(passed_over))


def _offer_some(ids: list[uuid.UUID], version: str) -> set[uuid.UUID]:
    """Offers a batch; returns those that are left. If it still meets a lock, the whole batch is left."""
    try:
        return transaction.own(partial(_offer, ids, version))
    except DjangoDatabaseError as error:
        if transaction.store_is_away(error):
            raise
        logger.warning("unblock.put_off", count=len(ids), error=words(error))
        return set(ids)


def _offer(ids: list[uuid.UUID], version: str, connection: BaseDatabaseWrapper) -> set[uuid.UUID]:
    locked = workflows.lock_free(connection, ids, limit=len(ids))
    tried = [w.id for w in locked.values() if w.is_live and w.blocked_reason and w.blocked_version not in ("", version)]
    blocked.offer_again(connection, tried)
    messages.unpark(connection, tried)
    left = set(ids) - locked.keys()
    return set(workflows.look(connection, left)) if left else left
