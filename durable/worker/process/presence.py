"""The name of this process, and its heartbeats as one of a cluster: by these, senders and staff see that it lives."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from multiprocessing import util

from django.db import Error as DatabaseFault
from django.db import connections

from durable.conf import settings
from durable.flow.upkeep import beat
from durable.kernel.definitions.registry import registry
from durable.worker.threads import hygiene
from durable.worker.threads.loop import Loop

LAST_WORD = 2.0
"""Seconds that the end of a process waits until its row is deleted."""

_name: tuple[int, str] | None = None


def new_name() -> str:
    """A name that no other process has: host, process id, and a few random digits."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:4]}"


def process_name() -> str:
    """The name of this process as one of a cluster, the same each time."""
    global _name
    if _name is None or _name[0] != os.getpid():
        _name = (os.getpid(), new_name())
    return _name[1]


class Presence:
    """Beats from a thread of its own, on a connection that it closes after each beat."""

    def __init__(self, cluster: str, queues: Sequence[str]) -> None:
        self._cluster = cluster
        self._queues = list(queues)
        self._began: float | None = time.monotonic()
        self._loop = Loop("presence", self._beat)

    def start(self) -> None:
        """Beats from now on, until the process ends."""
        self._loop.start()
        util.Finalize(None, self.end, exitpriority=10)

    def end(self) -> None:
        """Deletes the row. Waits for the database no longer than a moment."""
        self._loop.stop()
        last = threading.Thread(target=self._leave, name="durable-presence-end", daemon=True)
        with suppress(RuntimeError):  # no more threads: the row is deleted after a day
            last.start()
            last.join(LAST_WORD)

    def _beat(self) -> float:
        up_for = None if self._began is None else timedelta(seconds=time.monotonic() - self._began, microseconds=1)
        try:
            beat.beat(
                name=process_name(),
                queues=self._queues,
                version=registry.version(),
                up_for=up_for,
                cluster=self._cluster,
            )
        finally:
            connections.close_all()
        self._began = None
        return settings.reconcile_every.total_seconds()

    def _leave(self) -> None:
        self._loop.join(LAST_WORD)
        with suppress(DatabaseFault):
            hygiene.connect()
            beat.gone(process_name())
        connections.close_all()
