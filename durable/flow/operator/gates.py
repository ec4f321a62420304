"""The gates of redrive and discard (specification B2): which refusal, if any, speaks first. One rule for all who ask.

A redrive asks under the locks, and the preview asks of many rows at once and without any. No `atomic` in here.
"""

from __future__ import annotations

from durable.errors import (
    AlreadyJudged,
    HistoryRecordsOutcome,
    NotDeadLettered,
    RedriveRefused,
    RowNotFound,
    RowUnreadable,
    WorkflowTerminal,
)
from durable.flow.operator import budgets
from durable.outcomes import OutboxStatus, RedriveMode
from durable.store.operators.redrives import LARGEST_ORDINAL, Facts

Refusal = RedriveRefused | None

Faults = dict[tuple[str, str], str]
"""What is wrong with the options (as stored) of an activity, by both; an empty text: nothing."""


def of_redrive(facts: Facts, mode: RedriveMode, known: Faults | None = None) -> Refusal:
    """What a redrive would be refused with; None if every gate lets it through. Who asks for many rows passes `known`,
    so that the same options are read once.
    """
    return (
        of_workflow(facts)
        or of_history(facts, mode)
        or of_letter(facts)
        or _of_marker(facts, mode)
        or _of_options(facts, {} if known is None else known)
    )


def of_workflow(facts: Facts) -> Refusal:
    """The workflow is live, and the activity that is meant is one of its current run."""
    if facts.status is None:
        return RowNotFound(facts.workflow_id, facts.ordinal)
    if facts.status.is_terminal:
        return WorkflowTerminal(facts.workflow_id, facts.status.value)
    if facts.meant_run not in (None, facts.run) or not 0 < facts.ordinal <= LARGEST_ORDINAL:
        return RowNotFound(facts.workflow_id, facts.ordinal)
    return None


def of_history(facts: Facts, mode: RedriveMode) -> Refusal:
    """The run records no outcome of the activity, or it is forced."""
    if facts.outcomes and mode is not RedriveMode.FORCED:
        activity_id = f"{facts.workflow_id}:{facts.run}:{facts.ordinal}"
        return HistoryRecordsOutcome(facts.workflow_id, activity_id, facts.ordinal)
    return None


def of_letter(facts: Facts) -> Refusal:
    """There is a row, and it is a dead letter."""
    if facts.letter is None:
        return RowNotFound(facts.workflow_id, facts.ordinal)
    if facts.letter.status is not OutboxStatus.DEAD:
        return NotDeadLettered(facts.workflow_id, facts.ordinal, facts.letter.status.value)
    return None


def _of_marker(facts: Facts, mode: RedriveMode) -> Refusal:
    """The workflow has not been told of the failure, or it is forced."""
    if facts.letter is not None and facts.letter.was_delivered and mode is not RedriveMode.FORCED:
        return AlreadyJudged(facts.workflow_id, facts.ordinal)
    return None


def _of_options(facts: Facts, known: Faults) -> Refusal:
    """What is stored with the row can be read, so that a worker could run it."""
    if facts.letter is None:
        return None
    stored = facts.letter.activity, facts.letter.options
    if stored not in known:
        try:
            budgets.attempts(*stored)
            known[stored] = ""
        except budgets.Unreadable as fault:
            known[stored] = str(fault)
    return RowUnreadable(facts.workflow_id, facts.ordinal, known[stored]) if known[stored] else None
