"""Activities that send no heartbeat for longer than they may."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import durable
from durable import Retry, activity
from tests.ledger.models import Entry
from tests.worker.plant.activities import GATES

QUIET = timedelta(milliseconds=20)


@activity(name="plant.silent", retry=Retry(max_attempts=1), heartbeat_timeout=QUIET)
def silent(name: str) -> str:
    """Send one heartbeat, and no other for longer than it may."""
    durable.activity_info().heartbeat("begun")
    GATES[name].pass_through()
    return "late"


@activity(name="plant.silent_async", retry=Retry(max_attempts=1), heartbeat_timeout=QUIET)
async def silent_async(name: str) -> None:
    """Wait for what never comes."""
    await asyncio.Event().wait()


@activity(
    name="plant.silent_and_transactional", retry=Retry(max_attempts=1), heartbeat_timeout=QUIET, transactional=True
)
def silent_and_transactional(name: str) -> str:
    """Write, and commit too late."""
    GATES[name].pass_through()
    Entry.objects.create(label=name)
    return "late"
