"""Inserts rows whose business key may be taken."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.outcomes import KeyHeld, Started
from durable.store.runs import workflows
from durable.store.runs.starts import NewActivity, NewWorkflow

New = TypeVar("New", NewWorkflow, NewActivity)

_LOOKS = 5


def queues_due(new: Sequence[New], outcomes: Sequence[Started | KeyHeld]) -> set[str]:
    """The queues of those that went in and do not have to wait for their start."""
    return {
        row.queue
        for row, outcome in zip(new, outcomes, strict=True)
        if isinstance(outcome, Started) and row.start_at is None
    }


def insert(
    connection: BaseDatabaseWrapper,
    new: Sequence[New],
    insert_rows: Callable[[BaseDatabaseWrapper, Sequence[New]], set[uuid.UUID]],
) -> list[Started | KeyHeld]:
    """Inserts rows; for each one whose key is taken, returns the live workflow that holds it. One outcome each.

    If the holder ends between the insert and the look-up, there is none to return, and the insert is tried again.
    """
    outcomes: dict[uuid.UUID, Started | KeyHeld] = {}
    waiting = list(new)
    for _ in range(_LOOKS):
        inserted = insert_rows(connection, waiting) if waiting else set()
        missing = []
        for row in waiting:
            if row.id in inserted:
                outcomes[row.id] = Started(row.id)
                continue
            name = row.type if isinstance(row, NewWorkflow) else row.activity
            holder = workflows.holder_of_key(connection, name, row.key) if row.key is not None else None
            if holder is None:
                missing.append(row)
            else:
                assert row.key is not None
                outcomes[row.id] = KeyHeld(row.key, holder)
        waiting = missing
        if not waiting:
            return [outcomes[row.id] for row in new]
    raise RuntimeError(f"The keys {[row.key for row in waiting]} changed hands {_LOOKS} times during one call.")
