"""Deliveries of tasks, ended by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from durable.flow.delivery import abandon, claim
from durable.models import OutboxRow
from durable.outcomes import Cause, Failure
from tests.tasks import jobs

DEAD_AT_ONCE = {"DELIVERY_ATTEMPTS": 1}


def take(worker: str) -> Any:
    [taken] = claim.claim(worker=worker, limit=1, queues=None, lease_for=timedelta(minutes=1))
    return taken


def lose(taken: Any, cause: Cause = Cause.LEASE_LOST, failure: Failure | None = None) -> None:
    abandon.abandon(taken, cause=cause, failure=failure, delay=timedelta())


def dead_letter() -> Any:
    """A result whose task has become a dead letter: its only delivery was lost."""
    result = jobs.answer.enqueue()
    lose(take("first"))
    assert OutboxRow.objects.get(workflow_id=result.id).status == "dead"
    result.refresh()
    return result
