"""`replay`: an exported history against today's code, here and in fresh processes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from durable.conf import settings
from durable.errors import CodeRaised, NonDeterminism
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.kernel.definitions.registry import registry
from durable.kernel.history import effective
from durable.kernel.history.events import CLOSING, Event, EventType
from durable.kernel.payloads import birthplace
from durable.kernel.replay.execution import Execution, Limits
from durable.testing import fresh, histories
from durable.testing.histories import Source
from durable.testing.watch import watching

HASH_SEEDS = (1, 2)
_SLOWER = 20
"""How much longer watched code takes at most; the limit of CPU time grows by the same factor."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A history that the current code reproduces.

    `drift` counts calls that the code makes in another order than recorded within one activation, which the engine
    accepts. `closed` is the event that ended the workflow, None while it is live.
    """

    workflow_id: uuid.UUID
    type: str
    events: int
    drift: int
    closed: EventType | None


def replay(
    history: Source, workflow: WorkflowDefinition[Any, Any] | None = None, *, hash_seeds: Sequence[int] = HASH_SEEDS
) -> Replayed:
    """Replays an exported history (dictionary, JSON text or path) against the current code, and raises if they differ.

    Replays in this process, and then in a fresh one for each of `hash_seeds` (its `PYTHONHASHSEED`), where module state
    is empty and sets have another order. `workflow` is the code, by default the registered workflow of the history's
    type. Writes nothing and needs no database. The result or error of the code is compared as well.

    Raises `NonDeterminism` (or `WorkflowBlocked` if the code cannot continue for another reason), the code's own error
    if it is one of its `blocks_on` and the history records no failure there, `Impure` for a use of
    a clock, randomness, files, the network or threads, even if it changed nothing this time, and `NotReplayable` if
    there is nothing to replay, or a fresh process cannot find the code.
    """
    return replay_all([history], workflow, hash_seeds=hash_seeds)[0]


def replay_all(
    sources: Sequence[Source],
    workflow: WorkflowDefinition[Any, Any] | None = None,
    *,
    hash_seeds: Sequence[int] = HASH_SEEDS,
) -> list[Replayed]:
    """As `replay`, for many histories: they share the fresh processes. The error's note names the history."""
    read = [histories.read(source) for source in sources]
    definitions = [workflow or registry.workflow(history.type) for history in read]
    answers = []
    for history, definition in zip(read, definitions, strict=True):
        try:
            answers.append(replay_here(history.exported, definition))
        except Exception as error:
            error.add_note(f"While replaying {history.origin}.")
            raise
    jobs = [fresh.job(history, definition) for history, definition in zip(read, definitions, strict=True)]
    for seed in hash_seeds:
        fresh.replay(jobs, hash_seed=seed)
    return answers


def replay_here(history: Source, workflow: WorkflowDefinition[Any, Any] | None = None) -> Replayed:
    """As `replay`, in this process only: for code that no other process can import."""
    try:
        return replayed(history, workflow)
    except CodeRaised as blocked:
        bug = blocked.error
    raise bug


def replayed(history: Source, workflow: WorkflowDefinition[Any, Any] | None = None) -> Replayed:
    """As `replay_here`; an error of the code that is one of its `blocks_on` is within a `CodeRaised`."""
    read = histories.read(history)
    definition = workflow or registry.workflow(read.type)
    counting = effective.of_history(read.events, run=read.run)
    closed = next((event.type for event in counting.events if event.type in CLOSING), None)
    drift = 0
    if counting.has_begun:
        with unfed(definition, workflow_id=read.workflow_id, run=read.run, key=read.key) as execution:
            with watching():
                execution.replay(read.events)
            _compare_ends(execution, read.events[-1])
            drift = execution.drift
    return Replayed(read.workflow_id, read.type, len(read.events), drift, closed)


@contextmanager
def unfed(
    definition: WorkflowDefinition[Any, Any], *, workflow_id: uuid.UUID, run: int, key: str | None
) -> Iterator[Execution]:
    """An execution of a workflow's code, ready for its history; closed at the end of the block."""
    cpu_for = settings.turn_cpu_for
    execution = Execution.begin(
        definition,
        workflow_id=workflow_id,
        run=run,
        key=key,
        codec=settings.codec(),
        limits=Limits(cpu_for=None if cpu_for is None else cpu_for * _SLOWER, max_events=settings.max_history_events),
        cpu_clock=time.thread_time,
    )
    try:
        yield execution
    finally:
        execution.close()


def _compare_ends(execution: Execution, last: Event) -> None:
    """The engine compares only how a workflow ends; a test also compares its result or error."""
    main = execution.loop.main
    if main is None or not main.done() or main.cancelled():
        return
    error = main.exception()
    if last.type is EventType.WORKFLOW_COMPLETED and error is None:
        codec, hint = execution.codec, execution.definition.result_hint
        # As JSON natives: a codec may write the same value differently each time.
        born = birthplace.result(execution.workflow_id, None)
        written = codec.encode(main.result(), hint, path="result", birthplace=born)
        asked = codec.decode(written, Any, path="result", birthplace=born)
        recorded = codec.decode(last.data["result"], Any, path="result", birthplace=born)
        if asked != recorded:
            raise NonDeterminism(position=last.seq, recorded=f"the result {recorded!r}", asked=f"the result {asked!r}")
