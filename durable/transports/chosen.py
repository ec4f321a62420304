"""The transport that `QUEUES` names for a queue."""

from __future__ import annotations

from typing import Any

from django.utils.module_loading import import_string

from durable.conf import settings
from durable.queues import DJANGO_Q, SentQueue
from durable.transports.interface import Transport

_CLASSES = {DJANGO_Q: "durable.transports.django_q.DjangoQ"}

_PER_WORKER = 4


def make(queue: SentQueue) -> Transport:
    """A new transport for a queue. Raises what its class raises."""
    kind: Any = import_string(_CLASSES.get(queue.transport, queue.transport))
    transport: Transport = kind(queue.cluster)
    return transport


def max_out(queue: SentQueue) -> int:
    """How many deliveries of a queue a worker sends ahead: `max_out`, else four for each worker of its cluster, as far
    as the project's settings tell, or for each handler of a worker of ours.
    """
    if queue.max_out is not None:
        return queue.max_out
    if queue.transport != DJANGO_Q:
        return _PER_WORKER * settings.concurrency
    # Late: it is there only where django-q2 is installed.
    from durable.transports.django_q import workers_of

    return _PER_WORKER * workers_of(queue.cluster)
