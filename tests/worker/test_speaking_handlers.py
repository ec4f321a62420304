"""`durable.logger` in activities: host handlers cannot fail an attempt, and a rollback takes no line back."""

from __future__ import annotations

import threading

import pytest

from tests.worker.conftest import Plant
from tests.worker.hearing import listening, raising
from tests.worker.plant import activities


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3)])
def test_a_handler_that_raises_fails_no_attempt_that_logs(plant: Plant, error: BaseException) -> None:
    with listening(raising(error)) as ear:
        workflow_id = plant.enqueue(activities.log, "one")
        plant.burst()
    assert plant.look(workflow_id).status == "completed"
    assert "at work: one" in [record.getMessage() for record in ear.records]


def test_a_line_of_a_transactional_handler_is_said_though_its_transaction_is_rolled_back(plant: Plant) -> None:
    ran: list[str] = []
    with listening(lambda record: ran.append(threading.current_thread().name), name="durable.workflow") as ear:
        plant.enqueue(activities.say_and_fail, "one")
        plant.burst()
    assert [record.getMessage() for record in ear.records] == ["about to fail: one"]
    assert (ear.records[0].filename, ear.records[0].funcName) == ("activities.py", "say_and_fail")
    assert ran == ["durable-outbound"]
