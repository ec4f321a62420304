"""Workflows under test."""

from __future__ import annotations

import asyncio
import threading

import durable
from durable import workflow
from tests.worker.plant import activities
from tests.worker.plant import fighters as fighters  # noqa: PLC0414 - registered with the rest


@workflow(name="plant.three")
async def three(label: str) -> list[str]:
    """Three notes, one after the other."""
    return [await activities.note.execute(f"{label}-{step}") for step in range(3)]


@workflow(name="plant.fan")
async def fan(label: str, width: int) -> int:
    """Notes side by side."""
    return len(await asyncio.gather(*(activities.note.execute(f"{label}-{at}") for at in range(width))))


@workflow(name="plant.sleep")
async def sleep() -> None:
    """For days."""
    await durable.sleep(500_000)


@workflow(name="plant.hang")
async def hang() -> None:
    """A callback that never comes back, and uses no CPU time that a limit could see."""
    threading.Event().wait()


@workflow(name="plant.journey")
async def journey(label: str) -> str:
    """A bit of everything: steps in a row and side by side, transactional ones among them, a timer and a signal."""
    await activities.note.execute(f"{label} first")
    await activities.write_once.execute(f"{label} booked")
    await asyncio.gather(
        activities.note.execute(f"{label} left"),
        activities.write_once.execute(f"{label} middle"),
        activities.note_async.execute(f"{label} right"),
    )
    await durable.sleep(0.05)
    word: str = await durable.wait_for_signal("go")
    await activities.write_once.execute(f"{label} {word}")
    return f"{label} arrived"


@workflow(name="plant.around")
async def around(folder: str, label: str) -> None:
    """A note before and a note after an activity that the test holds."""
    await activities.note.execute(f"{label} before")
    await activities.stand.execute(folder, label)
    await activities.note.execute(f"{label} after")


@workflow(name="plant.raise")
async def fall_over(label: str) -> None:
    """Log a line, and fail by its own code."""
    durable.logger.info("about to fall: %s", label)
    raise ValueError(label)


@workflow(name="plant.lean")
async def lean(label: str) -> None:
    """Await an activity that fails for good, and say nothing about it."""
    await activities.fail.execute(label)


@workflow(name="plant.wrap")
async def wrap(label: str) -> None:
    """Await an activity that fails for good, and raise an error of its own from that."""
    try:
        await activities.fail.execute(label)
    except durable.ActivityError as error:
        raise ValueError(label) from error


@workflow(name="plant.lean_on_group")
async def lean_on_group(label: str) -> None:
    """Fail by a group of failed activities."""
    async with asyncio.TaskGroup() as group:
        group.create_task(activities.fail.execute(label))
        group.create_task(activities.refuse.execute())


@workflow(name="plant.mend")
async def mend(label: str) -> str:
    """Go on after an activity that failed for good."""
    try:
        await activities.fail.execute(label)
    except durable.ActivityError:
        return "mended"
    return label


@workflow(name="plant.talk")
async def talk(label: str) -> str:
    """Log before and after a step."""
    durable.logger.info("before %s", label)
    await activities.note.execute(label)
    durable.logger.warning("after %s", label, extra={"order": 42})
    return label


@workflow(name="plant.waits")
async def waits() -> None:
    """For a signal."""
    await durable.wait_for_signal("go")


@workflow(name="plant.hoards")
async def hoards(many: int) -> int:
    """Keeps what it has received."""
    return len([await durable.wait_for_signal("news") for _ in range(many)])
