"""A process of a django-q2 cluster: what its messages call, and what it does when it begins."""

from __future__ import annotations

from typing import Any

from django_q.conf import Conf

from durable.conf import settings
from durable.kernel.texts.failure import for_log
from durable.queues import DJANGO_Q
from durable.worker.process.presence import Presence
from durable.worker.process.receiving import Received, receive
from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.cluster")

ANY_SIZE = 1
"""In kilobytes: every process is larger."""


def run(row_id: int, token: str) -> None:
    """Runs one delivery. Called by the cluster's worker for each message; raises nothing, returns nothing.

    After a handler that ran too long, the cluster recycles this process, in the way that it does it itself: when a
    process has grown too large, and after the message is off the broker's books.
    """
    if receive(row_id, token) is Received.LEAVE:
        log.warning("process_recycled", row=row_id, cluster=Conf.CLUSTER_NAME)
        Conf.MAX_RSS = ANY_SIZE


def spawned(**_signal: Any) -> None:
    """Receiver of the signal with which a process of the cluster begins: starts its heartbeats, if a queue is sent to
    this cluster. Raises nothing, which would end the process.
    """
    try:
        queues = [
            queue.name
            for queue in settings.sent_queues.values()
            if queue.transport == DJANGO_Q and queue.cluster == Conf.CLUSTER_NAME
        ]
        if queues:
            Presence(Conf.CLUSTER_NAME, queues).start()
    # Settings that are wrong, a machine without threads: the cluster has other work, too.
    except BaseException as error:
        log.error("cluster_not_shown", exc_info=for_log(error))
