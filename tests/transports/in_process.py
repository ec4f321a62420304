"""Receivers in the test's own process, so that handlers can stand at a test's doors: called directly, or by the real
parts of a django-q2 cluster, which run in threads here.
"""

from __future__ import annotations

import os
import queue
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Value
from typing import Any, ClassVar

from django.db import connections

from durable.worker.process import receiving
from durable.worker.process.receiving import Receiver
from tests.waiting import PATIENCE, in_thread


@contextmanager
def receiver() -> Iterator[Receiver]:
    """The receiver of this process, for a while."""
    made = Receiver()
    made.start()
    # A process has one for good. The test's would keep its threads.
    before, receiving._receiver = receiving._receiver, (os.getpid(), made)
    try:
        yield made
    finally:
        receiving._receiver = before
        made.close()


class InProcess:
    """A transport whose messages are calls, each in a thread."""

    running: ClassVar[list[Any]] = []

    def __init__(self, cluster: str) -> None:
        """There is one process."""

    def ping(self) -> None:
        """It is here."""

    def send(self, row_id: int, token: uuid.UUID) -> None:
        """Call the receiver."""
        self.running.append(in_thread(receiving.receive, row_id, token.hex))


class Threads:
    """A django-q2 cluster on the broker of the ORM: its own pusher, workers and monitor, in threads of this process."""

    def __init__(self, workers: int = 2) -> None:
        self._tasks: queue.Queue[Any] = queue.Queue(maxsize=workers**2)
        self._results: queue.Queue[Any] = queue.Queue()
        self._stop = threading.Event()
        self._pusher = in_thread(self._push)
        self._workers = [in_thread(self._work) for _ in range(workers)]
        self._monitor = in_thread(self._watch)

    def _push(self) -> None:
        from django_q.pusher import pusher

        pusher(self._tasks, self._stop)

    def _work(self) -> None:
        from django_q.conf import Conf
        from django_q.worker import worker

        # One that was recycled is followed by the next, as in a cluster.
        while not self._stop.is_set():
            worker(self._tasks, self._results, Value("f", -1), Conf.TIMEOUT)
            Conf.MAX_RSS = None

    def _watch(self) -> None:
        from django_q.monitor import monitor

        monitor(self._results)

    def close(self) -> None:
        """As a cluster stops."""
        self._stop.set()
        self._pusher.result(PATIENCE)
        for _ in self._workers:
            self._tasks.put("STOP")
        for worker in self._workers:
            worker.result(PATIENCE)
        self._results.put("STOP")
        self._monitor.result(PATIENCE)


@contextmanager
def threads(workers: int = 2) -> Iterator[Threads]:
    """A cluster in this process, whose workers write no rows: there is one process."""
    from django_q.conf import Conf
    from django_q.signals import post_spawn

    from durable import apps

    post_spawn.disconnect(dispatch_uid="durable")
    made = Threads(workers)
    try:
        yield made
    finally:
        made.close()
        Conf.MAX_RSS = None
        # The receiver of Django's signal that `AppConfig.ready` connects; nothing else leads to it.
        post_spawn.connect(apps._spawned, dispatch_uid="durable")
        connections.close_all()


Receive = Callable[[int, str], object]
