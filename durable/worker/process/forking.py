"""What a process lets go of before it forks, or becomes another program, and what a forked one must not touch.

A connection that two processes have is one session: each reads the replies to the other's questions, and their
transactions mix. A pool of connections has threads besides, of which the child has none.
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

    Those of other threads are theirs, and cannot be closed from here.
    """
    hygiene.drop()
    for pool in unpooled.take_pools():
        pool.close()


def tell_of_threads() -> None:
    """Before a fork: log the host's threads that run here, once each. The child has what they hold, and not them."""
    names = {thread.name for thread in threading.enumerate() if thread is not threading.main_thread()} - _told
    hosts = sorted(name for name in names if not name.startswith(OWN_THREADS))
    _told.update(names)
    if hosts:
        log.info("forked_beside_threads", threads=hosts)


def forget() -> None:
    """In a forked child, before anything else: know nothing of the parent's pools and threads.

    Pools that another thread has opened since `let_go` are kept, unused: to end one takes its threads, and to close its
    connections would end the parent's sessions.
    """
    _inherited.extend(unpooled.take_pools())
    # Its one thread, if the host has used async code before, is the parent's: what the child gave it would never run.
    SyncToAsync.single_thread_executor = ThreadPoolExecutor(max_workers=1)
