"""The transport to a django-q2 cluster: a message names the row and the token of one delivery, and nothing else."""

from __future__ import annotations

import os
import uuid
from typing import Any

from django.conf import settings as django_settings
from django_q.brokers import get_broker
from django_q.conf import Conf
from django_q.tasks import async_task

RECEIVER = "durable.worker.process.cluster.run"
"""What the cluster's process calls. As text: a message carries no function."""

MESSAGE = {"timeout": -1, "sync": False, "cached": False, "save": False, "ack_failure": True}
"""Options of each message, which outrank the cluster's. No alarm and no guard ends the process of a handler that our
lease covers; a caller never runs it; no result is kept; and the broker is told of each end, so that it sends nothing
again.
"""


class DjangoQ:
    """Puts messages on the queue of one cluster, through the broker that `Q_CLUSTER` names."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._broker: Any = get_broker(cluster)

    def ping(self) -> None:
        """Raises if the broker does not answer. That of the ORM says yes without a look: its table is asked."""
        if self._broker.ping() is False:
            raise ConnectionError(f"The broker of the cluster {self._cluster!r} refuses a ping.")
        if Conf.ORM:
            self._broker.get_connection().filter(pk=-1).exists()

    def send(self, row_id: int, token: uuid.UUID) -> None:
        """Puts one message on the queue. Raises what the broker raises."""
        async_task(RECEIVER, row_id, token.hex, broker=self._broker, cluster=self._cluster, **MESSAGE)


def workers_of(cluster: str) -> int:
    """How many processes a cluster has, by `Q_CLUSTER`; as many as this machine has CPUs if it says nothing."""
    chosen: dict[str, Any] = getattr(django_settings, "Q_CLUSTER", {})
    others = chosen.get("ALT_CLUSTERS")
    alternative = others.get(cluster, {}) if isinstance(others, dict) else {}
    workers = alternative.get("workers", chosen.get("workers")) if isinstance(alternative, dict) else None
    return int(workers or os.cpu_count() or 4)
