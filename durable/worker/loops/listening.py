"""LISTEN on PostgreSQL, with `NOTIFY` on: wakes the loops as soon as work from outside is committed.

An optimisation. If the channel is lost, or a pooler in between swallows it, work is found by polling as before; this is
logged once, and the worker's row shows it with each heartbeat.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from typing import Any

from django.db import Error as DatabaseFault
from django.db import InterfaceError, connections

from durable.flow.caller.waking import SPACING
from durable.logs import words
from durable.outcomes import WakesBy
from durable.store.connections.wakeups import CHANNEL, EVERY_QUEUE
from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.listening")

LOOK_SECONDS = 0.25
"""The longest single wait: a stopping worker does not wait longer for this thread."""

ECHO_EVERY, ECHO_WITHIN = 10.0, 5.0
"""How often the listener sends itself a NOTIFY: a half-open connection or a pooler would be silent for ever."""

FIRST_REST, LONGEST_REST = 0.5, 30.0


class Listener:
    """Listens on a connection of its own, outside of Django's, on the thread that calls `step`."""

    def __init__(self, *, alias: str, queues: tuple[str, ...] | None, ring: Callable[[], None]) -> None:
        self.wakes_by = WakesBy.POLLING
        self._alias = alias
        self._queues = queues
        self._ring = ring
        self._connection: Any = None
        self._echo = f"{CHANNEL}_{uuid.uuid4().hex}"
        self._echo_due = 0.0
        self._echo_sent: float | None = None
        self._failures = 0

    def step(self) -> float:
        """Waits for a notification, a moment at most. Returns the seconds to rest."""
        try:
            with connections[self._alias].wrap_database_errors:
                self._listen()
        except DatabaseFault as fault:
            return self._lost(fault)
        return 0.0

    def close(self) -> None:
        """Closes the connection. On the thread that listens, at its end."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _listen(self) -> None:
        if self._connection is None:
            self._open()
        if self._heard(LOOK_SECONDS, stop_after=1):
            self._ring()
            # Callers skip notifications within the spacing; the second look finds what came meanwhile.
            self._heard(2 * SPACING.total_seconds(), stop_after=None)
            self._ring()
        self._prove()

    def _open(self) -> None:
        wrapper: Any = connections[self._alias]
        parameters = wrapper.get_connection_params()
        parameters.setdefault("connect_timeout", 10)
        parameters.setdefault("tcp_user_timeout", 10_000)
        parameters.setdefault("application_name", "durable listener")
        self._connection = wrapper.Database.connect(**{**parameters, "autocommit": True})
        self._connection.execute(f'LISTEN "{CHANNEL}"')
        self._connection.execute(f'LISTEN "{self._echo}"')
        self._echo_due, self._echo_sent = 0.0, None
        self._ring()  # notifications that came while nobody listened

    def _heard(self, seconds: float, *, stop_after: int | None) -> bool:
        """Whether there was a notification for one of this worker's queues."""
        mine = False
        for word in self._connection.notifies(timeout=seconds, stop_after=stop_after):
            if word.channel == self._echo:
                self._proven()
            elif self._queues is None or word.payload == EVERY_QUEUE or word.payload in self._queues:
                mine = True
        return mine

    def _prove(self) -> None:
        now = time.monotonic()
        if self._echo_sent is not None:
            if now - self._echo_sent > ECHO_WITHIN:
                raise InterfaceError("this worker's own NOTIFY did not come back; is there a pooler in between?")
        elif now >= self._echo_due:
            self._echo_sent = now
            self._connection.execute(f'NOTIFY "{self._echo}"')

    def _proven(self) -> None:
        self._echo_sent, self._echo_due = None, time.monotonic() + ECHO_EVERY
        self._failures = 0
        if self.wakes_by is not WakesBy.NOTIFICATION:
            log.info("wake_up_channel_open", before=self.wakes_by.value)
            self.wakes_by = WakesBy.NOTIFICATION

    def _lost(self, fault: DatabaseFault) -> float:
        self.close()
        if self.wakes_by is not WakesBy.LOST:
            log.warning("wake_up_channel_lost", error=words(fault), finds_work_by="polling")
            self.wakes_by = WakesBy.LOST
        self._failures += 1
        rest = min(FIRST_REST * 2.0 ** min(self._failures - 1, 16), LONGEST_REST)
        return rest * random.uniform(0.8, 1.2)
