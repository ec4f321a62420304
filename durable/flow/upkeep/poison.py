"""Count a poison turn in a transaction of its own: the turn that caused it can not, it rolled back or died."""

from __future__ import annotations

import uuid

from durable.flow.transactions import transaction
from durable.flow.turns import poison


def count(workflow_id: uuid.UUID) -> bool:
    """Count one poison turn of the workflow, and block it at `TURN_POISON_LIMIT`. An ended or unknown one is left
    alone. Returns whether that is done with: a workflow that somebody else has locked is not waited for.
    """
    try:
        transaction.own(poison.counting(workflow_id))
    except poison.Busy:
        return False
    return True
