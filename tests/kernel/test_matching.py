"""Replay compares what the code asks for with what the history records, one activation at a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.errors import NonDeterminism
from durable.kernel.history.events import Event, EventType
from tests.kernel.harness import cancel, done, echo, fire, number, other, paused, play, replayed, signal


async def two() -> Any:
    return await asyncio.gather(echo.execute(1), other.execute(2))


async def swapped() -> Any:
    return (await asyncio.gather(other.execute(2), echo.execute(1)))[::-1]


async def first_only() -> Any:
    return await echo.execute(1)


async def three() -> Any:
    return await asyncio.gather(echo.execute(1), other.execute(2), number.execute(3))


async def other_arguments() -> Any:
    return await asyncio.gather(echo.execute(1), other.execute("changed"))


async def nothing() -> None:
    return


async def waits() -> None:
    await durable.wait_for_signal("n")


def told(code: Any, history: list[Event]) -> NonDeterminism:
    with pytest.raises(NonDeterminism) as caught:
        replayed(code, history)
    return caught.value


def test_order_that_changed_within_an_activation_is_drift_and_every_result_finds_its_call() -> None:
    history = play(two, done(1, "a"), done(2, "b")).history
    execution = replayed(swapped, history)
    assert execution.drift == 1
    assert execution.done
    assert history[-1].data["result"] == '["a","b"]'
    half = replayed(swapped, history[:3])
    end = half.activate(replace(history[3], seq=4))
    assert end.commands == ()
    (complete,) = half.activate(history[4]).commands
    assert complete.payload == '["a","b"]'  # type: ignore[union-attr]


def test_order_that_changed_between_activations_is_non_determinism() -> None:
    async def in_turn() -> None:
        await echo.execute(1)
        await other.execute(2)

    async def turned() -> None:
        await other.execute(2)
        await echo.execute(1)

    history = play(in_turn, done(1), done(2)).history
    error = told(turned, history)
    assert error.position == 2
    assert error.recorded.startswith("a call of tests.echo (activity 1")
    assert error.asked.startswith("a call of tests.other")


def test_equal_calls_are_told_apart_by_their_order() -> None:
    async def same() -> Any:
        return await asyncio.gather(*(echo.execute("same") for _ in range(3)))

    assert play(same, done(2, "b"), done(3, "c"), done(1, "a")).result == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("recorded_by", "code", "position", "recorded", "asked"),
    [
        (two, first_only, 3, "a call of tests.other (activity 2", "nothing"),
        (two, three, 4, "nothing more here", "a call of tests.number"),
        (two, other_arguments, 3, "a call of tests.other (activity 2", "a call of tests.other"),
        (two, nothing, 2, "a call of tests.echo", "the workflow's completion"),
        (two, waits, 2, "a call of tests.echo", "nothing"),
        (nothing, waits, 2, "the workflow's completion", "nothing"),
        (nothing, two, 2, "the workflow's completion", "a call of tests.echo"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_difference_is_told_with_position_recorded_and_asked(
    recorded_by: Any, code: Any, position: int, recorded: str, asked: str
) -> None:
    error = told(code, play(recorded_by).history)
    assert error.position == position
    assert error.recorded.startswith(recorded)
    assert error.asked.startswith(asked)
    assert error.data == {"position": position, "recorded": error.recorded, "asked": error.asked}


def test_changed_arguments_are_named_as_such_and_without_their_digests() -> None:
    """R5: changed inputs of an activity are a divergence."""
    error = told(other_arguments, play(two).history)
    assert error.recorded == "a call of tests.other (activity 2)"
    assert error.asked == "a call of tests.other with other arguments"


def test_failure_in_place_of_what_is_recorded_tells_the_error() -> None:
    async def broken() -> None:
        raise ValueError("a bug of today's code")

    assert told(broken, play(two).history).asked == "the workflow's failure with ValueError: a bug of today's code"


def test_cancellations_are_matched_as_well() -> None:
    async def limited() -> Any:
        try:
            async with asyncio.timeout(5):
                await echo.execute(1)
        except TimeoutError:
            pass
        return await other.execute(2)

    async def shielded() -> Any:
        try:
            async with asyncio.timeout(5):
                await asyncio.shield(echo.execute(1))
        except TimeoutError:
            pass
        return await other.execute(2)

    history = play(limited, fire(), done(2)).history
    assert told(shielded, history).recorded == "the cancellation of activity 1"
    unshielded = play(shielded, fire(), done(2)).history
    assert told(limited, unshielded).asked == "the cancellation of activity 1"


def test_cancellations_in_another_order_are_drift() -> None:
    def flow(*order: int) -> Any:
        async def code() -> None:
            calls = [echo.execute(value) for value in range(3)]
            await durable.wait_for_signal("n")
            for index in order:
                calls[index].cancel()
            await durable.wait_for_signal("m")

        return code

    history = play(flow(0, 1, 2), signal("n"), signal("m")).history
    assert replayed(flow(2, 0, 1), history).drift >= 1
    assert replayed(flow(0, 1, 2), history).drift == 0


def test_operators_events_are_passed_over() -> None:
    story = play(two, paused(), done(1), paused(), paused(), done(2))
    assert story.told[3:] == ["paused", "completed 1", "paused", "paused", "completed 2", "completed"]


@pytest.mark.parametrize(
    ("type", "data"), [(EventType.WORKFLOW_CANCELLED, {"terminated": True}), (EventType.WORKFLOW_TIMED_OUT, {})]
)
def test_end_that_came_from_outside_ends_the_replay(type: EventType, data: dict[str, Any]) -> None:
    history = play(two, done(1)).history
    execution = replayed(two, [*history, Event(len(history) + 1, type, data, history[-1].recorded_at)])
    assert execution.done
    assert execution.last_seq == len(history) + 1
    assert execution.loop.is_closed()


def test_record_without_an_input_before_it_is_non_determinism() -> None:
    history = play(two).history
    assert told(two, history[1:]).position == 2


def test_fan_out_over_ten_kinds_replays_equal_a_hundred_times() -> None:
    """R1: whatever order the results come in."""
    import random

    async def flow() -> Any:
        return await asyncio.gather(*((echo, other, number)[i % 3].execute(i) for i in range(10)))

    chance = random.Random(7)
    for _ in range(100):
        order = chance.sample(range(1, 11), 10)
        assert play(flow, *(done(ordinal, ordinal) for ordinal in order)).result == list(range(1, 11))


def test_cancel_of_a_call_and_the_call_itself_may_come_in_one_activation() -> None:
    async def flow() -> None:
        first = echo.execute(1)
        try:
            await first
        finally:
            await other.execute("clean up")

    assert play(flow, cancel(), done(2)).told[2:5] == ["cancel_requested", "cancelled 1", "scheduled 2 other"]
