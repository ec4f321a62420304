"""What bounds an activation and a history: CPU time, calls, events."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import durable.kernel.context.workflow_context as durable
from durable.errors import PoisonTurn, WorkflowBlocked
from durable.kernel.history.events import Event, EventType
from durable.kernel.replay.execution import Limits
from tests.kernel.harness import EPOCH, Driver, begun, done, echo, play, start

STARTED = Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH)


class CpuClock:
    """CPU time that passes only when code says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_activation_over_its_cpu_time_is_a_poison_turn() -> None:
    clock = CpuClock()

    async def flow() -> None:
        await echo.execute(1)
        while True:
            clock.seconds += 0.4
            await asyncio.sleep(0)

    limits = Limits(cpu_for=timedelta(seconds=2), max_events=1_000)
    execution = begun(flow, limits=limits, cpu_clock=clock)
    execution.activate(STARTED)
    with pytest.raises(PoisonTurn) as caught:
        execution.activate(Event(3, EventType.ACTIVITY_COMPLETED, {"result": "null"}, EPOCH, 1))
    assert caught.value.seconds == pytest.approx(2.4)
    execution.close()


def test_cpu_time_is_counted_per_activation_also_in_replay() -> None:
    clock = CpuClock()

    async def flow() -> None:
        for value in range(10):
            clock.seconds += 1.5
            await echo.execute(value)

    limits = Limits(cpu_for=timedelta(seconds=2), max_events=1_000)
    story = play(flow, *(done(ordinal) for ordinal in range(1, 11)))
    execution = begun(flow, limits=limits, cpu_clock=clock)
    execution.replay(story.history)
    assert execution.done


def test_single_callback_over_the_limit_is_a_poison_turn_once_it_returns() -> None:
    clock = CpuClock()

    async def flow() -> None:
        clock.seconds += 5

    execution = begun(flow, limits=Limits(cpu_for=timedelta(seconds=2), max_events=1_000), cpu_clock=clock)
    with pytest.raises(PoisonTurn):
        execution.activate(STARTED)
    execution.close()


def test_history_over_its_limit_blocks_the_workflow() -> None:
    async def flow() -> None:
        while True:
            await echo.execute(1)

    driver = Driver(flow, cold=False, limits=Limits(cpu_for=None, max_events=10))
    start()(driver)
    for ordinal in range(1, 5):
        done(ordinal)(driver)
    assert len(driver.history) == 10
    with pytest.raises(WorkflowBlocked, match="MAX_HISTORY_EVENTS"):
        done(5)(driver)
    driver.close()


def test_last_event_may_pass_the_limit() -> None:
    async def flow() -> None:
        await echo.execute(1)

    story = play(flow, done(1), limits=Limits(cpu_for=None, max_events=3))
    assert story.told[-1] == "completed"


def test_call_in_an_endless_loop_without_await_blocks_the_workflow_whatever_it_catches() -> None:
    async def flow() -> None:
        calls = 0
        while calls < 200:
            calls += 1
            try:
                echo.execute(calls)
            except WorkflowBlocked:
                continue
        await durable.wait_for_signal("n")

    execution = begun(flow, limits=Limits(cpu_for=None, max_events=100))
    with pytest.raises(WorkflowBlocked, match="one activation"):
        execution.activate(STARTED)
    execution.close()
