"""Reading what is due for workflows that are about to turn. No `atomic` in here."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.errors import NewerEngine
from durable.flow.turns.keeping import is_full
from durable.flow.turns.preparing import Announcements, Batch, Unknown, is_turnable
from durable.store.runs import inbox, sleeping
from durable.store.runs.inbox import Inbox
from durable.store.runs.workflows import LockedWorkflow, Turnable


@dataclass(frozen=True, slots=True)
class Read:
    """The rows of a batch's workflows, what is due for each, and the database's time. `asleep`: the first timers of
    those whose code is not known here and for which nothing is due.
    """

    workflows: Mapping[uuid.UUID, LockedWorkflow]
    at: datetime
    inboxes: Mapping[uuid.UUID, Inbox]
    asleep: Mapping[uuid.UUID, datetime]


def read(connection: BaseDatabaseWrapper, turnable: Turnable, batch: Batch, announce: Announcements) -> Read:
    """Reads all that the code of these workflows will run on."""
    inboxes = _due(connection, turnable.workflows.values(), batch, announce)
    idle = [owner for owner in turnable.workflows if owner in batch.unknown and owner not in inboxes]
    return Read(turnable.workflows, turnable.at, inboxes, sleeping.first_timers(connection, idle))


def _due(
    connection: BaseDatabaseWrapper, locked: Iterable[LockedWorkflow], batch: Batch, announce: Announcements
) -> dict[uuid.UUID, Inbox]:
    """What is due for those that may turn, within the budget of a batch; and which of them only a newer engine turns.

    The note gets the workflow with the longest payloads before any long one is read. One statement, and one more if
    there are long ones.
    """
    room = settings.room
    turnable = [workflow for workflow in locked if is_turnable(workflow)]
    selection = inbox.look(
        connection,
        [workflow.id for workflow in turnable],
        unbegun=[workflow.id for workflow in turnable if _is_unbegun(workflow, batch)],
        full=[w.id for w in turnable if is_full(w) or not room.accepts_signals(w.history_events, w.history_bytes)],
    )
    if selection.heaviest is not None:
        announce.reads(selection.heaviest)
    inboxes = inbox.read(connection, selection)
    if selection.heaviest is not None:
        announce.reads(None)
    for owner, waiting in inboxes.items():
        if waiting.newer:
            since = min(message.created_at for message in waiting.newer)
            batch.unknown.setdefault(owner, Unknown(NewerEngine(waiting.newer[0].words), since))
    return inboxes


def _is_unbegun(workflow: LockedWorkflow, batch: Batch) -> bool:
    """Whether its start may be among what waits for it."""
    execution = batch.executions.get(workflow.id)
    return workflow.id in batch.unknown if execution is None else execution.now is None
