"""What the benchmark runs: activities that do nothing, and workflows of nothing else.

Imported by the benchmark only, so that a worker of the project neither registers these nor counts them as its code.
"""

from __future__ import annotations

import asyncio
import time

import durable
from durable import activity, workflow

MARK = "durable.bench"

SLOW_FOR = 0.05
"""Seconds that `slow` takes."""

begun_at: dict[int, float] = {}
"""When the handlers of `stamped` began, by number, on this process's monotonic clock."""


@activity(name=f"{MARK}.nothing")
def nothing(number: int) -> None:
    """Does nothing."""


@activity(name=f"{MARK}.stamped")
def stamped(number: int) -> None:
    """Stamps when it began."""
    begun_at[number] = time.perf_counter()


@activity(name=f"{MARK}.slow")
async def slow(number: int) -> None:
    """Takes a while, and no thread."""
    await asyncio.sleep(SLOW_FOR)


@workflow(name=f"{MARK}.steps")
async def steps(count: int) -> int:
    """So many activities, one after the other."""
    for number in range(count):
        await nothing.execute(number)
    return count


@workflow(name=f"{MARK}.slow_steps")
async def slow_steps(count: int) -> int:
    """So many slow activities, one after the other."""
    for number in range(count):
        await slow.execute(number)
    return count


@workflow(name=f"{MARK}.fan_out")
async def fan_out(width: int) -> int:
    """So many activities at once."""
    await asyncio.gather(*(nothing.execute(number) for number in range(width)))
    return width


@workflow(name=f"{MARK}.child")
async def child(number: int) -> None:
    """Does nothing."""


@workflow(name=f"{MARK}.family")
async def family(width: int) -> int:
    """So many children at once."""
    await asyncio.gather(*(child.execute(number) for number in range(width)))
    return width


@workflow(name=f"{MARK}.patient_steps")
async def patient_steps(count: int) -> int:
    """Steps, and then a wait for a signal, so that a long history can be replayed from cold."""
    for number in range(count):
        await nothing.execute(number)
    await durable.wait_for_signal("end")
    return count
