"""The answer of `.execute()`: a future that scheduled its call, and that takes it back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.kernel.loop.futures import ActivityFuture
from tests.kernel.harness import done, echo, failed, play, signal


def test_call_is_scheduled_at_once_and_needs_no_await() -> None:
    async def flow() -> Any:
        echo.execute("begun")
        return await durable.wait_for_signal("n")

    assert play(flow, signal("n", 1)).told == ["started", "scheduled 1 echo", "signal n", "completed"]


def test_call_is_a_future_and_not_a_coroutine() -> None:
    async def flow() -> list[bool]:
        call = echo.execute(1)
        return [isinstance(call, ActivityFuture), asyncio.isfuture(call), asyncio.iscoroutine(call)]

    assert play(flow).result == [True, True, False]


def test_create_task_gather_wait_for_shield_and_ensure_future_take_a_call() -> None:
    async def flow() -> list[Any]:
        task = asyncio.create_task(echo.execute(1), name="by name")
        other_task = asyncio.ensure_future(echo.execute(2))
        return [
            task.get_name(),
            await task,
            await other_task,
            await asyncio.wait_for(echo.execute(3), 5),
            await asyncio.shield(echo.execute(4)),
            *await asyncio.gather(echo.execute(5)),
        ]

    assert play(flow, *(done(ordinal, ordinal) for ordinal in range(1, 6))).result == ["by name", 1, 2, 3, 4, 5]


def test_failure_reaches_everyone_who_awaits_the_call() -> None:
    async def flow() -> list[str]:
        call = echo.execute(1)
        tasks = [asyncio.create_task(call) for _ in range(2)]
        return [type(one).__name__ for one in await asyncio.gather(*tasks, call, return_exceptions=True)]

    assert play(flow, failed(1)).result == ["ActivityError"] * 3


def test_closing_a_call_takes_it_back_as_closing_a_coroutine_would() -> None:
    async def flow() -> Any:
        echo.execute("never").close()
        return await echo.execute("this")

    assert play(flow, done(1, "x")).told == ["started", "scheduled 1 echo", "completed 1", "completed"]


def test_cancelling_one_of_two_tasks_over_a_call_cancels_the_call_for_both() -> None:
    """As with any future in asyncio; `shield` is there for those who want otherwise."""

    async def flow() -> list[bool]:
        call = echo.execute(1)
        first, second = asyncio.create_task(call), asyncio.create_task(call)
        await durable.wait_for_signal("n")
        first.cancel()
        await asyncio.wait([first, second])
        return [first.cancelled(), second.cancelled(), call.cancelled()]

    story = play(flow, signal("n"))
    assert story.result == [True, True, True]
    assert story.told.count("cancelled 1") == 1


def test_orm_refuses_to_work_under_the_loop_by_itself() -> None:
    guard = pytest.importorskip("django.utils.asyncio")

    @guard.async_unsafe
    def query() -> None: ...

    async def flow() -> str:
        try:
            query()
        except Exception as error:
            return type(error).__name__
        return "queried"

    assert play(flow).result == "SynchronousOnlyOperation"
