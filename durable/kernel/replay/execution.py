"""One run of a workflow's code in memory: events go in, commands come out.

Every decision is made per activation, that is per input event: set the time, feed the event, run until nothing is
ready, collect the commands. Replay does the same with the history's own events, and compares.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from durable.errors import CodeRaised, HistoryFull, NonDeterminism, PoisonTurn
from durable.kernel.codec import Codec
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.kernel.definitions.options import OUTLIVE
from durable.kernel.history import effective
from durable.kernel.history.commands import Command, ScheduleActivity, SendSignal, StartChild
from durable.kernel.history.events import INPUTS, RECORDS, Event, EventType
from durable.kernel.history.room import FULL, Room
from durable.kernel.limits import DEFAULT_KEY_LENGTH
from durable.kernel.loop import closing
from durable.kernel.loop.event_loop import WorkflowLoop
from durable.kernel.loop.futures import ActivityFuture, Child, Sending
from durable.kernel.loop.stack import on_shallow_stack
from durable.kernel.loop.timers import Timer
from durable.kernel.replay.activations import began_at, is_from_outside, records_from
from durable.kernel.replay.calls import CALLS, Call, Calls
from durable.kernel.replay.child_ids import ChildIds
from durable.kernel.replay.feeding import ending, feed
from durable.kernel.replay.mailbox import Mailbox
from durable.kernel.replay.matching import Wanted, match, unreadable, words_of_record
from durable.kernel.replay.patches import Patches
from durable.outcomes import Failure

_EMPTY_WEIGHT = 4_096
_FUTURE_WEIGHT = 700
_TASK_WEIGHT = 1_800
_TIMER_WEIGHT = 500


@dataclass(frozen=True, slots=True)
class Limits:
    """`cpu_for`: CPU time of one activation, None for no limit. `max_events`: events of one history. `max_key_length`:
    of the keys of children.
    """

    cpu_for: timedelta | None
    max_events: int
    max_key_length: int = DEFAULT_KEY_LENGTH


@dataclass(frozen=True, slots=True)
class Activation:
    """The result of one input event. `log` has what the loop's exception handler caught."""

    commands: tuple[Command, ...]
    log: tuple[Failure, ...] = ()


_STARTED = EventType.WORKFLOW_STARTED


class Awaits(StrEnum):
    """Whether the outcome of an activity is still to be fed."""

    OPEN = "open"
    DECIDED = "decided"
    UNKNOWN = "unknown"


class Execution:
    """A workflow's code, suspended between its turns. Close it before dropping it: see `close`.

    After an error of `replay` or `activate` it cannot be used and has to be closed.
    """

    __slots__ = (
        "_bytes",
        "_cpu_clock",
        "_cpu_seconds",
        "_left_out",
        "_max_events",
        "_rng",
        "calls",
        "cancel_reason",
        "codec",
        "definition",
        "done",
        "drift",
        "failure_is_recorded",
        "fed_run",
        "key",
        "last_seq",
        "loop",
        "mailbox",
        "max_key_length",
        "parent_id",
        "patches",
        "run",
        "trace",
        "workflow_id",
    )  # fmt: skip

    def __init__(
        self,
        definition: WorkflowDefinition[Any, Any],
        *,
        workflow_id: uuid.UUID,
        run: int,
        key: str | None = None,
        codec: Codec,
        limits: Limits,
        cpu_clock: Callable[[], float],
    ) -> None:
        self.definition = definition
        self.workflow_id = workflow_id
        self.run = run
        self.key = key
        self.parent_id: uuid.UUID | None = None
        self.codec = codec
        self.loop = WorkflowLoop(workflow_id, self)  # type: ignore[abstract]  # what it refuses is set by name
        self.calls = Calls(self.loop, codec, ChildIds(workflow_id, run), limit=limits.max_events)
        self.mailbox = Mailbox(self.loop, self.calls, codec, workflow_id)
        self.patches = Patches(self.loop, self.calls)
        self.trace: Mapping[str, str] | None = None
        self.last_seq = 0
        self.done = False
        self.drift = 0
        self.failure_is_recorded = False
        self._bytes = 0
        self.cancel_reason: str | None = None
        self._left_out = 0
        self._rng: random.Random | None = None
        self.fed_run = run
        self._cpu_clock = cpu_clock
        self._cpu_seconds = None if limits.cpu_for is None else limits.cpu_for.total_seconds()
        self._max_events = limits.max_events
        self.max_key_length = limits.max_key_length

    @classmethod
    def begin(cls, definition: WorkflowDefinition[Any, Any], **of: Any) -> Execution:
        """A run that has seen no event yet. `cpu_clock` reads the CPU time of the calling thread, in seconds."""
        return cls(definition, **of)

    @property
    def rng(self) -> random.Random:
        """The random generator. Each run has its own sequence of numbers, from its first activation to its last."""
        if self._rng is None:
            self._rng = random.Random(f"{self.workflow_id}:{self.fed_run}")
        return self._rng

    @property
    def weight(self) -> int:
        """About how many bytes of memory this takes."""
        loop = self.loop
        return (
            _EMPTY_WEIGHT
            + _FUTURE_WEIGHT * len(self.calls.open)
            + _TASK_WEIGHT * len(loop.tasks)
            + _TIMER_WEIGHT * len(loop.timers)
            + self._bytes
            + self.mailbox.weight
        )

    @property
    def awaits_calls(self) -> bool:
        """Whether the outcome of any activity, child or sent signal is still to be fed."""
        return bool(self.calls.open)

    @property
    def now(self) -> datetime | None:
        """The time of the last input that was fed; None before the first."""
        return self.loop.now if self.loop.main is not None else None

    @property
    def cancel_requested(self) -> bool:
        """Whether a request to cancel was fed. Later requests are consumed without being fed."""
        return self.cancel_reason is not None

    # --- feeding --------------------------------------------------------------------------------------------------

    def replay(self, history: Sequence[Event]) -> None:
        """Feeds the events that count (`effective`), and compares the code's commands with the records. The history may
        begin before them.

        Raises `NonDeterminism`, `StackExhausted`, `CodeRaised`, `WorkflowBlocked`, `PoisonTurn`.
        """
        on_shallow_stack(self._replay, history)

    def activate(self, event: Event) -> Activation:
        """Feeds one new input event, whose `seq` follows `last_seq`, and returns the code's commands.

        Each command is one event: afterwards `last_seq` is the event's `seq` plus the number of commands. Raises
        `PoisonTurn`, `StackExhausted`, `CodeRaised`, `WorkflowBlocked`. Log lines of the code are emitted then, on this
        thread; they are dropped if the activation is rolled back (`PoisonTurn`, `CodeRaised`).
        """
        try:
            return on_shallow_stack(self._activate, event)
        except (CodeRaised, PoisonTurn):
            self.loop.lines.clear()
            raise
        finally:
            self.loop.say_lines()

    def awaits(self, ordinal: int) -> Awaits:
        """Whether the outcome of a call is to be fed (OPEN), or consumed without being fed (the others)."""
        if ordinal in self.calls.open:
            return Awaits.OPEN
        return Awaits.DECIDED if 0 < ordinal <= self.calls.last_ordinal else Awaits.UNKNOWN

    def call_of_child(self, child: uuid.UUID) -> int | None:
        """The ordinal of the call that started a child whose end is to be fed; None if it is only to be consumed."""
        call = self.calls.children.get(child)
        return None if call is None else call.ordinal

    def next_timer(self) -> Timer | None:
        """The pending timer that is due first, if any."""
        return self.loop.timers.earliest()

    def pending_timers(self) -> list[dict[str, Any]]:
        """The pending timers as plain JSON, for people. Infinite ones are left out."""
        return [{"id": list(timer.id), "due": timer.due.isoformat()} for timer in self.loop.timers]

    def unread_signals(self) -> tuple[str, ...]:
        """The names of signals that were received and not taken by the code, one for each."""
        return self.mailbox.unread()

    def close(self) -> None:
        """Evicts this, on the calling thread. The user's `finally` blocks may run; they can change nothing.

        Never raises because of them. Closing twice does nothing.
        """
        on_shallow_stack(closing.close, self.loop)
        self.calls.clear()
        self.mailbox.clear()

    def _activate(self, event: Event) -> Activation:
        if self.done or (self.last_seq and event.seq != self.last_seq + 1):
            raise ValueError(f"Event {event.seq} cannot follow event {self.last_seq} of workflow {self.workflow_id}.")
        if event.type is _STARTED:
            self._left_out = event.seq - 1
        with self.loop.turn:
            commands = tuple([self._command(command) for command in self._run(event)])
            self.last_seq = event.seq + len(commands)
        limit = self._max_events if self.cancel_reason is None else Room(self._max_events, 1).last_event
        events = self.last_seq - self._left_out
        if events > limit and not self.done:
            raise HistoryFull(
                f"{FULL}it would reach {events:,} events, more than the limit of {limit:,} "
                "(DURABLE['MAX_HISTORY_EVENTS']).",
                {"events": events, "limit": limit},
            )
        return Activation(commands, self._log())

    def _replay(self, history: Sequence[Event]) -> None:
        if self.last_seq:
            raise ValueError(f"The history of workflow {self.workflow_id} was fed already.")
        counting = effective.of_history(history, run=self.run)
        events = counting.events
        self.loop.replaying = True
        with self.loop.turn:
            at = 0
            while at < len(events) and not self.done:
                self._enter(counting.run_of(events[at].seq))
                at = self._replay_activation(events, at)
            if self.done:
                closing.close(self.loop)
        self.loop.replaying = False
        self._enter(self.run)
        if history:
            self.last_seq = history[-1].seq
            self._left_out = self.last_seq - len(events)

    def _enter(self, run: int) -> None:
        """What comes next was, or will be, recorded in this run. A generator that the code holds goes over to it."""
        if run != self.fed_run:
            self.fed_run = run
            self.calls.child_ids.enter(run)
            self.patches.enter()
            if self._rng is not None:
                self._rng.seed(f"{self.workflow_id}:{run}")

    def _replay_activation(self, history: Sequence[Event], at: int) -> int:
        """Feeds the event at this index with its records; returns the index of the next event."""
        event = history[at]
        at += 1
        kind = event.type
        if kind in INPUTS:
            if kind is _STARTED:
                began = began_at(history, at)
                if began is None:
                    self.done = True  # it was ended before its first turn: its code never ran
                    return at
                event = replace(event, recorded_at=began)
            records, at = records_from(history, at)
            self.mailbox.known_unreadable = unreadable(records)
            self.calls.child_ids.expect(records)
            self.patches.expect(records)
            self.failure_is_recorded = any(record.type is EventType.WORKFLOW_FAILED for record in records)
            asked = self._run(event)
            self.failure_is_recorded = False
            self.mailbox.known_unreadable = {}
            self.calls.child_ids.expect(())
            matched, drift = match(asked, records, after=event.seq)
            self.drift += drift
            for command, record in zip(asked, matched, strict=True):
                if type(command) is Child:
                    # Code that makes one call more or less than it did, and withdraws it, counts otherwise.
                    command.id = uuid.UUID(record.data["child"])
                if type(command) in CALLS:
                    self.calls.number(command, record.ordinal or 0)  # type: ignore[arg-type]
        elif is_from_outside(event):
            self.done = True
        elif kind in RECORDS:
            raise NonDeterminism(position=event.seq, recorded=words_of_record(event), asked="nothing before its start")
        return at

    def _run(self, event: Event) -> list[Wanted]:
        loop = self.loop
        if loop.main is None:
            loop.start(event.recorded_at)
        loop.set_now(event.recorded_at)
        loop.activation = event.seq
        self._bytes += feed(self, event)
        loop.run(self._cpu_clock, self._cpu_seconds)
        if loop.halted is not None:
            raise loop.halted
        asked: list[Wanted] = list(self.calls.harvest())
        if loop.main is not None and (loop.exit is not None or loop.main.done()):
            self.done = True
            # Nobody awaits these calls any more. What others are to do without this workflow is done all the same.
            kept = [command for command in asked if not _is_dropped(command)]
            end = ending(self, tuple(_called(command) for command in asked if _is_dropped(command)))
            closing.close(loop)
            return [*kept, end]
        loop.timers.make_durable(event.seq)
        return asked

    def _command(self, asked: Wanted) -> Command:
        if type(asked) not in CALLS:
            return asked  # type: ignore[return-value]
        call: Call = asked  # type: ignore[assignment]
        payload = call.payload
        self.calls.number(call, self.calls.last_ordinal + 1)
        match call:
            case ActivityFuture():
                return ScheduleActivity(call.ordinal, call.activity, payload, call.digest, call.options)
            case Child():
                return StartChild(
                    call.ordinal, call.id, call.type, call.key, payload, call.digest, call.parent_close, call.options
                )
            case Sending():
                return SendSignal(
                    call.ordinal, call.to, call.type, call.key, call.name, payload, call.digest, call.is_awaited
                )

    def _log(self) -> tuple[Failure, ...]:
        problems = self.loop.problems
        if not problems:
            return ()
        self.loop.problems = []
        return tuple(problems)


def _is_dropped(asked: Wanted) -> bool:
    return type(asked) is ActivityFuture or (type(asked) is Child and asked.parent_close not in OUTLIVE)


def _called(asked: Wanted) -> str:
    return asked.activity if type(asked) is ActivityFuture else asked.type if type(asked) is Child else ""
