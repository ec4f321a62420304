"""Workflows and activities that need an operator."""

from __future__ import annotations

import asyncio

from durable.decorators.activities import activity
from durable.decorators.workflows import workflow
from durable.errors import ActivityError


@activity(name="operated.told", on_dead_letter="deliver")
def told(n: int) -> int:
    return n


@activity(name="operated.kept", on_exhausted="hold")
def kept(n: int) -> int:
    return n


@activity(name="operated.tidy")
def tidy(n: int) -> int:
    return n


@workflow(name="operated.careful")
async def careful(n: int) -> str:
    """Acts on the failure of an activity whose dead letters are delivered, and waits on."""
    try:
        await told.execute(n)
    except ActivityError as error:
        verdict = error.message
    else:
        verdict = "charged"
    await tidy.execute(n)
    return verdict


@workflow(name="operated.keeping")
async def keeping(n: int) -> int:
    return await kept.execute(n)


@workflow(name="operated.impatient")
async def impatient(seconds: int) -> str:
    """Gives up on the first activity by its own time limit, and waits for the second."""
    try:
        async with asyncio.timeout(seconds):
            await tidy.execute(1)
    except TimeoutError:
        return f"too late, {await tidy.execute(2)}"
    return "in time"


@workflow(name="operated.shielding")
async def shielding(n: int) -> str:
    """Goes on waiting for an activity although it has been cancelled."""
    inner = asyncio.ensure_future(tidy.execute(n))
    try:
        await asyncio.shield(inner)
    except asyncio.CancelledError:
        try:
            await inner
        except ActivityError as error:
            return f"gave up: {error.message}"
    return "done"


@workflow(name="operated.cautious")
async def cautious(n: int) -> str:
    """Takes the failure of an activity as a verdict."""
    try:
        await tidy.execute(n)
    except ActivityError as error:
        return f"{error.type}: {error.message}"
    return "done"
