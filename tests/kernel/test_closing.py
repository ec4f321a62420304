"""Taking a workflow from memory: in the open, without effect, and without a word from the collector.

The suite turns warnings into errors: "never awaited" and "destroyed but pending" would fail these tests.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.errors import DurableError, OutsideWorkflow
from durable.kernel.history.events import Event, EventType
from durable.kernel.loop import closing
from durable.kernel.replay.execution import Execution
from tests.kernel.harness import EPOCH, begun, echo, play, record, replayed


@pytest.fixture(autouse=True)
def _nothing_unraisable() -> Iterator[None]:
    """Whatever the collector complains about fails the test."""
    said: list[Any] = []
    before = sys.unraisablehook
    sys.unraisablehook = said.append
    yield
    gc.collect()
    sys.unraisablehook = before
    assert not said


def suspended(code: Any) -> Execution:
    """An execution that was fed its start, was closed, and was replayed: so both ways of coming to rest are closed."""
    started = Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH)
    execution = begun(code)
    commands = execution.activate(started).commands
    execution.close()
    return replayed(code, [started, *(record(command, seq, EPOCH) for seq, command in enumerate(commands, 2))])


def test_finally_runs_and_its_durable_calls_raise_and_change_nothing() -> None:
    seen: list[str] = []

    async def flow() -> None:
        try:
            await echo.execute(1)
        finally:
            for wait in (lambda: echo.execute(2), lambda: durable.sleep(1), lambda: durable.wait_for_signal("n")):
                try:
                    await wait()
                except OutsideWorkflow as error:
                    seen.append(str(error))
            for call in (durable.now, durable.uuid4, durable.random, durable.rng):
                try:
                    call()
                except OutsideWorkflow as error:
                    seen.append(str(error))

    execution = suspended(flow)
    seen.clear()
    execution.close()
    assert len(seen) == 7
    assert all("taken from memory" in text for text in seen)
    assert execution.loop.is_closed()
    execution.close()
    assert len(seen) == 7, "closing twice does nothing"


def test_finally_that_starts_tasks_leaves_no_coroutine_unawaited() -> None:
    started: list[str] = []

    async def child(name: str) -> None:
        started.append(name)

    async def flow() -> None:
        try:
            await echo.execute(1)
        finally:
            asyncio.create_task(child("alone"))  # noqa: RUF006
            await asyncio.gather(child("first"), echo.execute(2), child("last"), durable.sleep(1))

    execution = suspended(flow)
    execution.close()
    assert started == [], "nothing of it runs"
    assert execution.loop.is_closed()


def test_what_finally_does_to_futures_and_timers_schedules_nothing() -> None:
    async def flow() -> None:
        event, queue = asyncio.Event(), asyncio.Queue[int]()
        waiting = asyncio.create_task(event.wait())
        call = echo.execute(2)
        try:
            await echo.execute(1)
        finally:
            event.set()
            queue.put_nowait(1)
            call.cancel()
            waiting.cancel()
            asyncio.get_running_loop().call_later(1, print)
            asyncio.get_running_loop().call_soon(print)

    execution = suspended(flow)
    execution.close()
    assert not execution.calls.issued
    assert len(execution.loop.timers) == 0


def test_every_shape_of_waiting_is_closed_silently() -> None:
    async def child(value: int) -> None:
        async with asyncio.timeout(10):
            await echo.execute(value)

    async def stream() -> Any:
        try:
            for value in range(5):
                yield value
        finally:
            await asyncio.sleep(1)

    async def flow() -> None:
        asyncio.create_task(durable.sleep(10))  # noqa: RUF006
        generator = stream()
        await anext(generator)
        lock = asyncio.Lock()
        async with lock, asyncio.TaskGroup() as group:
            group.create_task(asyncio.wait_for(child(1), 5))
            group.create_task(durable.wait_for_signal("n"))
            group.create_task(asyncio.shield(echo.execute(4)))  # type: ignore[arg-type]
            group.create_task(lock.acquire())
            await asyncio.gather(child(2), child(3), asyncio.Event().wait())

    suspended(flow).close()


def test_task_that_never_started_is_closed_with_what_it_was_given(recwarn: pytest.WarningsRecorder) -> None:
    async def inner() -> None:
        pass

    async def flow() -> str:
        asyncio.create_task(asyncio.wait_for(inner(), 5))  # noqa: RUF006
        return "done before the task could start"

    story = play(flow)
    gc.collect()
    assert story.end.data["dropped_tasks"] == 1
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]


def test_finally_that_awaits_is_closed_as_well() -> None:
    reached: list[str] = []

    async def flow() -> None:
        try:
            await echo.execute(1)
        finally:
            reached.append("outer")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                reached.append("inner")

    execution = suspended(flow)
    reached.clear()
    execution.close()
    assert reached == ["outer", "inner"]


def test_code_that_can_not_be_closed_stays_in_memory_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def flow() -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except BaseException:
                continue

    before = len(closing._stubborn)  # code that cannot be closed is kept for the life of the process
    execution = suspended(flow)
    with caplog.at_level(logging.WARNING, logger="durable.workflow"):
        execution.close()
    assert len(closing._stubborn) == before + 2, "one of each execution of `suspended`"
    assert "cannot be closed" in caplog.text
    gc.collect()


def test_finally_runs_in_the_context_and_as_the_task_it_belongs_to() -> None:
    value: contextvars.ContextVar[str] = contextvars.ContextVar("value")
    seen: list[Any] = []

    async def child() -> None:
        token = value.set("child's")
        try:
            await echo.execute(1)
        finally:
            task = asyncio.current_task()
            seen.append((value.get(), task is not None and task.get_name()))
            value.reset(token)

    async def flow() -> None:
        await asyncio.create_task(child(), name="kid")

    execution = suspended(flow)
    seen.clear()
    execution.close()
    assert seen == [("child's", "kid")]


def test_closing_leaves_the_callers_running_loop_alone() -> None:
    async def flow() -> None:
        await echo.execute(1)

    async def caller() -> None:
        mine = asyncio.get_running_loop()
        suspended(flow).close()
        assert asyncio.get_running_loop() is mine
        await asyncio.sleep(0)

    asyncio.run(caller())


def test_logger_is_silent_while_closing(caplog: pytest.LogCaptureFixture) -> None:
    async def flow() -> None:
        try:
            await echo.execute(1)
        finally:
            durable.logger.warning("cleaning up")

    execution = suspended(flow)
    with caplog.at_level(logging.DEBUG):
        execution.close()
    assert "cleaning up" not in caplog.text


def test_failed_tasks_and_activities_that_nobody_looked_at_say_nothing_after_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def bad() -> None:
        raise LookupError

    async def flow() -> str:
        task = asyncio.create_task(bad())
        await asyncio.sleep(0)
        return str(task.done())

    with caplog.at_level(logging.DEBUG):
        assert play(flow).result == "True"
        gc.collect()
    assert "never retrieved" not in caplog.text


def test_future_of_another_workflow_can_not_be_touched_from_outside_its_turn() -> None:
    held: list[asyncio.Future[Any]] = []

    async def flow() -> None:
        future = asyncio.get_running_loop().create_future()
        held.append(future)
        await future

    execution = suspended(flow)
    with pytest.raises(DurableError, match="must not touch"):
        held[-1].set_result(1)
    execution.close()
