"""Records that a worker is running, or has stopped. Information only: no guarantee depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.flow.transactions import transaction
from durable.flow.transactions.transaction import Patience
from durable.outcomes import Company
from durable.store.deliveries import beats

_FORGET_AFTER = timedelta(days=1)


def beat(
    *,
    name: str,
    queues: Sequence[str],
    version: str,
    wakes_by: str = "",
    up_for: timedelta | None = None,
    cluster: str = "",
) -> Company:
    """Writes the worker's heartbeat, and deletes workers that have been silent for a day. Returns whether another
    worker that seems alive serves one of its queues. Tried once: the next heartbeat comes soon.

    `up_for` goes with the first sign of a process: how long it has been running. Deliveries that were claimed under the
    name before are a former process's, which has died with them. `cluster`: it is a process of that one, to which
    deliveries of `queues` are sent.
    """

    def body(connection: BaseDatabaseWrapper) -> list[list[str]]:
        beats.write(
            connection, name=name, queues=queues, version=version, wakes_by=wakes_by, up_for=up_for, cluster=cluster
        )
        beats.remove_silent(connection, silent_for=_FORGET_AFTER)
        return beats.others(connection, name=name, within=2 * settings.lease_for)

    others = transaction.own(body, patience=Patience.ONCE)
    meets = any(not queues or not theirs or set(queues) & set(theirs) for theirs in others)
    return Company.OTHERS if meets else Company.ALONE


def gone(name: str) -> None:
    """Deletes a worker that has stopped cleanly."""
    transaction.own(lambda connection: beats.remove(connection, name=name))
