"""Many processes on one SQLite file."""

from __future__ import annotations

import logging
import uuid

import pytest
from django.db import connection

from durable.models import OutboxRow
from tests.chaos import evidence
from tests.chaos.fleet import FULL, Fleet, tell, until
from tests.waiting import in_thread
from tests.worker.conftest import Plant
from tests.worker.plant import workflows

WORKFLOWS = 2000 if FULL else 200
USERS = 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_four_processes_on_one_file_win_each_claim_once_and_no_lock_is_ever_told(
    plant: Plant, fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """Faults Q1, Q3: while users write as well."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL has row locks.")
    caplog.set_level(logging.INFO)

    def use(user: int) -> list[uuid.UUID]:
        return [plant.start(workflows.three, f"{user}-{number}") for number in range(WORKFLOWS // USERS)]

    crew = [fleet.hire() for _ in range(4)]
    users = [in_thread(use, user) for user in range(USERS)]
    ids = [workflow_id for user in users for workflow_id in user.result(300)]
    until(
        lambda: not evidence.open_ones(ids),
        within=500,
        stuck=lambda: f"{evidence.what_is_stuck(ids)}\n{fleet.tails()}",
    )
    assert [member.stop() for member in crew] == [0] * 4
    labels = plant.labels()
    assert len(labels) == len(set(labels)) == 3 * WORKFLOWS
    assert set(OutboxRow.objects.values_list("deliveries", flat=True)) == {1}
    evidence.assert_nothing_is_left()
    for told in (fleet.told, caplog.text):
        assert "locked" not in told
        assert "busy" not in told
    tell(f"{WORKFLOWS} workflows of three activities, 4 worker processes and {USERS} users on one file")
