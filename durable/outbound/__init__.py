"""The way out: log lines and Django signals on their way to code of the project, after the commit that they are about.

Those that are sent inside a transaction of ours are held, emitted after its commit, and dropped with its rollback. In a
worker they are emitted on one thread with a bounded queue, elsewhere on the thread that sent them. The project's
handlers may raise, block or use the ORM: no loop, no result and no transaction of the engine depends on them.
"""

from __future__ import annotations

from durable.outbound.departure import Departure
from durable.outbound.holding import after_commit, aside, holding, release, send
from durable.outbound.road import CAPACITY, Upkeep, is_blocked, start, stop, wait_at_most

__all__ = [
    "CAPACITY",
    "Departure",
    "Upkeep",
    "after_commit",
    "aside",
    "holding",
    "is_blocked",
    "release",
    "send",
    "start",
    "stop",
    "wait_at_most",
]
