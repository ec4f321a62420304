"""Workflows and activities for the state machine: small, but with every kind of wait, policy and ending among them.

Each workflow is given its number, by which its waits are a little longer than those of the one before: two that come
due at the same instant would be turned in whatever order the database finds them, and the walk would not be the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import durable
from durable import Retry
from durable.decorators.activities import activity
from durable.decorators.workflows import workflow
from durable.errors import ActivityError

TWICE = Retry(max_attempts=2)


@activity(name="machine.step", retry=TWICE)
def step(n: int) -> int:
    """Its dead letters are held; its last error fails it."""
    return n


@activity(name="machine.told", retry=TWICE, on_dead_letter="deliver", queue="side")
def told(n: int) -> int:
    """Its dead letters are delivered. On a queue of its own."""
    return n


@activity(name="machine.kept", retry=TWICE, on_exhausted="hold")
def kept(n: int) -> int:
    """Its spent retries make a dead letter, too."""
    return n


async def _tried(call: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await call
    except ActivityError as error:
        return error.type


@workflow(name="machine.nothing")
async def nothing(number: int) -> str:
    return "done"


@workflow(name="machine.steps")
async def steps(number: int) -> list[Any]:
    return [await _tried(step.execute(1)), await _tried(kept.execute(2))]


@workflow(name="machine.fails")
async def fails(number: int) -> int:
    return await told.execute(1)


@workflow(name="machine.fan")
async def fan(number: int) -> list[Any]:
    return list(await asyncio.gather(*(_tried(each.execute(n)) for n, each in enumerate((step, told, kept)))))


@workflow(name="machine.limited")
async def limited(number: int) -> Any:
    """Gives up on an activity by its own time limit."""
    try:
        async with asyncio.timeout(40 + number / 1000):
            return await kept.execute(1)
    except TimeoutError:
        return await _tried(step.execute(2))


@workflow(name="machine.cleaner")
async def cleaner(number: int) -> Any:
    """Cleans up behind a cancellation."""
    try:
        return await step.execute(1)
    finally:
        await _tried(told.execute(2))


@workflow(name="machine.approval")
async def approval(number: int) -> list[Any]:
    answer = await durable.wait_for_signal("go")
    return [answer, await _tried(step.execute(1))]


@workflow(name="machine.talk")
async def talk(number: int) -> list[Any]:
    """One step for each signal, until a while has passed without one; after the first signal a patch is asked for."""
    heard: list[Any] = []
    while True:
        try:
            async with asyncio.timeout(90 + number / 1000):
                heard.append(await durable.wait_for_signal("go"))
        except TimeoutError:
            return heard
        assert durable.patched("heard")
        heard.append(await _tried(told.execute(len(heard))))


@workflow(name="machine.race")
async def race(number: int) -> str:
    """Whatever comes first: an activity, a signal, or a while. The others are given up."""
    runners = {
        asyncio.create_task(_tried(step.execute(1)), name="step"),
        asyncio.create_task(durable.wait_for_signal("go"), name="signal"),
        asyncio.create_task(durable.sleep(timedelta(seconds=70, milliseconds=number)), name="sleep"),
    }
    done, late = await asyncio.wait(runners, return_when=asyncio.FIRST_COMPLETED)
    for runner in late:
        runner.cancel()
    return ",".join(sorted(runner.get_name() for runner in done))


@workflow(name="machine.stubborn")
async def stubborn(number: int) -> str:
    """Goes on waiting for its activity although it has been cancelled."""
    inner = asyncio.ensure_future(_tried(step.execute(1)))
    try:
        await asyncio.shield(inner)
    except asyncio.CancelledError:
        return f"all the same {await inner}"
    return "done"


@workflow(name="machine.family")
async def family(number: int) -> list[str]:
    """Children of every policy; one that is given up, and one that nobody awaits."""
    given_up = asyncio.create_task(approval.execute(number))
    below = [
        nothing.options(parent_close="terminate").execute(number),
        cleaner.execute(number),
        steps.options(parent_close="abandon").execute(number),
    ]
    talk.start(number)
    ends = list(await asyncio.gather(*below[:2], return_exceptions=True))
    given_up.cancel()
    ends += await asyncio.gather(given_up, below[2], return_exceptions=True)
    return [type(end).__name__ for end in ends]


@workflow(name="machine.clan")
async def clan(number: int) -> str:
    """A tree: what ends it goes down level by level."""
    ends = await asyncio.gather(
        family.options(parent_close="terminate").execute(number), family.execute(number), return_exceptions=True
    )
    return ",".join(type(end).__name__ for end in ends)


WORKFLOWS: dict[str, Any] = {
    each.name.partition(".")[2]: each
    for each in (nothing, steps, fails, fan, limited, cleaner, approval, talk, race, stubborn, family, clan)
}
ACTIVITIES: dict[str, Any] = {each.name.partition(".")[2]: each for each in (step, told, kept)}
