"""Handlers and workflows that raise, pass and return what fights back."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import durable
from durable import Retry, activity, workflow
from tests import hostile
from tests.ledger.models import Entry

TWICE = Retry(max_attempts=2, first=timedelta(milliseconds=1), jitter=0.0, no_retry=())


@activity(name="plant.fight", retry=TWICE)
def fight(kind: str) -> None:
    """Raise it."""
    raise hostile.made(kind)


@activity(name="plant.fight_async", retry=TWICE)
async def fight_async(kind: str) -> None:
    """Raise it on the event loop."""
    raise hostile.made(kind)


@activity(name="plant.fight_in_a_task", retry=TWICE)
async def fight_in_a_task(kind: str) -> None:
    """Raise it in a task of its own, which nobody has awaited when it ends, and in one that is awaited."""

    async def inner() -> None:
        raise hostile.made(kind)

    left_alone = asyncio.create_task(inner())
    await asyncio.sleep(0)
    del left_alone
    await asyncio.create_task(inner())


@activity(name="plant.fight_transactional", retry=TWICE, transactional=True)
def fight_transactional(kind: str) -> None:
    """Write an entry that the error undoes."""
    Entry.objects.create(label=kind)
    raise hostile.made(kind)


FIGHTS = {one.name: one for one in (fight, fight_async, fight_in_a_task, fight_transactional)}


@activity(name="plant.hand_back", retry=TWICE)
def hand_back(kind: str) -> Any:
    """Return what can not be carried."""
    return hostile.VALUES[kind]()


@activity(name="plant.hand_back_async", retry=TWICE)
async def hand_back_async(kind: str) -> Any:
    """The same from the event loop."""
    return hostile.VALUES[kind]()


@activity(name="plant.hand_back_transactional", retry=TWICE, transactional=True)
def hand_back_transactional(kind: str) -> Any:
    """The same, with an entry."""
    Entry.objects.create(label=kind)
    return hostile.VALUES[kind]()


@activity(name="plant.beat_hostile", retry=TWICE)
def beat_hostile(kind: str) -> None:
    """Say how far it is by what can not be carried."""
    durable.activity_info().heartbeat(hostile.VALUES[kind]())


HANDS = {one.name: one for one in (hand_back, hand_back_async, hand_back_transactional, beat_hostile)}


@activity(name="plant.take_anything")
def take_anything(value: Any) -> Any:
    """Take and return anything."""
    return value


@activity(name="plant.take_reborn")
def take_reborn(it: hostile.Reborn) -> str:
    """Take a record that may refuse to be read."""
    return it.name


@workflow(name="plant.raise_it")
async def raise_it(kind: str) -> None:
    """Raise it in workflow code, after a step."""
    await take_anything.execute(kind)
    raise hostile.made(kind)


@workflow(name="plant.raise_it_in_a_task")
async def raise_it_in_a_task(kind: str) -> None:
    """Raise it in a task of its own, which is awaited, and in a callback."""

    def fall() -> None:
        raise hostile.made(kind)

    async def inner() -> None:
        raise hostile.made(kind)

    asyncio.get_running_loop().call_soon(fall)
    await asyncio.gather(take_anything.execute(kind), inner())


@workflow(name="plant.pass_it")
async def pass_it(kind: str) -> None:
    """Pass what can not be carried."""
    await take_anything.execute(hostile.VALUES[kind]())


@workflow(name="plant.return_it")
async def return_it(kind: str) -> Any:
    """Return what can not be carried."""
    return hostile.VALUES[kind]()


@workflow(name="plant.complain")
async def complain(kind: str) -> str:
    """Tell the loop of an error that nobody raised."""
    context = {"message": hostile.Liar(), "exception": hostile.made(kind)}
    asyncio.get_running_loop().call_exception_handler(context)
    return str(await take_anything.execute("went on"))


@workflow(name="plant.begin_reborn")
async def begin_reborn(it: hostile.Reborn) -> str:
    """Its arguments may refuse to be read."""
    return it.name
