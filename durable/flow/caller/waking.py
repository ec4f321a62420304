"""Waking workers on PostgreSQL when work comes from outside: rate-limited, and never on the way of an acknowledgement.

Each NOTIFY makes its commit take a lock that all of them share, so most callers leave it out: within a transaction a
queue is told once, and outside of one at most once in `SPACING` per process. Listeners look a second time after twice
that long, which finds what was left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta
from math import inf
from typing import Any

from django.db import Error as DatabaseFault
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.logs import get_logger, words
from durable.store.connections import wakeups

log = get_logger("durable.flow")

SPACING = timedelta(milliseconds=5)

_told_at: dict[str, float] = {}
"""When this process last told a queue outside of a transaction. Two threads that both find it long ago both tell."""

_MARK = "_durable_told"


def wake(connection: BaseDatabaseWrapper, queues: Iterable[str]) -> None:
    """Tell the workers of these queues that something is due, as of the commit of the caller's transaction.

    Does nothing unless `NOTIFY` is on and the database is PostgreSQL. Without a transaction the work is committed
    already, and trouble with the telling is not the caller's.
    """
    if not settings.notify or connection.vendor != "postgresql":
        return
    if not connection.get_autocommit():
        if untold := _untold_in_transaction(connection, queues):
            wakeups.tell(connection, untold)
        return
    now = time.monotonic()
    due = {queue for queue in queues if now - _told_at.get(queue, -inf) >= SPACING.total_seconds()}
    if not due:
        return
    _told_at.update(dict.fromkeys(due, now))
    try:
        wakeups.tell(connection, due)
    except DatabaseFault as fault:
        log.debug("wake_up_not_told", error=words(fault))


def _untold_in_transaction(connection: BaseDatabaseWrapper, queues: Iterable[str]) -> set[str]:
    """Those that this transaction has not told yet, noted as told.

    Django makes a new list of commit hooks at each commit and at each rollback, also to a savepoint, which takes what
    was told back: the list says how long a note is good.
    """
    hooks: Any = connection.run_on_commit
    marked_hooks, woken = getattr(connection, _MARK, (None, set()))
    if marked_hooks is not hooks:
        woken = set()
        setattr(connection, _MARK, (hooks, woken))
    untold = set(queues) - woken
    woken |= untold
    return untold
