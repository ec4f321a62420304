"""Workflows under test."""

from __future__ import annotations

import asyncio

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


@workflow(name="plant.spin")
async def spin() -> None:
    """A callback that never comes back."""
    from tests.worker.plant.activities import GATES

    GATES["spin"].pass_through()
