"""Finds, without locks, what one delivery has written."""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.models import FailedAttempt, OutboxRow
from durable.outcomes import Cause, OutboxStatus


def done(connection: BaseDatabaseWrapper, row_id: int, *, delivery: int) -> int:
    """1 if the row is done, and by this delivery: no later one was made; else 0."""
    rows = OutboxRow.objects.using(connection.alias)
    return rows.filter(id=row_id, status=OutboxStatus.DONE, deliveries=delivery).count()


def failed(connection: BaseDatabaseWrapper, row_id: int, *, delivery: int, worker: str, cause: Cause) -> int:
    """How many failures of this delivery were kept, as its worker said them."""
    attempts = FailedAttempt.objects.using(connection.alias)
    return attempts.filter(outbox_row_id=row_id, number=delivery, worker=worker, cause=cause).count()
