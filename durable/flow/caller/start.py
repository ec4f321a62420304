"""Start workflows: insert them with their first event and message, in the caller's transaction."""

from __future__ import annotations

import secrets
import sys
import uuid
from collections.abc import Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.flow.caller import keys, waking
from durable.flow.transactions import reporting, transaction
from durable.kernel.codec import DIGEST_KEY_BYTES, stored_digest_key
from durable.kernel.history.events import DIGEST_KEY
from durable.outcomes import KeyHeld, Started
from durable.store.runs import starts
from durable.store.runs.starts import NewWorkflow

__all__ = ["NewWorkflow", "new_workflow", "start"]


def new_workflow(*, id: uuid.UUID, payload: str, type: str, **values: object) -> NewWorkflow:
    """A workflow to start, with the data of its started event. Raises `PayloadError` where the codec fails."""
    started = {
        "type": type,
        "input": payload,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        DIGEST_KEY: stored_digest_key(secrets.token_bytes(DIGEST_KEY_BYTES), codec=settings.codec(), workflow_id=id),
    }
    return NewWorkflow(id=id, type=type, payload=payload, started=started, **values)  # type: ignore[arg-type]


def start(new: Sequence[NewWorkflow]) -> list[Started | KeyHeld]:
    """Inserts workflows, in the given order; one outcome each.

    Joins the caller's transaction: nothing is claimable before its commit, and nothing is left after its rollback. If a
    live workflow of the type has the key, the outcome is `KeyHeld` and nothing is written. Raises what the database
    raised.
    """

    def body(connection: BaseDatabaseWrapper) -> list[Started | KeyHeld]:
        outcomes = keys.insert(connection, new, starts.insert_workflows)
        reporting.started(new, outcomes)
        waking.wake(connection, keys.queues_due(new, outcomes))
        return outcomes

    return transaction.joined(body)
