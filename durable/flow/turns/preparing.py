"""What a batch of turns needs before its transaction: executions from memory, and replays of what is not there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.errors import HistoryFull, NewerEngine, NonDeterminism, NotRegistered, PoisonTurn, WorkflowBlocked
from durable.flow.turns.choosing import Choice
from durable.kernel.definitions.options import Terms
from durable.kernel.definitions.registry import registry
from durable.kernel.history import effective
from durable.kernel.history.events import Event
from durable.kernel.replay.cache import Cache
from durable.kernel.replay.execution import Execution, Limits
from durable.kernel.texts.failure import interrupts, sentence
from durable.metrics import counting, series
from durable.outcomes import WorkflowStatus
from durable.store.runs import history, patches, workflows
from durable.store.runs.workflows import LockedWorkflow, Turnable

Announce = Callable[[uuid.UUID | None], None]


@dataclass(frozen=True, slots=True)
class Announcements:
    """Gets the workflow whose code `runs` now, and whose payloads or history are being read (`reads`); `None`
    afterwards.

    If the process dies while it reads or runs, the workflow's id stays there. If several are read at once, it is the
    largest.
    """

    runs: Announce
    reads: Announce


_COLD_EVENTS = 20_000
_COLD_BYTES = 16 * 1024 * 1024
"""Histories that are read at once are no longer than this together; one that is longer is read alone."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why a workflow is not for this process, but for one with newer code or a newer engine, and since when that is
    recorded.
    """

    error: WorkflowBlocked
    since: datetime


@dataclass(slots=True)
class Batch:
    """The working set of one call. Executions in here belong to it until the commit."""

    executions: dict[uuid.UUID, Execution] = field(default_factory=dict)
    blocked_by: dict[uuid.UUID, WorkflowBlocked] = field(default_factory=dict)
    started: dict[uuid.UUID, Event] = field(default_factory=dict)
    seen: dict[uuid.UUID, int] = field(default_factory=dict)
    unknown: dict[uuid.UUID, Unknown] = field(default_factory=dict)
    overran: list[uuid.UUID] = field(default_factory=list)
    ran: set[uuid.UUID] = field(default_factory=set)
    """Those whose code has run on what is due: in memory only as far as that is written."""
    terms: dict[str, Terms] = field(default_factory=dict)
    used_at: dict[uuid.UUID, datetime] = field(default_factory=dict)
    """The time of the last event of those that were replayed."""
    replayed: bool = False
    """Whether code has run on a history, which takes time."""
    missed: list[uuid.UUID] = field(default_factory=list)
    """Those that another session has locked."""

    def drop(self, cache: Cache) -> None:
        """Closes every execution that is still in here, and takes it from the cache."""
        for owner, execution in self.executions.items():
            cache.drop(owner)
            execution.close()
        self.executions.clear()


def prepare(
    connection: BaseDatabaseWrapper,
    cache: Cache,
    candidates: list[uuid.UUID],
    choice: Choice,
    limit: int,
    batch: Batch,
    announce: Announcements,
) -> Turnable:
    """Fetches the executions of the candidates, from the cache or by replay; returns their rows.

    Drops from `candidates` those that are left to others, all but one if that one has to be turned alone, and those
    beyond `limit`, or beyond what one batch should replay.
    """
    looked_at = workflows.look_for_turn(connection, candidates)
    looked = looked_at.workflows
    suspected = {workflow.id for workflow in looked.values() if workflow.poison_turns}
    if candidates[0] in suspected:
        del candidates[1:]
    elif suspected:
        candidates[:] = [owner for owner in candidates if owner not in suspected]
    rows = [looked.get(owner) for owner in candidates]
    turnable = [(row, _warm(cache, row)) for row in rows if row is not None and is_turnable(row)]
    begun = [workflow.id for workflow, execution in turnable if execution is None and workflow.history_events > 1]
    left = choice.leave(begun, of=len(candidates))
    if left:
        candidates[:] = [owner for owner in candidates if owner not in left]
    if left or len(candidates) > limit:
        del candidates[limit:]
        chosen = set(candidates)
        turnable = [(workflow, execution) for workflow, execution in turnable if workflow.id in chosen]
    sizes = _sizes(connection, [workflow for workflow, execution in turnable if execution is None])
    room = settings.room
    cold: list[LockedWorkflow] = []
    events = size = 0
    for workflow, execution in turnable:
        if execution is not None:
            batch.executions[workflow.id] = execution
            batch.seen[workflow.id] = workflow.last_seq
            continue
        length = sizes[workflow.id]
        if length > room.last_byte:
            batch.seen[workflow.id] = workflow.last_seq
            batch.blocked_by[workflow.id] = HistoryFull(room.words(workflow.history_events, length))
        elif cold and (events + workflow.history_events > _COLD_EVENTS or size + length > _COLD_BYTES):
            candidates.remove(workflow.id)  # stays due, and comes first in a later batch
        else:
            events += workflow.history_events
            size += length
            cold.append(workflow)
    if cold:
        announce.reads(max(cold, key=lambda workflow: sizes[workflow.id]).id)
        _replay_all(connection, cold, batch, announce)
    return looked_at


def _sizes(connection: BaseDatabaseWrapper, cold: Sequence[LockedWorkflow]) -> dict[uuid.UUID, int]:
    """How long the histories of these are, in bytes. A statement more for those that were never counted."""
    uncounted = [workflow.id for workflow in cold if not workflow.history_bytes]
    counted = history.sizes(connection, uncounted) if uncounted else {}
    return {workflow.id: workflow.history_bytes or counted.get(workflow.id, 0) for workflow in cold}


def _warm(cache: Cache, workflow: LockedWorkflow) -> Execution | None:
    """The execution in memory, if it matches the history; otherwise it is closed."""
    execution = cache.get(workflow.id)
    if execution is not None and (execution.last_seq, execution.run) == (workflow.last_seq, workflow.run):
        counting.add(series.CACHE_HITS)
        return execution
    cache.drop(workflow.id)
    return None


def _replay_all(
    connection: BaseDatabaseWrapper, cold: Sequence[LockedWorkflow], batch: Batch, announce: Announcements
) -> None:
    histories = history.read_runs(connection, [workflow.id for workflow in cold])
    announce.reads(None)
    for workflow in cold:
        newer = histories.newer.get(workflow.id)
        if newer is not None:
            batch.unknown[workflow.id] = Unknown(NewerEngine(newer.words), newer.recorded_at)
            continue
        events = histories.events.get(workflow.id, [])
        problem = histories.unreadable.get(workflow.id)
        if problem is None and (not events or events[-1].seq < workflow.last_seq):
            problem = f"it ends at event {events[-1].seq if events else 0}, not at {workflow.last_seq}"
        if problem is None:
            _replay(workflow, events, batch, announce)
        else:
            batch.seen[workflow.id] = workflow.last_seq
            batch.blocked_by[workflow.id] = WorkflowBlocked(f"The history cannot be replayed: {problem}.")
    _name_patches(connection, batch)


def _name_patches(connection: BaseDatabaseWrapper, batch: Batch) -> None:
    """Tells those whose code differs from their history of patches that were removed too early. One statement, if there
    are any.
    """
    differing = {owner: error for owner, error in batch.blocked_by.items() if isinstance(error, NonDeterminism)}
    for owner, old_ways in (patches.old_ways(connection, differing) if differing else {}).items():
        forgotten = [id for id in old_ways if id not in batch.executions[owner].patches.answers]
        batch.blocked_by[owner] = differing[owner].naming(forgotten)


def is_turnable(workflow: LockedWorkflow) -> bool:
    """Live, running, and not marked as blocked, unless a deploy has offered it again."""
    if workflow.status is not WorkflowStatus.RUNNING:
        return False
    return not workflow.blocked_reason or workflow.blocked_version == ""


def _replay(workflow: LockedWorkflow, events: Sequence[Event], batch: Batch, announce: Announcements) -> None:
    batch.started[workflow.id] = events[0]
    try:
        definition = registry.workflow(workflow.type)
    except NotRegistered:
        error = WorkflowBlocked(f"No workflow named {workflow.type!r} is registered.")
        batch.unknown[workflow.id] = Unknown(error, events[0].recorded_at)
        return
    execution = Execution.begin(
        definition,
        workflow_id=workflow.id,
        run=workflow.run,
        key=workflow.key,
        codec=settings.codec(),
        limits=Limits(
            cpu_for=settings.turn_cpu_for,
            max_events=settings.max_history_events,
            max_key_length=settings.max_key_length,
        ),
        cpu_clock=time.thread_time,
    )
    batch.executions[workflow.id] = execution
    batch.seen[workflow.id] = events[-1].seq
    batch.used_at[workflow.id] = events[-1].recorded_at
    try:
        if effective.of_history(events, run=workflow.run).has_begun:
            announce.runs(workflow.id)
            counting.add(series.REPLAYS)
            batch.replayed = True
            execution.replay(events)
    except WorkflowBlocked as error:
        batch.blocked_by[workflow.id] = error
    except PoisonTurn:
        batch.overran.append(workflow.id)
    # Known reasons why a history cannot be replayed are handled above. Any other error also belongs to this history,
    # and must not keep the other workflows from their turns, even if it is a SystemExit.
    except BaseException as error:
        if interrupts(error):
            raise
        batch.blocked_by[workflow.id] = unexpected(workflow, error)
    finally:
        announce.runs(None)


def unexpected(workflow: LockedWorkflow, error: BaseException) -> WorkflowBlocked:
    """An error that no user code raised: of a damaged payload or event, or our own."""
    blocked = WorkflowBlocked(f"Its history or its messages cannot be read: {sentence(error)}")
    blocked.__cause__ = error
    return blocked
