"""Note that a worker is there, or gone. Information only; nothing refers to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow import transaction
from durable.store import beats

_FORGET_AFTER = timedelta(days=1)


def beat(*, name: str, queues: Sequence[str], version: str, wakes_by: str = "") -> None:
    """Write the worker's sign of life, and forget those who have been silent for a day."""

    def body(connection: BaseDatabaseWrapper) -> None:
        beats.write(connection, name=name, queues=queues, version=version, wakes_by=wakes_by)
        beats.remove_silent(connection, silent_for=_FORGET_AFTER)

    transaction.own(body)


def gone(name: str) -> None:
    """Forget a worker that has stopped in good order."""
    transaction.own(lambda connection: beats.remove(connection, name=name))
