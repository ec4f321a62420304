"""Where the activations of a recorded history begin and end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime

from durable.kernel.history.events import CLOSING, INPUTS, RECORDS, Event, EventType

_BEGINNINGS = RECORDS | {EventType.WORKFLOW_BEGUN}
"""The events that may give the time of the first activation: the first of these after `workflow_started`."""


def records_from(history: Sequence[Event], at: int) -> tuple[list[Event], int]:
    """The records from this index to the next input, or to an end from outside; and the index of that."""
    records = []
    while at < len(history):
        event = history[at]
        kind = event.type
        if kind in INPUTS or (kind in CLOSING and is_from_outside(event)):
            break
        if kind in RECORDS:
            records.append(event)
        at += 1
    return records, at


def began_at(history: Sequence[Event], at: int) -> datetime | None:
    """The time of the first activation, from the first event after the start that gives it; None if there was none."""
    for event in itertools.islice(history, at, None):
        if is_from_outside(event):
            return None
        if event.type in INPUTS:
            break
        if event.type in _BEGINNINGS:
            return event.recorded_at
    return history[at - 1].recorded_at


def is_from_outside(event: Event) -> bool:
    """An end from outside the code: terminated by an operator, or timed out."""
    if event.type is EventType.WORKFLOW_CANCELLED:
        return bool(event.data.get("terminated"))
    return event.type is EventType.WORKFLOW_TIMED_OUT
