"""Workflows whose code tests change as a deploy would."""

from __future__ import annotations

import asyncio
from typing import Any

import durable
from durable.decorators.activities import activity
from durable.decorators.workflows import workflow

CODE: dict[str, Any] = {"steps": 2, "first": "a"}
"""What today's code does: tests deploy other code by changing it."""


@activity(name="blocking.a")
def a(n: int) -> int:
    return n


@activity(name="blocking.b")
def b(n: int) -> int:
    return n


@workflow(name="blocking.flow")
async def flow() -> str:
    await {"a": a, "b": b}[CODE["first"]].execute(1)
    for n in range(CODE["steps"] - 1):
        await b.execute(n)
    return "done"


@workflow(name="blocking.spinning")
async def spinning() -> str:
    await durable.wait_for_signal("go")
    while CODE["steps"]:  # noqa: ASYNC110 - spinning is what it is for
        await asyncio.sleep(0)
    return "done"
