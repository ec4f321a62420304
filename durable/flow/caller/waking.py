"""Waking workers on PostgreSQL when work comes from outside: rate-limited, and never on the way of an acknowledgement.

A commit that includes a NOTIFY takes a lock of which the server has only one, so most calls send none: within a
transaction one per queue, and outside of one at most one in `SPACING` per process. Listeners look a second time after
twice that long, which finds the work that was not announced.
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
"""When this process last told a queue outside of a transaction. Two threads at the same time may both notify."""

_MARK = "_durable_told"


def wake(connection: BaseDatabaseWrapper, queues: Iterable[str]) -> None:
    """Notifies the workers of these queues, with the commit of the caller's transaction, that something is due.

    Does nothing unless `NOTIFY` is on and the database is PostgreSQL. Without a transaction the work is already
    committed, so an error of NOTIFY does not reach the caller.
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
    """The queues that this transaction has not notified yet; marks them as notified.

    Django makes a new list of commit hooks at each commit and at each rollback, even to a savepoint, which undoes the
    NOTIFY: so a mark is valid as long as the list is the same.
    """
    hooks: Any = connection.run_on_commit
    marked_hooks, woken = getattr(connection, _MARK, (None, set()))
    if marked_hooks is not hooks:
        woken = set()
        setattr(connection, _MARK, (hooks, woken))
    untold = set(queues) - woken
    woken |= untold
    return untold
