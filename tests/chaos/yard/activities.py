"""Handlers that take more than their share, and handlers that wait until they are told to stop."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from datetime import timedelta
from typing import Any

import durable
from durable import Retry, activity
from tests.ledger.models import Entry
from tests.worker.plant import activities

TAKEN: list[Any] = []
"""Connections that a handler took and never gave back."""

ONCE = Retry(max_attempts=1)


@activity(name="yard.take_all_connections", retry=ONCE)
def take_all_connections(folder: str, label: str) -> str:
    """Take every session that the server has left, stand at a door, and leave without giving one back."""
    import psycopg
    from django.db import connection

    parameters = connection.get_connection_params()
    place = {name: parameters[name] for name in ("host", "user", "dbname")}
    activities.note(f"{label} before")
    try:
        while True:
            TAKEN.append(psycopg.connect(**place))
    except psycopg.OperationalError:
        return activities.stand(folder, label)


@activity(name="yard.work_until_stopped", retry=ONCE)
def work_until_stopped(milliseconds: int) -> str:
    """Work for so long, and look all the while whether it shall stop."""
    info, end = durable.activity_info(), time.monotonic() + milliseconds / 1000
    while time.monotonic() < end:
        if info.cancelled:
            raise RuntimeError("stopped")
        time.sleep(0.002)
    return "done"


@activity(name="yard.work_until_stopped_async", retry=ONCE)
async def work_until_stopped_async(milliseconds: int) -> str:
    """The same on the event loop."""
    await asyncio.sleep(milliseconds / 1000)
    return "done"


@activity(name="yard.hang", retry=ONCE, start_to_close=timedelta(milliseconds=200))
def hang(label: str) -> None:
    """Say which process this is, and never return."""
    Entry.objects.create(label=label, amount=os.getpid())
    threading.Event().wait()


@activity(name="yard.say_process")
def say_process(label: str) -> int:
    """Say which process this is."""
    Entry.objects.create(label=label, amount=os.getpid())
    return os.getpid()
