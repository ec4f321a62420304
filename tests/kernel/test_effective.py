"""Which events of a history count, and whose numbers the generator gives in each run."""

from __future__ import annotations

import json
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.errors import HistoryFull, WorkflowBlocked
from durable.kernel.history import effective
from durable.kernel.history.commands import ScheduleActivity
from durable.kernel.history.events import Event, EventType
from durable.kernel.replay.execution import Limits
from tests.kernel.harness import EPOCH, begun, echo, record, replayed

INPUT = {"input": "{}"}


def events(*types: EventType | tuple[EventType, dict[str, Any]], first: int = 1) -> list[Event]:
    made = []
    for seq, it in enumerate(types, start=first):
        type, data = it if isinstance(it, tuple) else (it, {})
        made.append(Event(seq, type, data, EPOCH))
    return made


STARTED, BEGUN, SIGNAL = EventType.WORKFLOW_STARTED, EventType.WORKFLOW_BEGUN, EventType.SIGNAL_RECEIVED
FAILED, PAUSED = EventType.WORKFLOW_FAILED, EventType.WORKFLOW_PAUSED


def reopened(keeps: Any) -> tuple[EventType, dict[str, Any]]:
    return EventType.WORKFLOW_REOPENED, {"keeps": keeps}


def seqs(history: list[Event], run: int) -> list[tuple[int, int]]:
    """What counts, each with the run in which it was recorded."""
    counting = effective.of_history(history, run=run)
    return [(event.seq, counting.run_of(event.seq)) for event in counting.events]


def test_all_of_a_history_of_one_run_counts() -> None:
    assert seqs(events(STARTED, BEGUN, PAUSED, SIGNAL), 1) == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_what_stands_before_the_last_start_does_not_count_whether_or_not_it_was_read() -> None:
    whole = events(STARTED, BEGUN, SIGNAL, STARTED, BEGUN, STARTED, SIGNAL)
    assert seqs(whole, 3) == seqs(whole[5:], 3) == [(6, 3), (7, 3)]


def test_of_a_reopened_history_counts_what_is_kept_and_all_that_came_then() -> None:
    once = events(STARTED, BEGUN, SIGNAL, SIGNAL, FAILED, reopened([[1, 3]]), SIGNAL)
    assert seqs(once, 2) == [(1, 1), (2, 1), (3, 1), (6, 2), (7, 2)]
    twice = [*once, *events(SIGNAL, FAILED, reopened([[1, 3], [6, 7]]), SIGNAL, first=8)]
    assert seqs(twice, 3) == [(1, 1), (2, 1), (3, 1), (6, 2), (7, 2), (10, 3), (11, 3)]
    deeper = [*once, *events(FAILED, reopened([[1, 2]]), first=8)]
    assert seqs(deeper, 3) == [(1, 1), (2, 1), (9, 3)]


def test_a_reopening_of_an_earlier_history_keeps_nothing_of_this_one() -> None:
    whole = events(STARTED, BEGUN, FAILED, reopened([[1, 2]]), STARTED, SIGNAL)
    assert seqs(whole, 3) == [(5, 3), (6, 3)]


@pytest.mark.parametrize("keeps", [3, "1-2", [[1]], [["a", 2]], [1, 2], {"1": 2, "b": 3}])
def test_a_reopening_that_does_not_say_what_it_keeps_blocks(keeps: Any) -> None:
    with pytest.raises(WorkflowBlocked, match="event 4 reopens it"):
        effective.of_history(events(STARTED, BEGUN, FAILED, reopened(keeps)), run=2)


def test_undone_activations_do_not_count_as_a_beginning() -> None:
    assert effective.of_history(events(STARTED, SIGNAL), run=1).has_begun
    assert not effective.of_history(events(STARTED, PAUSED), run=1).has_begun
    assert not effective.of_history(events(STARTED, SIGNAL, FAILED, reopened([[1, 1]])), run=2).has_begun


def test_the_run_at_the_end_counts_starts_and_reopenings() -> None:
    assert effective.run_at_end(events(STARTED, BEGUN, FAILED, reopened([[1, 2]]), STARTED, SIGNAL)) == 3


# --- the generator --------------------------------------------------------------------------------------------------


async def drawing() -> None:
    """Each call shows two draws: one that asks for the generator, and one of a generator that is held throughout."""
    held = durable.rng()
    for _ in range(9):
        await echo.execute([str(durable.uuid4()), held.random()])


class Story:
    """A workflow whose activities end one by one, and which is reopened in between."""

    def __init__(self) -> None:
        self.history: list[Event] = []
        self.drawn: list[Any] = []
        self.run = 1
        self.go_on(STARTED, INPUT, None)

    def go_on(self, type: EventType, data: dict[str, Any], ordinal: int | None) -> None:
        """The next input, for an execution that has replayed everything first."""
        execution = begun(drawing, run=self.run)
        if self.history:
            execution.replay(self.history)
        event = Event(len(self.history) + 1, type, data, EPOCH, ordinal)
        (command,) = execution.activate(event).commands
        assert isinstance(command, ScheduleActivity)
        self.drawn.append(json.loads(command.payload)["value"])
        self.history += [event, record(command, event.seq + 1, EPOCH)]
        execution.close()

    def done(self, ordinal: int) -> Any:
        """The result of this activity, and what the code draws then."""
        self.go_on(EventType.ACTIVITY_COMPLETED, {"result": "1"}, ordinal)
        return self.drawn[-1]

    def reopen(self, *keeps: list[int]) -> None:
        """Everything else is undone."""
        self.run += 1
        type, data = reopened([*keeps])
        self.history.append(Event(len(self.history) + 1, type, data, EPOCH))

    def replay(self) -> None:
        """A fresh execution draws what is recorded, or it raises."""
        execution = replayed(drawing, self.history, run=self.run)
        assert execution.drift == 0
        assert execution.last_seq == len(self.history)
        execution.close()


def test_the_kept_part_draws_what_it_drew_and_what_comes_then_draws_other_numbers() -> None:
    story = Story()  # events 1, 2
    story.done(1)  # 3, 4
    undone = story.done(2)  # 5, 6
    story.reopen([1, 4])  # 7
    story.replay()
    again = story.done(2)  # 8, 9
    assert again[0] != undone[0], "a UUID that was out already is not given a second time"
    assert again[1] != undone[1], "nor by a generator that the code has held since before"
    story.done(3)  # 10, 11
    story.replay()
    story.reopen([1, 4], [7, 9])  # 12: undoes the last one only
    story.replay()
    third = story.done(3)
    story.done(4)
    story.replay()
    assert third[0] not in {draw[0] for draw in story.drawn[:-2]}
    assert len({draw[0] for draw in story.drawn}) == len({draw[1] for draw in story.drawn}) == len(story.drawn)


def test_a_live_execution_goes_on_with_the_numbers_that_a_replay_will_draw() -> None:
    """It was there throughout, and its generator was used before the run began."""
    story = Story()
    story.done(1)
    story.reopen([1, 4])
    warm = begun(drawing, run=2)
    warm.replay(story.history)
    for ordinal in (2, 3):
        event = Event(warm.last_seq + 1, EventType.ACTIVITY_COMPLETED, {"result": "1"}, EPOCH, ordinal)
        (command,) = warm.activate(event).commands
        story.history += [event, record(command, event.seq + 1, EPOCH)]
    warm.close()
    story.replay()


def test_a_new_start_draws_numbers_of_its_own_run() -> None:
    story = Story()
    first = story.drawn[0]
    earlier, story.history = story.history, []
    story.run = 2
    execution = begun(drawing, run=2)
    started = Event(3, STARTED, INPUT, EPOCH)
    (command,) = execution.activate(started).commands
    assert isinstance(command, ScheduleActivity)
    assert json.loads(command.payload)["value"] != first
    execution.close()
    story.history = [*earlier, started, record(command, 4, EPOCH)]
    story.replay()


# --- limits ---------------------------------------------------------------------------------------------------------


def test_the_limit_of_events_counts_those_that_count() -> None:
    """Of 41 events, 38 stand before the start, or are undone."""
    limits = Limits(cpu_for=None, max_events=9)
    story = Story()
    for ordinal in range(1, 4):
        story.done(ordinal)  # to event 8
    undone = list(story.history)
    for _ in range(11):
        story.reopen([1, 4])
    execution = replayed(drawing, story.history, run=story.run, limits=limits)
    event = Event(len(story.history) + 1, EventType.ACTIVITY_COMPLETED, {"result": "1"}, EPOCH, 2)
    execution.activate(event)  # 4 kept, the last reopening, and these two
    execution.close()
    fresh = begun(drawing, run=2, limits=limits)
    fresh.activate(Event(41, STARTED, INPUT, EPOCH))
    fresh.close()
    full = replayed(drawing, undone, limits=limits)
    with pytest.raises(HistoryFull, match="it would reach 10 events, more than the limit of 9"):
        full.activate(Event(9, EventType.ACTIVITY_COMPLETED, {"result": "1"}, EPOCH, 4))
    full.close()
