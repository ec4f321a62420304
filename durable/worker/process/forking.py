"""What a process closes before it forks, or becomes another program, and what a forked process must not touch.

If two processes share a connection, it is one session: each reads the replies to the other's statements, and their
transactions mix. A connection pool also has threads, which the child does not have.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import SyncToAsync

from durable.store.connections import unpooled
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.forking")

OWN_THREADS = "durable-"
"""How the names of the engine's threads begin."""

_inherited: list[Any] = []
_told: set[str] = set()


def let_go() -> None:
    """Before a fork or an exec: close this thread's connections and the process's pools. Later use opens new ones.

    Connections of other threads cannot be closed from here.
    """
    hygiene.drop()
    for pool in unpooled.detach_pools():
        pool.close()


def tell_of_threads() -> None:
    """Before a fork: logs the project's threads that run here, once each. The child gets their locks, but not the
    threads.
    """
    names = {thread.name for thread in threading.enumerate() if thread is not threading.main_thread()} - _told
    hosts = sorted(name for name in names if not name.startswith(OWN_THREADS))
    _told.update(names)
    if hosts:
        log.info("forked_beside_threads", threads=hosts)


def forget() -> None:
    """In a forked child, before anything else: forgets the parent's pools and threads.

    Pools that another thread has opened since `let_go` are kept, unused: ending one needs its threads, and closing its
    connections would end the parent's sessions.
    """
    _inherited.extend(unpooled.detach_pools())
    # If the project has used async code before, its thread is the parent's: work that the child gives it would never
    # run.
    SyncToAsync.single_thread_executor = ThreadPoolExecutor(max_workers=1)
