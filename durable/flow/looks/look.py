"""Reads workflows, their histories, and the state of the whole system. Reads only; no transaction of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.conf import settings
from durable.errors import OptionInvalid, WorkflowNotFound
from durable.flow.looks import selecting
from durable.flow.looks.selecting import Place
from durable.flow.transactions import transaction
from durable.kernel.definitions.options import check_storable
from durable.kernel.history.events import Event, EventType
from durable.outcomes import (
    DeadLetterFilter,
    DeadLetters,
    FailedActivity,
    Naming,
    RowSnapshot,
    Snapshot,
    WakesBy,
    WorkflowStatus,
)
from durable.store.operators import causes, reads, redrives
from durable.store.operators import naming as names
from durable.store.operators.reads import PendingRow, QueueState, Standing, UnreadMessage
from durable.store.runs import history as histories

__all__ = [
    "LATE_AFTER",
    "MOST_LISTED",
    "Health",
    "PendingRow",
    "Readings",
    "Standing",
    "UnreadMessage",
    "by_key",
    "cause_of_failure",
    "dead_letters",
    "dead_letters_matching",
    "health",
    "history",
    "history_within",
    "listing",
    "naming",
    "next_due",
    "pending",
    "places_matching",
    "snapshot",
    "snapshots",
    "standings",
    "unread",
    "workers_of",
]


def snapshot(workflow_id: uuid.UUID) -> Snapshot:
    """A workflow as callers see it. Raises `WorkflowNotFound`."""
    current = transaction.reading(partial(reads.snapshot, workflow_id=workflow_id))
    if current is None:
        raise WorkflowNotFound(workflow_id)
    return current


def snapshots(workflow_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, Snapshot]:
    """Workflows as callers see them, by id, in one statement per thousand. Unknown ids are left out; only those that
    have ended have a result, a failure or a reason.
    """
    return transaction.reading(partial(reads.snapshots, workflow_ids=list(workflow_ids)))


def cause_of_failure(workflow_id: uuid.UUID) -> list[FailedActivity]:
    """The activities whose failures ended a failed workflow, by ordinal, a hundred at most. Empty for every other
    workflow, and if its error came from elsewhere.
    """
    return transaction.reading(partial(causes.of_failure, workflow_id=workflow_id))


def standings(workflow_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, Standing]:
    """Which workflows have ended, and the size of their results, by id, in one statement per thousand. Unknown ids are
    left out.
    """
    return transaction.reading(partial(reads.standings, workflow_ids=list(workflow_ids)))


def by_key(workflow_type: str, key: str) -> Snapshot:
    """The live workflow of this type and business key, else the latest one. Raises `WorkflowNotFound`."""
    current = transaction.reading(partial(reads.snapshot_by_key, workflow_type=workflow_type, key=key))
    if current is None:
        raise WorkflowNotFound(f"of type {workflow_type} with the key {key!r}")
    return current


def listing(
    *,
    status: WorkflowStatus | None = None,
    workflow_type: str | None = None,
    key: str | None = None,
    blocked: str | None = None,
    limit: int = 50,
) -> list[Snapshot]:
    """The latest workflows that match, newest first, without results and failures. `blocked="only"` for blocked
    ones. Raises `OptionInvalid` for text that no database takes.
    """
    for name, value in (("type", workflow_type), ("key", key)):
        if value is not None:
            check_storable(name, value)
    return transaction.reading(
        partial(
            reads.listing,
            status=None if status is None else status.value,
            workflow_type=workflow_type,
            key=key,
            only_blocked=blocked,
            limit=limit,
        )
    )


def history(workflow_id: uuid.UUID, *, after: int = 0, limit: int = 100) -> list[Event]:
    """At most `limit` events of a workflow's history after `after`, in order."""
    return transaction.reading(partial(histories.read, workflow_id=workflow_id, after=after, limit=limit))


def history_within(workflow_id: uuid.UUID, *, after: int, limit: int, characters: int) -> tuple[list[Event], bool]:
    """The same, up to a number of characters of data in all (but at least one event), and whether more follow."""
    number, more = transaction.reading(
        partial(histories.fitting, workflow_id=workflow_id, after=after, limit=limit, characters=characters)
    )
    return (history(workflow_id, after=after, limit=number) if number else []), more


def last_block(workflow_id: uuid.UUID) -> Event | None:
    """The event that says why a workflow was last blocked, if it ever was."""
    return transaction.reading(partial(histories.last_of, workflow_id=workflow_id, type=EventType.WORKFLOW_BLOCKED))


def pending(workflow_id: uuid.UUID, *, limit: int = 100) -> list[PendingRow]:
    """A workflow's open activities and dead letters, by ordinal, at most `limit`."""
    return transaction.reading(partial(reads.pending, workflow_id=workflow_id, limit=limit))


def unread(workflow_id: uuid.UUID, *, limit: int = 100, characters: int = 4_000_000) -> list[UnreadMessage]:
    """Signals and requests to cancel that a closed workflow has not read, oldest first, at most `limit`, with the
    payloads of the first ones, up to a number of characters together. Empty for a live workflow, which will still read
    its messages.
    """
    return transaction.reading(partial(reads.unread, workflow_id=workflow_id, limit=limit, characters=characters))


def next_due(queues: Sequence[str] | None, *, but: Sequence[str] = ()) -> timedelta | None:
    """The time until something is due in `queues` (None: all queues); zero or less means now, None that nothing is
    waiting. Activities of the queues in `but` do not count.
    """
    moments = transaction.reading(partial(reads.earliest, queues=queues, but=but))
    if not moments:
        return None
    return min(moments) - transaction.reading(clock.database_now)


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the whole system, in numbers (capped) and in words. Without problems all is well.

    `queues` counts activities that are due, `turns` workflows that can run and wait for their turn; `unserved` both,
    for queues without a live worker; `failed` workflows that failed or timed out within a day. `silent` are workers
    whose heartbeats have stopped, by name with the time of the last one: they wait for the database, or have died.
    """

    problems: tuple[str, ...]
    queues: tuple[QueueState, ...]
    turns: tuple[QueueState, ...]
    workers: tuple[str, ...]
    blocked: int
    failed: int
    dead_letters: int
    expired: int
    unserved: tuple[QueueState, ...]
    silent: tuple[tuple[str, datetime], ...]
    at: datetime


_NAMED = 5

MOST_LISTED = 10_000
"""How many dead letters of one workflow are listed at once."""

LATE_AFTER = timedelta(minutes=1)
"""Work that has been due for longer than this is late."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The rows that are counted; by default all."""

    queues: Callable[[BaseDatabaseWrapper], list[QueueState]] = reads.due_by_queue
    turns: Callable[[BaseDatabaseWrapper], list[QueueState]] = reads.turns_due_by_queue
    counts: Callable[[BaseDatabaseWrapper], dict[str, int]] = reads.counts


def health(readings: Readings | None = None) -> Health:
    """Looks at queues, workers, leases and blocked workflows. Raises what the database raised."""
    read = readings or Readings()
    at = transaction.reading(clock.database_now)
    states = transaction.reading(read.queues)
    counts = transaction.reading(read.counts)
    beats = transaction.reading(reads.workers)
    alive = [(name, queues) for name, queues, beat_at, _ in beats if at - beat_at <= 2 * settings.lease_for]
    problems = [
        f"Worker {name} has lost its wake-up channel and finds work by polling."
        for name, _, beat_at, wakes_by in beats
        if wakes_by == WakesBy.LOST.value and at - beat_at <= 2 * settings.lease_for
    ]
    silent = [(name, queues, beat_at) for name, queues, beat_at, _ in beats if at - beat_at > 2 * settings.lease_for]
    turns = transaction.reading(read.turns)
    unserved = []
    for state in _together(states, turns):
        if not any(_serves(queues, state) for _, queues in alive):
            unserved.append(state)
            late = _span(at - state.oldest_due)
            held_up = [
                f"{name} for {_span(at - beat_at)}" for name, queues, beat_at in silent if _serves(queues, state)
            ]
            problems.append(
                f"No live worker for queue {state.queue!r}: {_count(state.due)} due, the oldest for {late}."
                + (
                    f" Silent: {_listed(held_up)}; such a worker waits for the database, or has died."
                    if held_up
                    else ""
                )
            )
    without = {state.queue for state in unserved}
    for state in states:
        if state.queue not in without and at - state.oldest_due > LATE_AFTER:
            late = _span(at - state.oldest_due)
            problems.append(f"Queue {state.queue!r} is behind: the oldest due row has waited {late}.")
    for state in turns:
        if state.queue not in without and at - state.oldest_due > LATE_AFTER:
            late = _span(at - state.oldest_due)
            text = f"{_count(state.due)} can run and are not turned, the first for {late}."
            problems.append(f"Workflows of queue {state.queue!r} wait: {text}")
    if counts["blocked"]:
        problems.append(f"Blocked workflows: {_count(counts['blocked'])}. Deploy fitting code, or unblock them.")
    if counts["failed"]:
        problems.append(
            f"Workflows that failed or timed out within a day: {_count(counts['failed'])}. "
            "`manage.py durable list --status failed` (or timed_out) lists them, `durable show ID` says why."
        )
    if counts["dead_letters"]:
        problems.append(
            f"Dead letters: {_count(counts['dead_letters'])}. `manage.py durable deadletters` lists them; redrive or "
            "discard each."
        )
    if counts["expired"]:
        problems.append(f"Deliveries whose lease has run out and which no worker has taken up: {counts['expired']}.")
    return Health(
        problems=tuple(problems),
        queues=tuple(states),
        turns=tuple(turns),
        workers=tuple(name for name, _ in alive),
        blocked=counts["blocked"],
        failed=counts["failed"],
        dead_letters=counts["dead_letters"],
        expired=counts["expired"],
        unserved=tuple(unserved),
        silent=tuple((name, beat_at) for name, _, beat_at in silent),
        at=at,
    )


def _serves(queues: Sequence[str], state: QueueState) -> bool:
    return not queues or state.queue in queues


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _together(*parts: Sequence[QueueState]) -> list[QueueState]:
    """The due work by queue."""
    by_queue: dict[str, QueueState] = {}
    for state in (state for part in parts for state in part):
        there = by_queue.get(state.queue, QueueState(state.queue, 0, state.oldest_due))
        by_queue[state.queue] = QueueState(state.queue, there.due + state.due, min(there.oldest_due, state.oldest_due))
    return [by_queue[queue] for queue in sorted(by_queue)]


def _count(number: int) -> str:
    return f"{reads.COUNT_CAP:,}+" if number >= reads.COUNT_CAP else f"{number:,}"


def _span(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def dead_letters(workflow_id: uuid.UUID, *, limit: int = MOST_LISTED, after: RowSnapshot | None = None) -> DeadLetters:
    """The dead letters of a workflow's current run, oldest first; `failure_delivered` says which are judged.

    `MOST_LISTED` at most; `more` says whether there are others, which follow with the last row as `after`. Reads no
    payloads. Raises `OptionInvalid`.
    """
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_LISTED:
        raise OptionInvalid("limit", limit, f"a whole number from 1 to {MOST_LISTED:,}")
    behind = None
    if after is not None:
        if after.dead_lettered_at is None:
            raise OptionInvalid("after", after, "a row of the list, which is a dead letter")
        behind = (after.dead_lettered_at, after.pk)
    letters = dead_letters_matching(DeadLetterFilter(workflow_id=workflow_id), limit=limit + 1, after=behind)
    return DeadLetters(tuple(letters[:limit]), more=len(letters) > limit)


def dead_letters_matching(
    wanted: DeadLetterFilter,
    *,
    limit: int,
    after: tuple[datetime, int] | None = None,
    within: redrives.Within | None = None,
) -> list[RowSnapshot]:
    """At most `limit` of the dead letters that match, oldest first, after a (dead-lettered at, id), among the rows
    `within`, or among all. Raises `OptionInvalid` for an invalid filter.
    """
    selecting.check(wanted)
    return transaction.reading(partial(redrives.dead_letters, wanted=wanted, limit=limit, after=after, within=within))


def places_matching(wanted: DeadLetterFilter, *, limit: int, within: redrives.Within) -> list[Place]:
    """The same, as places only, for checking the gates of many."""
    selecting.check(wanted)
    places = transaction.reading(partial(redrives.places, wanted=wanted, limit=limit, within=within))
    return [Place(*each) for each in places]


def naming(row_ids: Sequence[int]) -> dict[int, Naming]:
    """The business key and the first line of the last error of outbox rows, by id."""
    return transaction.reading(partial(names.naming, row_ids=row_ids)) if row_ids else {}


def workers_of(queue: str) -> tuple[str, ...]:
    """Names of the workers that serve a queue and have recently sent a heartbeat."""
    at = transaction.reading(clock.database_now)
    beats = transaction.reading(reads.workers)
    return tuple(
        name
        for name, queues, beat_at, _ in beats
        if at - beat_at <= 2 * settings.lease_for and (not queues or queue in queues)
    )
