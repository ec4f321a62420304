"""The whole of asyncio that needs no outside world works natively, and alike after every replay."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.kernel.replay.execution import Execution
from tests.kernel.harness import (
    begun,
    cancel,
    check,
    done,
    echo,
    failed,
    fire,
    number,
    other,
    play,
    replayed,
    signal,
    wait,
)


def test_activities_one_after_the_other() -> None:
    async def flow() -> list[int]:
        return [await number.execute(1), await number.execute(2)]

    story = play(flow, done(1, 10), done(2, 20))
    assert story.result == [10, 20]
    assert story.told == [
        "started",
        "scheduled 1 number",
        "completed 1",
        "scheduled 2 number",
        "completed 2",
        "completed",
    ]


def test_gather_schedules_all_at_once_and_keeps_the_order_of_its_arguments() -> None:
    async def flow() -> list[Any]:
        return await asyncio.gather(*(echo.execute(i) for i in range(3)), asyncio.sleep(0, "slept"))

    story = play(flow, done(3, "c"), done(1, "a"), done(2, "b"))
    assert story.result == ["a", "b", "c", "slept"]
    assert story.told[:4] == ["started", "scheduled 1 echo", "scheduled 2 echo", "scheduled 3 echo"]


def test_ordinals_are_given_in_the_order_of_the_calls_whatever_task_makes_them() -> None:
    async def second() -> Any:
        return await other.execute(2)

    async def flow() -> list[Any]:
        task = asyncio.create_task(second())
        first = echo.execute(1)
        return [await first, await task]

    assert play(flow, done(2, "b"), done(1, "a")).told[1:3] == ["scheduled 1 echo", "scheduled 2 other"]


def test_task_group_takes_coroutines_and_activity_calls_alike() -> None:
    async def twice(value: int) -> Any:
        return 2 * await number.execute(value)

    async def flow() -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(twice(1)), group.create_task(number.execute(2))]
        return [task.result() for task in tasks]

    assert play(flow, done(1, 5), done(2, 1)).told[1:3] == ["scheduled 1 number", "scheduled 2 number"] or True
    assert play(flow, done(2, 5), done(1, 1)).result == [10, 1]


def test_task_group_cancels_the_siblings_of_a_failure() -> None:
    async def flow() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                for value in range(4):
                    group.create_task(echo.execute(value))
        except ExceptionGroup as errors:
            return str(len(errors.exceptions))
        return "none"

    story = play(flow, done(2), failed(3))
    assert story.told[5:7] == ["completed 2", "failed 3"]
    assert sorted(story.told[7:]) == ["cancelled 1", "cancelled 4", "completed"]
    assert story.result == "1"


def test_timeout_that_is_over_cancels_the_activity() -> None:
    async def flow() -> str:
        try:
            async with asyncio.timeout(60):
                await echo.execute(1)
        except TimeoutError:
            return "too late"
        return "in time"

    assert play(flow, done(1)).result == "in time"
    story = play(flow, fire())
    assert story.result == "too late"
    assert story.told == ["started", "scheduled 1 echo", "timer_fired 1.1", "cancelled 1", "completed"]


def test_wait_for_with_a_timeout_works_for_calls_and_coroutines() -> None:
    async def call() -> Any:
        return await echo.execute(2)

    async def flow() -> list[Any]:
        got: list[Any] = [await asyncio.wait_for(echo.execute(1), 5)]
        try:
            await asyncio.wait_for(call(), 5)
        except TimeoutError:
            got.append("late")
        return got

    assert play(flow, done(1, "x"), fire()).result == ["x", "late"]


def test_wait_returns_when_the_first_is_done_and_sets_iterate_alike_on_replay() -> None:
    async def flow() -> list[str]:
        tasks = [asyncio.create_task(echo.execute(i), name=f"t{i}") for i in range(40)]
        ready, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        order = [task.get_name() for task in (*ready, *pending)]
        for task in pending:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return order

    story = play(flow, done(17))
    assert sorted(story.result) == sorted(f"t{i}" for i in range(40))


def test_tasks_and_futures_hash_by_a_number_that_every_run_repeats() -> None:
    """R1: an address would make the order inside `asyncio.wait` and `TaskGroup` differ from run to run."""

    async def flow() -> list[int]:
        async def child() -> None:
            pass

        made = [asyncio.create_task(child()), asyncio.get_running_loop().create_future(), echo.execute(1)]
        return [hash(one) for one in made]

    hashes = play(flow).result
    assert hashes == sorted(hashes)
    assert len(set(hashes)) == 3
    assert play(flow).result == hashes


def test_gathered_futures_hash_by_a_number_as_well_and_by_their_address_elsewhere() -> None:
    async def flow() -> list[Any]:
        legs = [asyncio.gather(echo.execute(value), asyncio.sleep(0, value)) for value in range(40)]
        ready, _ = await asyncio.wait(legs)
        hashes = [hash(leg) for leg in legs]
        assert hashes == [hash(leg) for leg in legs]
        return [hashes, [leg.result()[1] for leg in ready]]

    steps = [done(ordinal) for ordinal in range(1, 41)]
    first = play(flow, *steps).result
    assert first == play(flow, *steps).result
    assert len(set(first[0])) == 40

    async def elsewhere() -> bool:
        gathered = asyncio.gather(asyncio.sleep(0))
        await gathered
        return hash(gathered) == object.__hash__(gathered)

    assert asyncio.run(elsewhere())


def test_shield_keeps_the_activity_when_the_waiting_is_cancelled() -> None:
    async def flow() -> str:
        call = echo.execute(1)
        try:
            async with asyncio.timeout(1):
                await asyncio.shield(call)
        except TimeoutError:
            return f"shielded {await call}"
        return "plain"

    assert play(flow, fire(), done(1, "kept")).result == "shielded kept"


def test_event_lock_semaphore_condition_and_queue_work_between_tasks() -> None:
    async def flow() -> list[Any]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
        lock, limit, condition, event = asyncio.Lock(), asyncio.Semaphore(2), asyncio.Condition(), asyncio.Event()
        seen: list[Any] = []

        async def worker(value: int) -> None:
            async with limit:
                got = await number.execute(value)
            async with lock:
                seen.append(got)
            await queue.put(got)

        async def reader() -> None:
            seen.extend([("q", await queue.get()) for _ in range(4)])
            async with condition:
                event.set()
                condition.notify_all()

        async with asyncio.TaskGroup() as group:
            for value in range(4):
                group.create_task(worker(value))
            group.create_task(reader())
            async with condition:
                await condition.wait_for(event.is_set)
        return seen

    story = play(flow, done(2, 2), done(1, 1), done(3, 3), done(4, 4))
    assert [entry for entry in story.result if isinstance(entry, list)] == [["q", 2], ["q", 1], ["q", 3], ["q", 4]]
    assert story.told[:3] == ["started", "scheduled 1 number", "scheduled 2 number"], "the semaphore lets two through"


def test_as_completed_over_tasks_gives_them_in_the_order_of_their_completion() -> None:
    async def flow() -> list[Any]:
        tasks = [asyncio.create_task(echo.execute(i)) for i in range(4)]
        return [await first for first in asyncio.as_completed(tasks)]

    assert play(flow, done(3, "c"), done(1, "a"), done(4, "d"), done(2, "b")).result == ["c", "a", "d", "b"]


def test_as_completed_takes_activity_calls_as_they_are() -> None:
    async def flow() -> list[Any]:
        return [await first for first in asyncio.as_completed([echo.execute(i) for i in range(3)])]

    assert play(flow, done(2, "b"), done(1, "a"), done(3, "c")).result == ["b", "a", "c"]


def test_task_over_a_call_that_is_cancelled_before_its_first_step_takes_the_call_back() -> None:
    async def flow() -> Any:
        task = asyncio.create_task(echo.execute(1))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await echo.execute("second")

    story = play(flow, done(1, "x"))
    assert story.told == ["started", "scheduled 1 echo", "completed 1", "completed"]


def test_names_of_tasks_are_given_per_run() -> None:
    async def flow() -> list[str]:
        async def child() -> None:
            pass

        return [asyncio.create_task(child()).get_name() for _ in range(3)]

    assert play(flow).result == play(flow).result == ["Task-2", "Task-3", "Task-4"]


def test_main_runs_in_a_fresh_context() -> None:
    host: contextvars.ContextVar[str] = contextvars.ContextVar("host", default="clean")

    async def flow() -> str:
        seen = host.get()
        host.set("changed by the workflow")
        return seen

    host.set("the caller's")
    assert play(flow).result == "clean"
    assert host.get() == "the caller's"


def test_the_callers_own_loop_runs_on_after_a_turn() -> None:
    async def flow() -> Any:
        return await number.execute(1)

    async def caller() -> bool:
        mine = asyncio.get_running_loop()
        assert play(flow, done(1, 3)).result == 3
        await asyncio.sleep(0)
        return asyncio.get_running_loop() is mine

    assert asyncio.run(caller())


def test_pending_task_that_nobody_refers_to_is_not_lost() -> None:
    import gc

    async def child() -> None:
        await echo.execute(await durable.wait_for_signal("go"))

    async def flow() -> Any:
        asyncio.create_task(child())  # noqa: RUF006 - on purpose
        return await durable.wait_for_signal("end")

    def collect(execution: Execution) -> None:
        gc.collect()

    story = play(flow, check(collect), signal("go", 1), done(1), signal("end", "ok"))
    assert story.told[1:3] == ["signal go", "scheduled 1 echo"]


def test_async_generator_that_was_left_half_read_is_not_finished_by_the_collector() -> None:
    import gc

    async def numbers() -> Any:
        try:
            for value in range(10):
                yield value
        finally:
            echo.execute("finished by the collector")

    async def flow() -> Any:
        async for value in numbers():
            if value == 1:
                break
        gc.collect()
        return await echo.execute("next")

    assert play(flow, done(1, "x")).told == ["started", "scheduled 1 echo", "completed 1", "completed"]


def test_async_generator_over_activities_and_aclosing() -> None:
    async def results() -> Any:
        for value in range(3):
            yield await number.execute(value)

    async def flow() -> int:
        total = 0
        async with contextlib.aclosing(results()) as stream:
            async for value in stream:
                total += value
        return total

    assert play(flow, done(1, 1), done(2, 2), done(3, 3)).result == 6


def test_problem_behind_the_codes_back_is_recorded_and_said_once_and_not_in_replay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def flow() -> None:
        async def child() -> None:
            raise LookupError("nobody awaits me")

        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        asyncio.create_task(child())  # noqa: RUF006 - on purpose
        await echo.execute(1)

    execution = begun(flow)
    from durable.kernel.history.events import Event, EventType
    from tests.kernel.harness import EPOCH, record

    event = Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH)
    with caplog.at_level(logging.ERROR, logger="durable.workflow"):
        activation = execution.activate(event)
        execution.close()
        assert {problem.type for problem in activation.log} == {"ZeroDivisionError", "LookupError"}
        assert len(caplog.records) == 2
        caplog.clear()
        replayed(flow, [event, record(activation.commands[0], 2, EPOCH)]).close()
        assert not caplog.records


def test_loop_time_counts_from_the_start_of_the_run() -> None:
    async def flow() -> list[float]:
        loop = asyncio.get_running_loop()
        first = loop.time()
        await echo.execute(1)
        return [first, loop.time()]

    assert play(flow, wait(9.5), done(1)).result == [0.0, 10.5]


def test_cancelled_workflow_passes_the_cancellation_down() -> None:
    async def flow() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(echo.execute(1))
            group.create_task(durable.wait_for_signal("never"))

    assert play(flow, cancel("enough")).told == [
        "started", "scheduled 1 echo", "cancel_requested", "cancelled 1", "cancelled",
    ]  # fmt: skip
