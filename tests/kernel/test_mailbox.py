"""Signals: first in, first out for each name, kept until somebody waits, lost by nobody's cancellation."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.errors import WorkflowBlocked
from durable.kernel.history.commands import CompleteWorkflow
from durable.kernel.history.events import Event, EventType
from durable.kernel.replay.execution import Execution
from tests.kernel.harness import EPOCH, Driver, check, echo, fire, play, replayed, signal, start, still


def test_signals_that_come_before_anyone_waits_are_kept_in_order() -> None:
    async def flow() -> list[int]:
        await durable.wait_for_signal("go")
        return [await durable.wait_for_signal("n") for _ in range(3)]

    assert play(flow, signal("n", 1), signal("n", 2), signal("n", 3), signal("go")).result == [1, 2, 3]


def test_waiters_are_served_in_the_order_in_which_they_began_to_wait() -> None:
    async def flow() -> Any:
        return await asyncio.gather(*(durable.wait_for_signal("n") for _ in range(3)))

    assert play(flow, signal("n", 1), signal("n", 2), signal("n", 3)).result == [1, 2, 3]


def test_names_do_not_mix() -> None:
    async def flow() -> list[str]:
        return [await durable.wait_for_signal("b"), await durable.wait_for_signal("a")]

    assert play(flow, signal("a", "A"), signal("b", "B")).result == ["B", "A"]


def test_cancelled_waiter_is_skipped() -> None:
    async def flow() -> Any:
        async with asyncio.timeout(5):
            await durable.wait_for_signal("n")

    async def outer() -> list[Any]:
        got: list[Any] = []
        try:
            await flow()
        except TimeoutError:
            got.append("late")
        return [*got, await durable.wait_for_signal("n")]

    assert play(outer, fire(), signal("n", 7)).result == ["late", 7]


def _two_waiters() -> Execution:
    async def flow() -> list[Any]:
        tasks = [asyncio.create_task(durable.wait_for_signal("n"), name=name) for name in ("first", "second")]
        await asyncio.wait(tasks)
        return [await durable.wait_for_signal("n"), *(task.cancelled() or task.result() for task in tasks)]

    return replayed(flow, [Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH)])


def _deliver_and_cancel(execution: Execution, payload: str, name: str) -> None:
    """Hand a signal over and cancel its taker before it can look. No single event does both; nothing may be lost."""
    loop = execution.loop
    with loop.turn:
        execution.mailbox.deliver("n", (1, payload))
        next(task for task in loop.tasks if task.get_name() == name).cancel()
        loop.run(still, None)


def test_signal_handed_to_a_waiter_that_is_cancelled_before_it_looks_goes_to_the_next() -> None:
    execution = _two_waiters()
    _deliver_and_cancel(execution, "1", "first")
    assert execution.unread_signals() == ()
    end = execution.activate(Event(2, EventType.SIGNAL_RECEIVED, {"name": "n", "payload": "2"}, EPOCH)).commands
    assert end == (CompleteWorkflow("[2,true,1]"),)


def test_signal_handed_to_the_last_waiter_that_is_cancelled_goes_back_to_the_front() -> None:
    execution = _two_waiters()
    with execution.loop.turn:
        next(task for task in execution.loop.tasks if task.get_name() == "first").cancel()
        execution.loop.run(still, None)
        execution.mailbox.deliver("n", (1, "1"))
        execution.mailbox.deliver("n", (2, "2"))
        next(task for task in execution.loop.tasks if task.get_name() == "second").cancel()
        execution.loop.run(still, None)
    assert execution.loop.main is not None
    assert execution.loop.main.result() == [1, True, True]
    assert execution.unread_signals() == ("n",)
    execution.close()


@dataclass
class Verdict:
    ok: bool
    by: str


def test_payload_is_decoded_as_the_type_that_was_asked_for() -> None:
    async def flow() -> str:
        verdict = await durable.wait_for_signal("approval", as_type=Verdict)
        return verdict.by if verdict.ok else ""

    assert play(flow, signal("approval", {"ok": True, "by": "ann"})).result == "ann"


def test_payload_that_can_not_be_opened_blocks_the_workflow_and_code_can_not_catch_it() -> None:
    async def flow() -> None:
        try:
            await durable.wait_for_signal("approval", as_type=Verdict)
        except BaseException:
            await echo.execute("caught")

    driver = Driver(flow, cold=False)
    start()(driver)
    with pytest.raises(WorkflowBlocked, match="approval"):
        driver.feed(EventType.SIGNAL_RECEIVED, {"name": "approval", "payload": "{"})
    driver.close()


def test_waiting_as_a_task_and_in_a_group() -> None:
    async def flow() -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(durable.wait_for_signal(name)) for name in "ab"]
        return [task.result() for task in tasks]

    assert play(flow, signal("b", 2), signal("a", 1)).result == [1, 2]


def test_signals_nobody_took_are_told() -> None:
    async def flow() -> None:
        await durable.wait_for_signal("go")

    def look(execution: Execution) -> None:
        assert execution.unread_signals() == ("n", "n")

    play(flow, signal("n", 1), signal("n", 2), check(look), signal("go"))


@pytest.mark.parametrize("name", ["", "x" * 201, 3, None])
def test_what_can_not_be_a_name_is_refused_at_the_call(name: Any) -> None:
    async def flow() -> str:
        try:
            durable.wait_for_signal(name)  # type: ignore[unused-coroutine]
        except Exception as error:
            return type(error).__name__
        return "accepted"

    assert play(flow).result == "KeyInvalid"


def test_five_hundred_interleavings_of_signals_and_timers_replay_alike() -> None:
    """R2: events are applied in the recorded order."""

    async def flow() -> list[Any]:
        seen: list[Any] = []

        async def listen() -> None:
            while len(seen) < 20:
                seen.append(await durable.wait_for_signal("n"))

        async def tick() -> None:
            while len(seen) < 20:
                await durable.sleep(3)
                seen.append("tick")

        await asyncio.gather(listen(), tick())
        return seen

    steps = [signal("n", i) if i % 3 else fire() for i in range(20)]
    story = play(flow, *steps)
    assert len(story.history) == 21
