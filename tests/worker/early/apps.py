"""What the host does in `AppConfig.ready`, by `EARLY`: a query, async code, and threads that go on for ever."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from itertools import count
from pathlib import Path

from django.apps import AppConfig

QUERY, ASYNC, THREADS = "query", "async", "threads"


class EarlyConfig(AppConfig):
    """Leaves a connection open, and says by a line of a file which session it is."""

    name = "tests.worker.early"

    def ready(self) -> None:
        wanted = os.environ.get("EARLY", "").split()
        if QUERY in wanted:
            _note_session(Path(os.environ["EARLY_SESSIONS"]))
        if ASYNC in wanted:
            asyncio.run(_count())
        if THREADS in wanted:
            for number in range(3):
                threading.Thread(target=_work_on, name=f"host-{number}", daemon=True).start()


def _note_session(sessions: Path) -> None:
    from django.db import connection

    with connection.cursor() as cursor, sessions.open("a") as file:
        cursor.execute("SELECT pg_backend_pid()" if connection.vendor == "postgresql" else "SELECT 0")
        file.write(f"{cursor.fetchone()[0]}\n")


async def _count() -> int:
    from tests.ledger.models import Entry

    return await Entry.objects.acount()


def _work_on() -> None:
    """Hold, as often as possible, what a fork at a bad moment would leave locked: sessions, logs, ids."""
    from django.db import Error

    from durable.client import ids
    from tests.ledger.models import Entry

    for _ in count():
        ids.new()
        try:
            Entry.objects.count()
        except Error:  # the pool was closed before a fork, which is nothing that a host's thread dies of
            continue
        logging.getLogger("durable.early").debug("at work")
