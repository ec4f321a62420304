"""The metrics that need the database: a handful of reads, each of which looks at 10,000 rows at most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from durable import clock
from durable.conf import settings
from durable.flow.transactions import transaction
from durable.metrics.counting import OTHER
from durable.metrics.readings import Key
from durable.metrics.series import (
    BLOCKED,
    DEAD_LETTERS,
    DUE,
    EXPIRED,
    FAILED,
    OLDEST_DUE,
    OLDEST_TURN,
    OUT,
    TURNS_DUE,
    Series,
)
from durable.store.operators import measures, reads
from durable.store.operators.measures import Group
from durable.store.operators.reads import QueueState

MOST_GROUPS: Final = 200
"""Combinations of labels of one series; the smallest beyond are counted together, as `OTHER`."""


def measure() -> dict[Key, float]:
    """Values by series and labels. Seven statements, in no transaction; raises what the database raised.

    Queues that the settings name, and `default`, have a value also when nothing waits in them.
    """
    at = transaction.reading(clock.database_now)
    counts = transaction.reading(reads.counts)
    values: dict[Key, float] = {
        (BLOCKED.name, ()): counts["blocked"],
        (FAILED.name, ()): counts["failed"],
        (EXPIRED.name, ()): counts["expired"],
    }
    values |= _states(DUE, OLDEST_DUE, transaction.reading(reads.due_by_queue), at)
    values |= _states(TURNS_DUE, OLDEST_TURN, transaction.reading(reads.turns_due_by_queue), at)
    values |= _nothing(OUT) | _bounded(OUT, transaction.reading(measures.out_by_queue))
    values |= _bounded(DEAD_LETTERS, transaction.reading(measures.dead_letters_by_cause))
    return values


def _states(number: Series, oldest: Series, states: Sequence[QueueState], at: datetime) -> dict[Key, float]:
    values = _nothing(number) | _nothing(oldest)
    values |= _bounded(number, [Group((state.queue,), state.due) for state in states])
    for state in states:
        key = (oldest.name, (state.queue if (number.name, (state.queue,)) in values else OTHER,))
        values[key] = max(values.get(key, 0.0), (at - state.oldest_due).total_seconds())
    return values


def _nothing(series: Series) -> dict[Key, float]:
    return {(series.name, (queue,)): 0.0 for queue in ["default", *settings.queues][:MOST_GROUPS]}


def _bounded(series: Series, groups: Iterable[Group]) -> dict[Key, float]:
    """The largest groups by themselves, the rest together."""
    ordered = sorted(groups, key=lambda group: (-group.count, group.values))
    values: dict[Key, float] = {(series.name, group.values): group.count for group in ordered[:MOST_GROUPS]}
    if ordered[MOST_GROUPS:]:
        values[series.name, (OTHER,) * len(series.labels)] = sum(group.count for group in ordered[MOST_GROUPS:])
    return values
