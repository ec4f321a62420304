"""R3: a history tells the same in a fresh process, under another hash seed and with other addresses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kernel.harness import done, echo, other, play

ROOT = Path(__file__).resolve().parents[2]


async def racing() -> list[str]:
    """Everything that iterates a set: wait, TaskGroup, as_completed; and cancellation in that order."""

    async def leg(value: int) -> Any:
        async with asyncio.timeout(60 + value):
            return await (echo if value % 2 else other).execute(value)

    tasks = [asyncio.create_task(leg(value), name=f"leg{value}") for value in range(30)]
    ready, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.wait(pending)
    async with asyncio.TaskGroup() as group:
        more = [group.create_task(leg(value)) for value in range(5)]
    return [task.get_name() for task in (*ready, *pending, *more)]


def tell() -> str:
    """The story of a race, in words."""
    story = play(racing, done(9), *(done(30 + ordinal) for ordinal in range(1, 6)))
    return " | ".join([*story.told, *story.result])


def test_story_is_the_same_under_other_hash_seeds_in_fresh_processes() -> None:
    code = "ballast = [object() for _ in range({})]; from tests.kernel.test_fresh_process import tell; print(tell())"
    for seed in (1, 2):
        answer = subprocess.run(
            [sys.executable, "-c", code.format(seed * 1_000)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout.strip() == tell()
