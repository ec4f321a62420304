"""What a type checker follows. Never run, only read by mypy: an ignored error has to be there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, assert_type
from uuid import UUID

import durable
from durable import CancelOutcome, Child, Handle, KeyTaken, Retry, WorkflowStatus, activity, workflow
from durable.client import find, start
from durable.decorators.activities import Activity, AsyncActivity, BoundActivity
from durable.decorators.workflows import WorkflowType
from durable.errors import RedriveRefused
from durable.kernel.definitions.options import ActivityOptions, StartOptions
from durable.operations import (
    DeadLetterFilter,
    DeadLetters,
    Discarded,
    RedriveMode,
    Redriven,
    RowSnapshot,
    discard,
    discard_many,
    list_dead_letters,
    redrive,
    redrive_many,
)
from durable.outcomes import OutboxStatus


class Receipt:
    number: str


@activity
def charge(order_id: int, amount: Decimal = Decimal(1)) -> Receipt:
    return Receipt()


@activity(
    retry=Retry(max_attempts=3),
    queue="slow",
    start_to_close=timedelta(seconds=3),
    heartbeat_timeout=timedelta(seconds=1),
    transactional=False,
)
def ship(item: str, *, fast: bool) -> None:
    return None


@activity(name="greet")
async def greet(name: str) -> str:
    return name


@workflow
async def checkout(order_id: int, note: str = "") -> str:
    receipt = await charge.execute(order_id, Decimal(1))
    assert_type(receipt, Receipt)
    assert_type(await charge.options(queue="x", priority=3).execute(order_id), Receipt)
    assert_type(await greet.execute("a"), str)
    step: Coroutine[Any, Any, None] = ship.execute("a", fast=True)
    await step
    both = await asyncio.gather(charge.execute(1), greet.execute("b"))
    assert_type(both, tuple[Receipt, str])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(greet.execute("c"))
    assert_type(task.result(), str)
    await charge.execute("x")  # type: ignore[arg-type]
    await charge.execute(1, colour="red")  # type: ignore[call-arg]
    await charge.options(queue="x").execute("x")  # type: ignore[arg-type]
    await ship.execute("a")  # type: ignore[call-arg]
    await charge.execute(1, key="a")  # type: ignore[call-arg]
    return receipt.number


@workflow(queue="slow", timeout=timedelta(days=1))
async def other() -> int:
    return 1


@workflow
async def children(workflow_id: UUID) -> int:
    child = checkout.execute(42)
    assert_type(child, Child[str])
    assert_type(child.id, UUID)
    assert_type(child.key, str | None)
    assert_type(await child, str)
    assert_type(await checkout.options(key="k", parent_close="terminate").execute(42, note="x"), str)
    assert_type(checkout.start(42), Handle[str])
    assert_type(durable.open_children(), list[Child[Any]])
    child.signal("go", {"n": 1})  # a statement: nobody has to await it
    child.cancel(reason="too late")
    checkout.execute(43)
    durable.signal_workflow(workflow_id, "go", 1)
    durable.cancel_workflow(str(workflow_id))
    checkout.cancel("k", reason="x")
    assert_type(await checkout.signal("k", "go"), None)
    assert_type(await asyncio.gather(checkout.execute(1), other.execute(), greet.execute("a")), tuple[str, int, str])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(other.execute())
        group.create_task(durable.signal_workflow(workflow_id, "go"))
    assert_type(task.result(), int)
    done, _ = await asyncio.wait([other.execute(), other.execute()])
    assert_type([one.result() for one in done], list[int])
    assert_type(await asyncio.wait_for(other.execute(), 5), int)
    assert_type(await asyncio.shield(other.execute()), int)
    later: Coroutine[Any, Any, int] = other.execute()
    try:
        await later
    except durable.ChildFailed as error:
        assert_type(error.type, str)
    except durable.ChildError as error:
        assert_type(error.workflow_type, str)
    checkout.execute("x")  # type: ignore[arg-type]
    checkout.execute(1, colour="red")  # type: ignore[call-arg]
    checkout.execute(1, key="k")  # type: ignore[call-arg]
    checkout.options(parent_close="forget")  # type: ignore[arg-type]
    child.cancel("too late")  # type: ignore[call-arg]
    return 1


@workflow  # type: ignore[arg-type]
def not_async() -> int:
    return 1


def definitions() -> None:
    assert_type(charge, Activity[[int, Decimal], Receipt])  # type: ignore[assert-type]
    assert_type(other, WorkflowType[[], int])
    asynchronous: AsyncActivity[..., str] = greet
    bound: BoundActivity[..., Receipt] = charge.options(priority=1)
    assert_type(charge(1), Receipt)
    called: Coroutine[Any, Any, str] = greet("a")
    charge("x")  # type: ignore[arg-type]
    activity(colour="red")  # type: ignore[call-overload]
    charge.options(colour="red")  # type: ignore[call-arg]
    checkout.options(retry=Retry())  # type: ignore[call-arg]
    assert asynchronous is not None
    assert bound is not None
    assert called is not None


def callers(workflow_id: UUID) -> None:
    handle = checkout.options(key="k", on_conflict="existing").start(42, note="x")
    assert_type(handle, Handle[str])
    assert_type(handle.id, UUID)
    assert_type(handle.status(), WorkflowStatus)
    assert_type(handle.result(timeout=10), str)
    assert_type(handle.result(timedelta(seconds=1)), str)
    assert_type(handle.cancel(reason="x"), CancelOutcome)
    assert_type(checkout.start(42, key="k", priority=3), Handle[str])
    assert_type(checkout.get("k"), Handle[str])
    assert_type(charge.enqueue(1), Handle[Receipt])
    assert_type(charge.options(priority=3).enqueue(1), Handle[Receipt])
    assert_type(checkout.start_many([(1,), (2, "x")]), list[Handle[str]])
    assert_type(checkout.start_many([(1,)], keys=["a"]), list[Handle[str] | KeyTaken])
    assert_type(charge.options(queue="x").enqueue_many([(1,)]), list[Handle[Receipt]])
    assert_type(durable.get_workflow(workflow_id), Handle[Any])
    checkout.options(key="k").start("x")  # type: ignore[arg-type]
    checkout.options(on_conflict="replace")  # type: ignore[arg-type]
    charge.options(queue="x").enqueue()  # type: ignore[call-arg]
    checkout.options(queue="x").start(1, key="k")  # type: ignore[call-arg]


async def async_callers() -> None:
    handle = await checkout.options(priority=1).astart(1)
    assert_type(handle, Handle[str])
    assert_type(await handle.aresult(), str)
    assert_type(await handle.astatus(), WorkflowStatus)
    assert_type(await handle.acancel(), CancelOutcome)
    assert_type(await charge.aenqueue(1), Handle[Receipt])


def between() -> None:
    """What the verbs call: without Any, so that what they return is known, and a wrong argument is found."""
    none = StartOptions()
    assert_type(start.start(checkout, (1,), {}, none), Handle[str])
    assert_type(start.start_many(checkout, [(1,)], none, keys=None), list[Handle[str]])
    assert_type(start.start_many(checkout, [(1,)], none, keys=["a"]), list[Handle[str] | KeyTaken])
    assert_type(start.enqueue(charge, (1,), {}, ActivityOptions()), Handle[Receipt])
    assert_type(start.enqueue_many(charge, [(1,)], ActivityOptions(), keys=None), list[Handle[Receipt]])
    assert_type(find.get_by_key(checkout, "k"), Handle[str])
    start.start(charge, (1,), {}, none)  # type: ignore[arg-type]
    start.enqueue(charge, (1,), {}, none)  # type: ignore[arg-type]


def operators(workflow_id: UUID) -> None:
    letters = list_dead_letters(workflow_id)
    assert_type(letters, DeadLetters)
    assert_type(letters.more, bool)
    assert_type(letters[-1], RowSnapshot)
    assert_type(letters[:2], tuple[RowSnapshot, ...])
    for letter in letters:
        assert_type(letter.id, int)
        assert_type(letter.workflow_id, UUID)
        assert_type(letter.status, OutboxStatus)
        assert_type(letter.failure_delivered, bool)
        assert_type(letter.dead_lettered_at, datetime | None)
        str(letter.input)  # type: ignore[attr-defined]
        str(letter.failed_attempts)  # type: ignore[attr-defined]
        letter.cause = ""  # type: ignore[misc]
    assert_type(list_dead_letters(workflow_id, after=letters[-1]), DeadLetters)
    assert_type(redrive(workflow_id, 1), Redriven)
    assert_type(redrive(workflow_id, 1).row, RowSnapshot)
    assert_type(redrive(workflow_id, 1).row.visible_after, datetime)
    assert_type(discard(workflow_id, 1, reason="x").row, RowSnapshot)
    assert_type(discard_many([(workflow_id, 1)], reason="x"), list[Discarded | RedriveRefused])
    assert_type(redrive_many(letters), list[Redriven | RedriveRefused])
    redrive_many([letters[0], (workflow_id, 2)])
    redrive_many(DeadLetterFilter(activity="shop.charge"), mode=RedriveMode.FORCED, reason="x")
    redrive_many([workflow_id])  # type: ignore[list-item]
    discard(workflow_id, 1, reason="x", then="ignore")  # type: ignore[arg-type]


def inside() -> None:
    info = durable.activity_info()
    assert_type(info.workflow_id, UUID)
    assert_type(info.attempt, int)
    assert_type(info.cancelled, bool)
    info.heartbeat({"page": 1})
