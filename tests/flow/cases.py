"""Workflows and activities that the flow's tests run."""

from __future__ import annotations

import asyncio
from typing import Any

import durable
from durable.decorators.activities import activity
from durable.decorators.workflows import workflow


@activity(name="cases.step")
def step(n: int) -> int:
    return n


@activity(name="cases.other")
def other(n: int) -> int:
    return n


@workflow(name="cases.nothing")
async def nothing() -> str:
    return "done"


@workflow(name="cases.sequence")
async def sequence(length: int) -> int:
    total = 0
    for n in range(length):
        total += await step.execute(n)
    return total


@workflow(name="cases.fan_out")
async def fan_out(width: int) -> int:
    return sum(await asyncio.gather(*(step.execute(n) for n in range(width))))


@workflow(name="cases.signalled")
async def signalled() -> Any:
    return await durable.wait_for_signal("go")


@workflow(name="cases.signals")
async def signals(count: int) -> int:
    for _ in range(count):
        await durable.wait_for_signal("go")
    return count


@workflow(name="cases.limited")
async def limited(seconds: int) -> str:
    try:
        async with asyncio.timeout(seconds):
            await step.execute(1)
    except TimeoutError:
        return "too late"
    return "in time"


@workflow(name="cases.sleeper")
async def sleeper(seconds: int) -> str:
    await durable.sleep(seconds)
    return durable.now().isoformat()


@workflow(name="cases.cleaner")
async def cleaner() -> str:
    try:
        await step.execute(1)
    finally:
        await other.execute(2)
    return "unreached"


@workflow(name="cases.failing")
async def failing() -> str:
    await step.execute(1)
    raise ValueError("nothing there")
