"""Workflows and activities that the tests of `durable.testing` run. At top level, so that fresh processes find them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import durable
from durable import Retry, activity, workflow
from tests.ledger.models import Entry


@dataclass(frozen=True)
class Receipt:
    number: str
    amount: Decimal


@activity(name="plant.charge", retry=Retry(max_attempts=3, first=timedelta(minutes=1), jitter=0))
def charge(order_id: int, amount: Decimal) -> Receipt:
    return Receipt(f"R-{order_id}", amount)


@activity(name="plant.ship")
async def ship(item: int) -> str:
    await asyncio.sleep(0)
    return f"parcel {item}"


@activity(name="plant.note")
async def note(label: str) -> None:
    await Entry.objects.acreate(label=label)


@activity(name="plant.leave_open", retry=Retry(max_attempts=1))
def leave_open(label: str) -> None:
    from django.db import transaction

    transaction.atomic().__enter__()
    Entry.objects.create(label=label)


@activity(name="plant.leave_open_together", retry=Retry(max_attempts=1), transactional=True)
def leave_open_together(label: str) -> None:
    leave_open(label)


@activity(name="plant.book", transactional=True)
def book(label: str) -> str:
    Entry.objects.create(label=label)
    return durable.activity_info().idempotency_key


@activity(name="plant.clash", retry=Retry(max_attempts=2, first=timedelta(seconds=1)))
def clash() -> str:
    """Meets a database error at its first attempt."""
    if durable.activity_info().attempt == 1:
        Entry.objects.create(id=1, label="one")
        Entry.objects.create(id=1, label="the same again")
    return "in order"


@activity(name="plant.slow", start_to_close=timedelta(minutes=1), retry=Retry(max_attempts=1))
def slow() -> str:
    return "done"


@workflow(name="plant.checkout")
async def checkout(order_id: int) -> str:
    receipt = await charge.execute(order_id, Decimal("9.90"))
    parcels = await asyncio.gather(*(ship.execute(item) for item in range(3)))
    await note.execute(f"order {order_id}")
    await durable.sleep(timedelta(days=30))
    return f"{receipt.number}: {', '.join(parcels)}"


@workflow(name="plant.approval")
async def approval(limit_seconds: float) -> Any:
    try:
        async with asyncio.timeout(limit_seconds):
            return await durable.wait_for_signal("approval")
    except TimeoutError:
        return "nobody approved"


@workflow(name="plant.patient")
async def patient() -> Any:
    first = await durable.wait_for_signal("first")
    second = await durable.wait_for_signal("second")
    return [first, second, durable.now().isoformat()]


@workflow(name="plant.lost")
async def lost() -> None:
    await asyncio.Event().wait()


@workflow(name="plant.asleep")
async def asleep(days: int) -> str:
    await durable.sleep(timedelta(days=days))
    return durable.now().isoformat()


@workflow(name="plant.clock")
async def watched_clock() -> datetime:
    return durable.now()


@workflow(name="plant.broken")
async def broken() -> None:
    raise ValueError("no such order")


@workflow(name="plant.transfer")
async def transfer(label: str) -> str:
    return await book.execute(label)


@workflow(name="plant.careful")
async def careful() -> str:
    return await clash.execute()


@workflow(name="plant.limited")
async def limited() -> str:
    try:
        return await slow.execute()
    except durable.ActivityError as error:
        return error.type


@workflow(name="plant.tidy")
async def tidy() -> None:
    try:
        await durable.wait_for_signal("never")
    finally:
        await note.execute("tidied up")


@workflow(name="plant.for_ever")
async def for_ever() -> None:
    while True:
        await durable.sleep(timedelta(days=400))


@workflow(name="plant.lengthy")
async def lengthy(steps: int) -> int:
    for step in range(steps):
        await ship.execute(step)
    return steps


def _part(number: int) -> Any:
    def part(given: int) -> int:
        return given * 100 + number

    return activity(name=f"plant.part_{number}")(part)


PARTS = [_part(number) for number in range(10)]


@workflow(name="plant.parts")
async def parts(given: int) -> list[int]:
    """Ten different activities at once."""
    return list(await asyncio.gather(*(part.execute(given) for part in PARTS)))


@workflow(name="plant.race")
async def race() -> list[str]:
    """Answers in which order a result, a signal and a timer came."""
    came: list[str] = []

    async def completion() -> None:
        await ship.execute(1)
        came.append("completion")

    async def signal() -> None:
        await durable.wait_for_signal("go")
        came.append("signal")

    async def timer() -> None:
        await durable.sleep(timedelta(hours=1))
        came.append("timer")

    await asyncio.gather(completion(), signal(), timer())
    return came


SEEN: set[int] = set()
"""What this process has shipped: state that a fresh process does not have."""


@workflow(name="plant.remembering")
async def remembering(item: int) -> str:
    """Decides by what its process happens to know (faults R3)."""
    if item in SEEN:
        return "known"
    return await ship.execute(item)


WORDS = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"}


@workflow(name="plant.unordered")
async def unordered() -> int:
    """Calls in the order of a set, which is another one in each process."""
    for word in WORDS:
        await note.execute(word)
    return 8


@workflow(name="plant.hurried")
async def hurried() -> str:
    """Has an hour for one activity."""
    async with asyncio.timeout(3600):
        await ship.execute(1)
    return "in time"


@workflow(name="plant.buggy")
async def buggy() -> None:
    raise KeyError("no such price")


BROKEN: list[str] = []


@workflow(name="plant.breaks_when_told")
async def breaks_when_told() -> int:
    """Has a bug in every process that knows no word, and in none in which a test has said one."""
    price = dict.fromkeys(BROKEN, 3)["cup"]
    await ship.execute(price)
    return price
