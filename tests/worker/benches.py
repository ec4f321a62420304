"""Deliveries that have ended, made by hand for the loop that acknowledges them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from django.db import OperationalError

from durable.flow.delivery import acknowledge, claim
from durable.outcomes import AckOutcome, Claim, Ending, Failure
from durable.worker.handlers import execute
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.execute import Outcome
from durable.worker.loops.acks import Acks
from tests.worker.making import CountedTime

MS = 1000


def retryable() -> OperationalError:
    import sqlite3

    error = OperationalError("database is locked")
    error.__cause__ = sqlite3.OperationalError("database is locked")
    return error


FAILURE = Failure("ValueError", "no", "trace")


real = acknowledge.acknowledge


WAITS = [100 * MS, 200 * MS, 400 * MS, 800 * MS]


class Bench:
    """Claims, runs and acknowledges in the test's own thread; faults are put between the ack thread and the flow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = CountedTime()
        self.calls: list[list[Ending]] = []
        self.acknowledged: list[Outcome] = []
        self.before: Callable[[Sequence[Ending]], None] = lambda endings: None
        self.after: Callable[[Sequence[Ending]], None] = lambda endings: None
        monkeypatch.setattr(acknowledge, "acknowledge", self._acknowledge)

    def _acknowledge(self, endings: Sequence[Ending]) -> list[AckOutcome]:
        self.calls.append(list(endings))
        self.before(endings)
        outcomes = real(endings)
        self.after(endings)
        return outcomes

    def _ended(self, delivery: Delivery, acknowledged: Outcome | None) -> None:
        if acknowledged is not None:
            self.acknowledged.append(acknowledged)

    def claim(self, limit: int = 100) -> list[Claim]:
        return claim.claim(worker="bench", limit=limit, queues=None, lease_for=timedelta(minutes=1))

    def deliver(self, claims: Sequence[Claim]) -> None:
        """Run the handlers and write what they ended with."""
        acks = Acks(ended=self._ended, timing=self.time)
        for taken in claims:
            delivery = Delivery(taken)
            acks.submit(delivery, execute.run(taken, rng=random.Random(1), delivery=delivery))
        acks.finish(0)
        acks.run()


def due_now(workflow_id: uuid.UUID) -> None:
    from durable.models import OutboxRow

    OutboxRow.objects.filter(workflow_id=workflow_id).update(visible_after="2020-01-01 00:00:00+00:00")
