"""The workflows behind the golden histories. They are frozen: a change here that a history notices breaks a promise.

A new feature gets a workflow of its own; the histories of every release have to replay for ever.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import durable
from durable import ActivityError, Retry, activity, workflow


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Order:
    number: int
    total: Decimal
    placed_on: date
    sizes: tuple[Size, ...] = ()


@dataclass(frozen=True)
class Receipt:
    id: UUID
    paid: Decimal


@activity(name="golden.pay", retry=Retry(max_attempts=2, first=timedelta(seconds=10)))
def pay(order: Order, reference: UUID) -> Receipt:
    return Receipt(reference, order.total)


@activity(name="golden.pack")
async def pack(size: Size) -> str:
    return f"a {size.value} box"


@activity(name="golden.refuse", retry=Retry(max_attempts=2, first=timedelta(seconds=10)))
def refuse(reason: str) -> None:
    raise LookupError(reason)


@activity(name="golden.undo")
def undo(what: str) -> str:
    return f"{what} undone"


@workflow(name="golden.sequence")
async def sequence(order: Order) -> list[str]:
    """One step after another, with values of every kind that replays."""
    receipt = await pay.execute(order, durable.uuid4())
    boxes = [await pack.execute(size) for size in order.sizes]
    return [str(receipt.id), str(receipt.paid), *boxes, f"{durable.random():.6f}", durable.now().isoformat()]


@workflow(name="golden.fan_out")
async def fan_out(width: int) -> list[str]:
    """`gather`, a task group with a queue and a semaphore, and `wait` for the first of several."""
    boxes = list(await asyncio.gather(*(pack.execute(Size.SMALL) for _ in range(width))))
    waiting: asyncio.Queue[int] = asyncio.Queue()
    two = asyncio.Semaphore(2)

    async def take() -> None:
        while not waiting.empty():
            number = waiting.get_nowait()
            async with two:
                boxes.append(f"{number}: {await pack.execute(Size.LARGE)}")

    for number in range(width):
        waiting.put_nowait(number)
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(take())
    tasks = [asyncio.create_task(_packed(size)) for size in Size]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    return [*boxes, *(task.result() for task in done)]


async def _packed(size: Size) -> str:
    return await pack.execute(size)


@workflow(name="golden.timers")
async def timers() -> list[str]:
    """Sleeps one after another and at once, a limit that is kept, and one that is not."""
    began = durable.now()
    told: list[str] = []
    await durable.sleep(timedelta(days=1))

    async def after(hours: int) -> None:
        await asyncio.sleep(hours * 3600)
        told.append(f"{hours} h")

    await asyncio.gather(after(3), after(1), after(2))
    async with asyncio.timeout(60):
        told.append(await pack.execute(Size.SMALL))
    try:
        async with asyncio.timeout(60):
            await asyncio.Event().wait()
    except TimeoutError:
        told.append("too late")
    return [*told, str(durable.now() - began)]


@workflow(name="golden.signals")
async def signals() -> list[Any]:
    """Signals that came before anyone waited, one that came in time, and one that did not come."""
    await durable.sleep(timedelta(hours=1))
    came = [await durable.wait_for_signal("early"), await durable.wait_for_signal("early")]
    async with asyncio.timeout(3600):
        came.append(await durable.wait_for_signal("order", as_type=Order))
    try:
        async with asyncio.timeout(3600):
            came.append(await durable.wait_for_signal("never"))
    except TimeoutError:
        came.append("not come")
    return [str(one) for one in came]


@workflow(name="golden.cancelled")
async def cancelled() -> None:
    """Cancelled while an activity is out and a timer runs; cleans up with one more activity."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(durable.sleep(timedelta(days=1)))
            group.create_task(_packed(Size.LARGE))
            await durable.wait_for_signal("never")
    finally:
        await undo.execute("packing")


@workflow(name="golden.failing")
async def failing() -> None:
    """An activity that fails for good, is caught and made up for; then the workflow fails itself."""
    try:
        await refuse.execute("no such card")
    except ActivityError as error:
        await undo.execute(f"{error.type} after {error.attempts}")
    raise ValueError("nothing more to try")


@workflow(name="golden.over_time", timeout=timedelta(hours=1))
async def over_time() -> None:
    """Ended from outside, by its own time limit."""
    await durable.sleep(timedelta(days=1))


@workflow(name="golden.open")
async def still_open() -> None:
    """Exported while it waits."""
    await pack.execute(Size.SMALL)
    await durable.wait_for_signal("never")


@workflow(name="golden.parcel")
async def parcel(number: int) -> str:
    """A child in every way that one ends."""
    word = await durable.wait_for_signal("go")
    if number == 2:
        raise ValueError(f"parcel {number} is lost")
    return f"parcel {number}: {word}, {durable.workflow_info().parent_id is not None}"


@workflow(name="golden.family")
async def family() -> list[str]:
    """Children that complete, fail, are cancelled, given up and abandoned; signals that are awaited, and one that is
    not.
    """
    parcels = [parcel.options(key=f"parcel-{number}").execute(number) for number in range(5)]
    said = [await undo.execute(str(one.id)) for one in parcels]
    taken = parcel.options(key="parcel-0").execute(7)
    parcels[1].signal("go", "first")
    said += [await _end(taken), await _end(parcels[1])]
    await asyncio.gather(parcels[2].signal("go", "second"), undo.execute("nothing"))
    said.append(await _end(parcels[2]))
    await parcel.signal("parcel-0", "go", "by key")
    said.append(await _end(parcels[0]))
    parcels[3].cancel(reason="too late")
    said.append(await _end(parcels[3]))
    try:
        async with asyncio.timeout(60):
            await parcels[4]
    except TimeoutError:
        said.append(f"{parcels[4].cancelled()}, {len(durable.open_children())} open")
    try:
        await durable.cancel_workflow(parcels[0].id)
    except durable.WorkflowClosed as error:
        said.append(error.status)
    parcel.options(parent_close="abandon").execute(8)
    return said


async def _end(child: durable.Child[str]) -> str:
    try:
        return await child
    except (durable.ChildError, durable.KeyTaken) as error:
        return type(error).__name__


@workflow(name="golden.patched")
async def patched() -> list[Any]:
    """Recorded by code that asked for the patches *early* and *late*, and for *gone*, which nobody asks for today; and
    a signal that is not of the type asked for.
    """
    ways = [durable.patched("early"), await pack.execute(Size.SMALL), durable.patched("before the story")]
    try:
        await durable.wait_for_signal("size", as_type=Size)
    except durable.SignalUnreadable as error:
        ways.append(error.name)
    return [*ways, durable.patched("late"), durable.patched("early")]
