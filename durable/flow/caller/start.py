"""Start workflows: insert them with their first event and message, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.caller import keys, waking
from durable.flow.transactions import reporting, transaction
from durable.outcomes import KeyHeld, Started
from durable.store.runs import starts
from durable.store.runs.beginnings import new_workflow
from durable.store.runs.starts import NewWorkflow

__all__ = ["NewWorkflow", "new_workflow", "start"]


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
