"""Counting turns that overran their CPU time or ended their process."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.conf import settings
from durable.errors import PoisonTurn
from durable.flow.transactions import reporting, transaction
from durable.kernel.definitions.registry import registry
from durable.kernel.history.events import Event, EventType
from durable.kernel.texts.failure import type_name
from durable.logs import get_logger
from durable.outcomes import Failure
from durable.store.deliveries import together
from durable.store.runs import messages, workflows
from durable.store.runs.workflows import LockedWorkflow, Progress
from durable.store.texts import failures

logger = get_logger("durable.flow")


class Busy(Exception):
    """Another session has locked the workflow."""


def _lock_free(connection: BaseDatabaseWrapper, ids: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, LockedWorkflow]:
    locked = workflows.lock_free(connection, ids, limit=len(ids))
    if len(locked) < len(ids) and workflows.look(connection, ids).keys() - locked.keys():
        raise Busy
    return locked


def count(workflow_id: uuid.UUID) -> bool:
    """Counts one poison turn of the workflow, and blocks it at `TURN_POISON_LIMIT`. Skips an ended or unknown one.
    Returns False if another session has locked the workflow, which it does not wait for.

    A transaction of its own: the turn that caused it rolled back, or died with its process.
    """
    try:
        transaction.own(counting(workflow_id))
    except Busy:
        return False
    return True


def counting(workflow_id: uuid.UUID) -> Callable[[BaseDatabaseWrapper], None]:
    """Counts one poison turn of a live workflow, and blocks it at `TURN_POISON_LIMIT`, so that staff see it and nothing
    else waits for it. Repeated, it counts only if the first try was not committed. Raises `Busy` instead of waiting for
    a lock.
    """
    first_look: list[LockedWorkflow] = []

    def count_once(connection: BaseDatabaseWrapper) -> None:
        workflow = _lock_free(connection, [workflow_id]).get(workflow_id)
        if workflow is None or not workflow.is_live:
            return
        if not first_look:
            first_look.append(workflow)
        if (workflow.poison_turns, workflow.last_seq) == (first_look[0].poison_turns, first_look[0].last_seq):
            _count(connection, workflow)

    return count_once


def _count(connection: BaseDatabaseWrapper, workflow: LockedWorkflow) -> None:
    workflow_id = workflow.id
    turns = workflow.poison_turns + 1
    logger.warning(
        "workflow.poison_turn",
        workflow=str(workflow_id),
        type=workflow.type,
        turns=turns,
        of=settings.turn_poison_limit,
    )
    was_blocked = bool(workflow.blocked_reason)
    if turns < settings.turn_poison_limit or (was_blocked and workflow.blocked_version):
        workflows.count_poison(connection, workflow_id)
        return
    reason = f"{turns} turns in a row used up their CPU time or ended the worker's process."
    at = clock.database_now(connection)
    reporting.blocked(workflow, reason)
    event = Event(
        seq=workflow.last_seq + 1,
        type=EventType.WORKFLOW_BLOCKED,
        data=failures.block({"reason": reason, "version": registry.version()}, workflow_id),
        recorded_at=at,
    )
    together.record(
        connection,
        []
        if was_blocked
        else [(workflow_id, event)],  # it was offered to this version, and its block is already in the history
        [
            Progress(
                id=workflow_id,
                status=workflow.status,
                last_seq=workflow.last_seq if was_blocked else event.seq,
                wake_at=None,
                blocked_reason=failures.reason(reason, workflow_id),
                blocked_by=failures.kind(Failure(type_name(PoisonTurn), reason)),
                blocked_version=registry.version(),
                blocked_at=workflow.blocked_at if workflow.stands_still else at,
                deadline_at=None if workflow.stands_still else workflow.deadline_at,
            )
        ],
    )
    messages.park(connection, [workflow_id])
