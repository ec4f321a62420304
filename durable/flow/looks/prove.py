"""Checks the rows against the histories. Reads only."""

from __future__ import annotations

import uuid
from functools import partial

from durable.flow.transactions import transaction
from durable.store.operators import proof
from durable.store.operators.proof import Contradiction

__all__ = ["Contradiction", "contradictions"]

_PIECE = 500
_ORPHANS = 1_000


def contradictions() -> list[Contradiction]:
    """Every workflow whose status, count of events or open rows contradict its history, and rows without an owner.

    Looks at each workflow once, in pieces of a few hundred, each in a snapshot of its own, so that work may go on
    meanwhile. Takes as long as it takes to read the index of all events. Raises what the database raised.
    """
    collected: list[Contradiction] = []
    after: uuid.UUID | None = uuid.UUID(int=0)
    while after is not None:
        piece = transaction.reading(partial(proof.workflows, after=after, limit=_PIECE))
        collected += piece.contradictions
        after = piece.last
    collected += transaction.reading(partial(proof.orphans, limit=_ORPHANS))
    return collected
