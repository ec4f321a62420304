"""Enqueue single activities: each its own small workflow that needs no turn, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import tracing
from durable.flow.caller import keys, waking
from durable.flow.transactions import reporting, transaction
from durable.kernel.history.events import TRACE
from durable.outcomes import KeyHeld, Started
from durable.store.runs import starts
from durable.store.runs.starts import NewActivity

__all__ = ["NewActivity", "enqueue", "new_activity"]


def new_activity(*, activity: str, options: Mapping[str, Any] | None = None, **values: object) -> NewActivity:
    """A single activity to enqueue, with the data of its started event. Its row keeps the caller's trace."""
    if (trace := tracing.current()) is not None:
        options = {**(options or {}), TRACE: trace}
    values["options"] = options or {}
    return NewActivity(activity=activity, started={"type": activity}, **values)  # type: ignore[arg-type]


def enqueue(new: Sequence[NewActivity]) -> list[Started | KeyHeld]:
    """Inserts single activities, in the order given; one outcome each, as `start.start` does for workflows."""

    def body(connection: BaseDatabaseWrapper) -> list[Started | KeyHeld]:
        outcomes = keys.insert(connection, new, starts.insert_activities)
        reporting.started(new, outcomes)
        waking.wake(connection, keys.queues_due(new, outcomes))
        return outcomes

    return transaction.joined(body)
