"""Count a poison turn in a transaction of its own: the turn that caused it can not, it rolled back or died."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow import transaction
from durable.flow.steps import poison
from durable.store import workflows
from durable.store.workflows import LockedWorkflow


class _Busy(Exception):
    """Somebody else has locked the workflow."""


def count(workflow_id: uuid.UUID) -> bool:
    """Count one poison turn of the workflow, and block it at `TURN_POISON_LIMIT`. An ended or unknown one is left
    alone. Returns whether that is done with: a workflow that somebody else has locked is not waited for.
    """
    try:
        transaction.own(poison.counting(workflow_id, _lock_free))
    except _Busy:
        return False
    return True


def _lock_free(connection: BaseDatabaseWrapper, ids: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, LockedWorkflow]:
    locked = workflows.lock_free(connection, ids, limit=len(ids))
    if len(locked) < len(ids) and workflows.look(connection, ids).keys() - locked.keys():
        raise _Busy
    return locked
