"""Reads a single activity with all that has happened to it. Reads only; no transaction of its own."""

from __future__ import annotations

import uuid
from functools import partial

from durable.flow.transactions import transaction
from durable.store.operators import singles
from durable.store.operators.singles import FailedDelivery, Single

__all__ = ["FailedDelivery", "Single", "single"]


def single(workflow_id: uuid.UUID) -> Single | None:
    """A single activity by the id of its workflow, in at most three statements. None: there is none of that id."""
    return transaction.reading(partial(singles.single, workflow_id=workflow_id))
