"""What a soak runs: every kind of work there is, with payloads of many sizes. Imported by soaks only."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from django.db import connections

import durable
from durable import ActivityError, Retry, activity, workflow
from durable.conf import settings

MARK = "durable.bench.soak"
LEDGER = "durable_bench_ledger"
SOON = Retry(max_attempts=3, first=timedelta(milliseconds=100), factor=2.0)


class Unlucky(Exception):
    """What failing handlers raise."""


@activity(name=f"{MARK}.plain")
def plain(text: str) -> str:
    """Returns its argument."""
    return text


@activity(name=f"{MARK}.awaited")
async def awaited(text: str) -> str:
    """The same on the event loop."""
    await asyncio.sleep(0)
    return text


@activity(name=f"{MARK}.flaky", retry=SOON)
def flaky(text: str) -> str:
    """Fails at first."""
    if durable.activity_info().attempt == 1:
        raise Unlucky(text)
    return text


@activity(name=f"{MARK}.doomed", retry=SOON)
def doomed(text: str) -> str:
    """Fails again and again."""
    raise Unlucky(text)


@activity(name=f"{MARK}.entered", transactional=True)
def entered(text: str) -> str:
    """Writes in the transaction of the completion."""
    with connections[settings.database_alias].cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {LEDGER} (entry) VALUES (%s)",  # noqa: S608 - our own name
            [durable.activity_info().idempotency_key],
        )
    return text


@workflow(name=f"{MARK}.steps")
async def steps(text: str) -> str:
    """One of each handler, one after the other."""
    await plain.execute(text)
    await awaited.execute(text)
    return await entered.execute(text)


@workflow(name=f"{MARK}.spread")
async def spread(width: int, text: str) -> int:
    """So many at once."""
    return len(await asyncio.gather(*(plain.execute(text) for _ in range(width))))


@workflow(name=f"{MARK}.unlucky")
async def unlucky(text: str) -> str:
    """What fails for a while, and what fails for good."""
    await flaky.execute(text)
    try:
        return await doomed.execute(text)
    except ActivityError:
        return "as expected"


@workflow(name=f"{MARK}.patient")
async def patient(seconds: float, text: str) -> str:
    """A wait for a signal that comes, or does not."""
    try:
        async with asyncio.timeout(seconds):
            answer: str = await durable.wait_for_signal("go")
    except TimeoutError:
        answer = text
    return await plain.execute(answer)


@workflow(name=f"{MARK}.asleep")
async def asleep(seconds: float, text: str) -> str:
    """Two timers, and work between them."""
    await durable.sleep(seconds)
    await plain.execute(text)
    await durable.sleep(seconds)
    return text
