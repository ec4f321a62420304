"""Cancellations that come at any moment take no slot of the pools with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from durable.flow.caller import cancel
from durable.kernel.definitions.registry import registry
from durable.models import Workflow
from tests.chaos import evidence
from tests.chaos.fleet import chance, pass_time, tell, until
from tests.chaos.yard import activities as yard
from tests.waiting import Gate
from tests.worker.conftest import Plant
from tests.worker.plant import activities
from tests.worker.threads import running

CANCELS, SLOTS = 100, 6
LONGEST_MS = 600
"""About twice the beat by which a handler learns of its cancellation: many end just then by themselves."""


def test_a_hundred_cancels_at_random_moments_leave_the_pools_at_full_size(
    plant: Plant, door: Callable[[str], Gate], settings: Any
) -> None:
    """Faults N3: before the start, in mid-work, with the last breath, and after the end; sync and async."""
    settings.DURABLE = settings.DURABLE | {"LEASE_FOR": timedelta(seconds=1), "CONCURRENCY": SLOTS}
    both = [yard.work_until_stopped, yard.work_until_stopped_async]
    for definition in both:
        registry.add_activity(definition)
    rng, gate = chance("cancels"), door("full")
    ids = [plant.enqueue(rng.choice(both), rng.randrange(LONGEST_MS)) for _ in range(CANCELS)]
    with running() as (worker, _):
        until(worker.ready.is_set, within=180, stuck=str)
        for workflow_id in rng.sample(ids, CANCELS):
            cancel.cancel(workflow_id, reason="enough", actor="test")
            pass_time(rng.uniform(0, 0.06))
        until(lambda: not evidence.open_ones(ids), within=180, stuck=lambda: evidence.what_is_stuck(ids))
        until(lambda: worker.handlers.busy == worker.leases.count == 0, within=180, stuck=lambda: "slots are busy")
        full = [plant.enqueue(activities.pass_gate, "full") for _ in range(SLOTS)]
        gate.wait_for_arrival(SLOTS)
        gate.open()
        full += [plant.enqueue(yard.work_until_stopped_async, 1) for _ in range(2 * SLOTS)]
        until(lambda: not evidence.open_ones(full), within=180, stuck=lambda: evidence.what_is_stuck(full))
    ended = Counter(Workflow.objects.filter(id__in=ids).values_list("status", flat=True))
    tell(f"{CANCELS} cancels of activities: {dict(ended)}")
    assert set(ended) <= {"completed", "cancelled"}
