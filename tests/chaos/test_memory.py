"""A worker does not grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.models import OutboxRow
from durable.outcomes import OutboxStatus
from tests.chaos.fleet import FULL, Fleet, Member, tell, until
from tests.worker.conftest import Plant
from tests.worker.plant import activities

WARM_UP, ACTIVITIES = 1_000, 20_000 if FULL else 3_000
GROWTH_KIB = 20 * 1024


def resident_kib(member: Member) -> int:
    """Resident memory, in KiB."""
    status = Path(f"/proc/{member.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_with_debug_on_a_worker_does_not_grow_with_what_it_has_done(plant: Plant, fleet: Fleet) -> None:
    """Faults J10."""
    worker = fleet.hire(PLANT_DEBUG="1")

    def drain(count: int) -> int:
        activities.add.enqueue_many([(number, 1) for number in range(count)])
        undone = OutboxRow.objects.exclude(status=OutboxStatus.DONE)
        until(lambda: not undone.exists(), within=500, stuck=fleet.tails)
        return resident_kib(worker)

    before = drain(WARM_UP)
    after = drain(ACTIVITIES)
    tell(f"resident memory: {before} KiB after {WARM_UP} activities, {after} KiB after {ACTIVITIES} more")
    assert after - before < GROWTH_KIB
    assert worker.stop() == 0
