"""Timers: only what survives its activation is durable; identity, order, rounding and refusals."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.errors import NonDeterminism
from durable.kernel.history.events import Event, EventType
from durable.kernel.replay.execution import Execution
from tests.kernel.harness import (
    EPOCH,
    LIMITS,
    Driver,
    begun,
    cancel,
    check,
    done,
    echo,
    fire,
    play,
    replayed,
    start,
    wait,
)


def test_sleep_takes_a_timedelta_and_seconds() -> None:
    async def flow() -> str:
        await durable.sleep(timedelta(days=30))
        await durable.sleep(1.5)
        await asyncio.sleep(2)
        return durable.now().isoformat()

    assert play(flow, fire(), fire(), fire()).result == (EPOCH + timedelta(days=30, seconds=3.5)).isoformat()


def test_starting_and_cancelling_a_timer_leaves_no_event() -> None:
    async def flow() -> Any:
        async with asyncio.timeout(60):
            return await echo.execute(1)

    assert play(flow, done(1, "x")).told == ["started", "scheduled 1 echo", "completed 1", "completed"]


def test_timer_born_and_cancelled_in_one_activation_never_exists_and_takes_no_place() -> None:
    async def flow() -> None:
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        await durable.sleep(10)

    def look(execution: Execution) -> None:
        assert [timer["id"] for timer in execution.pending_timers()] == [[1, 1]]

    assert play(flow, check(look), fire()).told == ["started", "timer_fired 1.1", "completed"]


def test_identity_is_the_activation_and_the_place_among_the_survivors() -> None:
    async def flow() -> list[str]:
        order: list[str] = []

        async def nap(name: str, seconds: float) -> None:
            await durable.sleep(seconds)
            order.append(name)

        async with asyncio.TaskGroup() as group:
            group.create_task(nap("slow", 30))
            group.create_task(nap("fast", 10))
            await durable.sleep(1)
            group.create_task(nap("late", 20))
        return order

    story = play(flow, fire(), fire(), fire(), fire())
    assert story.told == [
        "started",
        "timer_fired 1.1",
        "timer_fired 1.3",
        "timer_fired 2.1",
        "timer_fired 1.2",
        "completed",
    ]
    assert story.result == ["fast", "late", "slow"]


def test_timers_of_one_instant_fire_in_the_order_of_their_creation() -> None:
    async def flow() -> list[int]:
        order: list[int] = []

        async def nap(number: int) -> None:
            await durable.sleep(10)
            order.append(number)

        await asyncio.gather(*(nap(i) for i in range(4)))
        return order

    def look(execution: Execution) -> None:
        due = (EPOCH + timedelta(seconds=10)).isoformat()
        assert execution.pending_timers() == [{"id": [1, place], "due": due} for place in (1, 2, 3, 4)]

    assert play(flow, check(look), fire(), fire(), fire(), fire()).result == [0, 1, 2, 3]


def test_changed_duration_is_accepted_on_replay() -> None:
    def flow(seconds: float) -> Any:
        async def napping() -> str:
            await durable.sleep(seconds)
            await echo.execute(1)
            await durable.sleep(seconds)
            return "ok"

        return napping

    story = play(flow(60), fire(), done(1), fire())
    for seconds in (1, 3600, math.inf):
        execution = replayed(flow(seconds), story.history)
        assert execution.done
        assert execution.drift == 0


def test_unknown_timer_is_not_accepted_on_replay() -> None:
    async def napping() -> None:
        await durable.sleep(60)

    async def waiting() -> None:
        await durable.wait_for_signal("never")

    history = play(napping, fire()).history
    with pytest.raises(NonDeterminism) as caught:
        replayed(waiting, history)
    assert caught.value.position == 2
    assert caught.value.recorded == "that timer 1 of event 1 fired"


def test_infinite_sleep_waits_for_ever_and_wakes_nobody() -> None:
    async def flow() -> None:
        await durable.sleep(math.inf)

    def look(execution: Execution) -> None:
        assert execution.next_timer() is None
        assert execution.pending_timers() == []

    assert play(flow, check(look), cancel()).told == ["started", "cancel_requested", "cancelled"]


def test_infinite_asyncio_sleep_and_timeout_are_allowed() -> None:
    async def flow() -> str:
        async with asyncio.timeout(math.inf):
            try:
                await asyncio.wait_for(asyncio.sleep(math.inf), 5)
            except TimeoutError:
                return "five"
        return "never"

    assert play(flow, fire()).result == "five"


@pytest.mark.parametrize("seconds", [math.nan, 1e30, 1e12])
def test_nan_and_overflow_are_refused_at_the_call(seconds: float) -> None:
    async def flow() -> list[str]:
        refused = []
        for call in (
            durable.sleep,
            lambda s: asyncio.get_running_loop().call_later(s, print),
            lambda s: asyncio.get_running_loop().call_at(s, print),
        ):
            try:
                call(seconds)
            except (ValueError, OverflowError) as error:
                refused.append(type(error).__name__)
        return refused

    expected = "ValueError" if math.isnan(seconds) else "OverflowError"
    assert play(flow).result == [expected] * 3


def test_overflowing_timedelta_is_refused_at_the_call() -> None:
    async def flow() -> str:
        try:
            durable.sleep(timedelta.max)  # type: ignore[unused-coroutine]
        except OverflowError as error:
            return str(error)
        return "accepted"

    assert "year 9999" in play(flow).result


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [(0.07, 70), (0.1, 100), (1e-7, 1), (1e-12, 1), (0.0011, 2), (1.0000001, 1_001), (86_400, 86_400_000)],
)
def test_deadlines_are_rounded_up_to_milliseconds(seconds: float, milliseconds: int) -> None:
    async def flow() -> None:
        await durable.sleep(seconds)

    execution = replayed(flow, [Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH)])
    timer = execution.next_timer()
    assert timer is not None
    assert timer.due - EPOCH == timedelta(milliseconds=milliseconds)
    assert timer.created == EPOCH
    execution.close()


def test_float_deadlines_far_from_the_start_stay_exact() -> None:
    async def flow() -> None:
        await echo.execute(1)
        async with asyncio.timeout(0.07):
            await echo.execute(2)

    def look(execution: Execution) -> None:
        timer = execution.next_timer()
        assert timer is not None
        assert timer.due - timer.created == timedelta(microseconds=70_000)

    play(flow, wait(365 * 86_400 + 0.123456), done(1), check(look), cancel())


@pytest.mark.parametrize("span", [0, -1, -math.inf, timedelta(), timedelta(days=-1)])
def test_span_that_is_over_only_lets_the_others_run(span: Any) -> None:
    async def flow() -> list[str]:
        order: list[str] = []

        async def child() -> None:
            order.append("child")

        task = asyncio.create_task(child())
        await durable.sleep(span)
        order.append("main")
        await task
        return order

    story = play(flow)
    assert story.result == ["child", "main"]
    assert story.told == ["started", "completed"]


def test_cancelled_timers_do_not_pile_up() -> None:
    async def flow() -> None:
        for value in range(500):
            async with asyncio.timeout(60):
                await echo.execute(value)

    driver = Driver(flow, cold=False)
    start()(driver)
    for ordinal in range(1, 500):
        done(ordinal)(driver)
    timers = driver.execution().loop.timers
    assert len(timers) == 1
    assert len(timers._heap) <= 100  # entries that count no more may pile up unseen
    driver.close()


def test_timer_may_be_rescheduled() -> None:
    async def flow() -> str:
        try:
            async with asyncio.timeout(10) as limit:
                await echo.execute(1)
                limit.reschedule(asyncio.get_running_loop().time() + 100)
                await echo.execute(2)
        except TimeoutError:
            return durable.now().isoformat()
        return "in time"

    assert play(flow, done(1), fire()).result == (EPOCH + timedelta(seconds=101)).isoformat()


def test_wake_ups_of_five_hundred_timeouts_need_no_event_each() -> None:
    async def one(value: int) -> None:
        async with asyncio.timeout(60):
            await echo.execute(value)

    async def flow() -> None:
        await asyncio.gather(*(one(value) for value in range(500)))

    execution = begun(flow, limits=LIMITS)
    activation = execution.activate(Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH))
    assert len(activation.commands) == 500
    assert len(execution.pending_timers()) == 500
    execution.close()
