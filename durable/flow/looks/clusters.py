"""The queues that are sent: whether their clusters live, and how much is out there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.flow.transactions import transaction
from durable.queues import DJANGO_Q, SentQueue
from durable.store.deliveries import beats
from durable.store.operators import sent


@dataclass(frozen=True, slots=True)
class SentState:
    """A queue that is sent. `processes` of its cluster have sent a heartbeat within `LEASE_FOR`; `due` activities wait
    to be sent, `unbegun` are out and have not begun, `running` have. The counts are capped.
    """

    queue: SentQueue
    processes: int
    due: int
    unbegun: int
    running: int

    @property
    def is_dead(self) -> bool:
        """Whether nothing of it will begin, although there is work: no process of its cluster lives. Processes of other
        transports than django-q2 need not show that they live.
        """
        return self.queue.transport == DJANGO_Q and not self.processes and bool(self.due or self.unbegun)


def processes(cluster: str) -> int:
    """The number of processes of a cluster whose last heartbeat is no older than `LEASE_FOR`. Reads only."""
    return transaction.reading(lambda connection: beats.of_cluster(connection, cluster, within=settings.lease_for))


def states() -> list[SentState]:
    """The queues that are sent, by name. Reads nothing where there is none."""
    queues = [settings.sent_queues[name] for name in sorted(settings.sent_queues)]
    if not queues:
        return []

    def look(connection: BaseDatabaseWrapper) -> list[SentState]:
        return [_state(connection, queue) for queue in queues]

    return transaction.reading(look)


def problems(queues: Sequence[SentState]) -> list[str]:
    """What is wrong with them, in words."""
    return [
        f"No live process of the cluster {state.queue.cluster!r}, which runs queue {state.queue.name!r}: "
        f"{state.due + state.unbegun:,} wait for it. Start it: manage.py qcluster"
        for state in queues
        if state.is_dead
    ]


def _state(connection: BaseDatabaseWrapper, queue: SentQueue) -> SentState:
    alive = beats.of_cluster(connection, queue.cluster, within=settings.lease_for)
    due, unbegun, running = sent.counts(connection, queue.name)
    return SentState(queue, alive, due, unbegun, running)
