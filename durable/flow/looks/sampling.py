"""A sample of workflows in which each kind of history is found."""

from __future__ import annotations

import uuid
from collections import defaultdict
from functools import partial
from itertools import zip_longest

from durable.flow.transactions import transaction
from durable.kernel.definitions.options import check_storable
from durable.store.operators import shapes

LOOKED_AT = 4_000
"""Workflows among which a sample chooses: half of them the oldest, half the newest."""


def sample(*, live: bool, workflow_type: str | None, count: int) -> list[uuid.UUID]:
    """At most `count` workflows, only live ones or all, of one type or all; those with distinct shapes come first:
    other activities, other patches, another length. Of each shape the oldest comes first, then the newest, and so on.
    Raises `OptionInvalid` for a type that no database takes.
    """
    if workflow_type is not None:
        check_storable("type", workflow_type)
    looked = transaction.reading(
        partial(shapes.candidates, live=live, workflow_type=workflow_type, limit=max(LOOKED_AT, count))
    )
    by_shape: dict[shapes.Shape, list[uuid.UUID]] = defaultdict(list)
    for owner, shape in looked.items():
        by_shape[shape].append(owner)
    rounds = zip_longest(*map(_from_both_ends, by_shape.values()))
    return [owner for of_round in rounds for owner in of_round if owner is not None][:count]


def _from_both_ends(owners: list[uuid.UUID]) -> list[uuid.UUID]:
    """The first, the last, the second, the last but one, and so on."""
    half = (len(owners) + 1) // 2
    pairs = zip_longest(owners[:half], reversed(owners[half:]))
    return [owner for pair in pairs for owner in pair if owner is not None]
