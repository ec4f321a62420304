"""One transactional delivery, claimed and run by hand."""

from __future__ import annotations

import random
from datetime import timedelta

from durable.flow.delivery import claim
from durable.outcomes import Claim
from durable.worker.handlers import execute, transactional
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.execute import Call, Outcome


def run(taken: Claim, waits: list[int]) -> Outcome:
    call = execute.prepare(taken, rng=random.Random(1))
    assert isinstance(call, Call)
    return transactional.run(call, Delivery(taken), wait=waits.append)


def take() -> Claim:
    [taken] = claim.claim(worker="bench", limit=1, queues=None, lease_for=timedelta(minutes=1))
    return taken
