"""`--burst` beside a delivery that it could neither acknowledge nor give back."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError

from durable.flow.delivery import abandon, acknowledge
from durable.models import OutboxRow
from durable.outcomes import Claim, Ending, WorkflowStatus
from durable.worker.process.modes import WorkerExit, WorkerMode
from durable.worker.process.worker import Worker
from tests.worker.conftest import Plant
from tests.worker.hearing import listening
from tests.worker.plant import activities


@pytest.mark.parametrize("error", [IntegrityError, OSError])
def test_a_burst_that_left_a_delivery_to_its_lease_does_not_say_that_all_is_done(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """The others are done; this one is leased, and nobody has it."""
    stuck = plant.enqueue(activities.note, "stuck")
    others = [plant.enqueue(activities.note, str(number)) for number in range(3)]
    row_id = plant.row(stuck).id
    write = acknowledge.acknowledge

    def refuse(endings: list[Ending]) -> Any:
        if any(ending.claim.row_id == row_id for ending in endings):
            raise error("refused")
        return write(endings)

    def keep(claim: Claim, **how: Any) -> Any:
        raise error("refused")

    monkeypatch.setattr(acknowledge, "acknowledge", refuse)
    monkeypatch.setattr(abandon, "abandon", keep)
    with listening() as ear:
        assert Worker(mode=WorkerMode.BURST).run() is WorkerExit.STORE
    assert {plant.look(other).status for other in others} == {WorkflowStatus.COMPLETED}
    assert OutboxRow.objects.get(id=row_id).status == "claimed"
    [left] = ear.of("burst_left_leases")
    assert (left.levelname, vars(left)["deliveries"]) == ("ERROR", 1)
