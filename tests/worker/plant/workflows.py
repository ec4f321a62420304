"""Workflows under test."""

from __future__ import annotations

import asyncio
import threading

from durable import workflow
from tests.worker.plant import activities


@workflow(name="plant.three")
async def three(label: str) -> list[str]:
    """Three notes, one after the other."""
    return [await activities.note.execute(f"{label}-{step}") for step in range(3)]


@workflow(name="plant.fan")
async def fan(label: str, width: int) -> int:
    """Notes side by side."""
    return len(await asyncio.gather(*(activities.note.execute(f"{label}-{at}") for at in range(width))))


@workflow(name="plant.hang")
async def hang() -> None:
    """A callback that never comes back, and uses no CPU time that a limit could see."""
    threading.Event().wait()
