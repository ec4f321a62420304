"""A worker in this process, on the database under test: what becomes of handlers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from durable.kernel.definitions.registry import registry
from durable.kernel.history.events import EventType
from durable.models import Message, Workflow
from durable.outcomes import OutboxStatus, WorkflowStatus
from tests.settings import VENDOR
from tests.worker.conftest import Plant
from tests.worker.guarantees import *  # noqa: F403
from tests.worker.hearing import fields, listening
from tests.worker.plant import activities, workflows


@pytest.mark.parametrize("cached", [1, 3])
def test_more_workflows_than_find_room_in_memory_come_to_their_end_without_waiting(
    plant: Plant, settings: Any, cached: int
) -> None:
    """A start waits for those that keep the slots at work; a burst never waits for the bound."""
    settings.DURABLE = {**settings.DURABLE, "CACHED_WORKFLOWS": cached, "START_WAIT_FOR": timedelta(days=1)}
    asleep = [plant.start(workflows.sleep) for _ in range(5)]
    ids = [plant.start(workflows.three, f"w{at}") for at in range(20)]
    plant.burst()
    assert {plant.look(workflow_id).status for workflow_id in ids} == {WorkflowStatus.COMPLETED}
    assert [plant.history(workflow_id)[-1] for workflow_id in asleep] == [EventType.WORKFLOW_BEGUN] * 5


@pytest.mark.parametrize(
    ("definition", "type_name"),
    [
        (activities.refuse, "ValueError"),
        (activities.odd, "tests.worker.plant.activities.Odd"),
        (activities.leave, "SystemExit"),
        (activities.heartbeat_nan, "durable.errors.PayloadError"),
        (activities.overrun_async, "TimeoutError"),
    ],
)
def test_these_errors_fail_at_the_first_attempt(plant: Plant, definition: Any, type_name: str) -> None:
    """Faults P3, P5: errors that are not tried again, that fight back, and that would end a process."""
    with listening() as ear:
        workflow_id = plant.enqueue(definition)
        plant.burst()
    found = plant.look(workflow_id)
    assert (found.status, found.failure.type) == (WorkflowStatus.FAILED, type_name)
    assert plant.row(workflow_id).attempts == 1
    [record] = ear.of("activity.failed")
    spent = fields(record, "of") == (1,)
    assert fields(record, "why") == ("its attempts are spent" if spent else "its error is not retried",)


def test_what_other_code_had_to_block_is_tried_again_by_a_worker_with_this_code(plant: Plant) -> None:
    """Once after a deploy, without anybody pressing unblock. What this code blocked itself stays blocked."""
    repaired, hopeless = plant.start(workflows.three, "d"), plant.start(workflows.three, "e")
    for workflow_id, version in [(repaired, "the code before"), (hopeless, registry.version())]:
        Workflow.objects.filter(pk=workflow_id).update(blocked_reason="does not fit", blocked_version=version)
    Message.objects.update(parked=True)
    plant.burst()
    assert plant.look(repaired).status is WorkflowStatus.COMPLETED
    assert plant.look(hopeless).status is WorkflowStatus.RUNNING
    assert plant.labels() == ["d-0", "d-1", "d-2"]


SHUT_OUT = {
    "postgresql": ["SET search_path = nowhere", "SET LOCAL ROLE pg_monitor", "SET TRANSACTION READ ONLY"],
    "sqlite": ["PRAGMA query_only = ON"],
}


@pytest.mark.parametrize("how", SHUT_OUT[VENDOR])
def test_a_transactional_handler_after_which_nothing_can_be_written_is_failed_by_name_at_once(
    plant: Plant, how: str
) -> None:
    """Delivered again it ends the same; a dead letter would say that the database had refused the acknowledgement."""
    workflow_id = plant.enqueue(activities.spoil, how)
    after = plant.enqueue(activities.write_once, "h")
    plant.burst(concurrency=1)
    found = plant.look(workflow_id)
    assert (found.status, found.failure.type) == (WorkflowStatus.FAILED, "durable.errors.TransactionSpoilt")
    assert "plant.spoil has shut durable out of its transaction" in found.failure.message
    assert (plant.row(workflow_id).deliveries, plant.row(workflow_id).delivery_failures) == (1, 0)
    assert plant.look(after).status is WorkflowStatus.COMPLETED
    assert plant.labels() == ["h"]


def test_an_input_that_does_not_decode_is_not_run_and_becomes_a_dead_letter(plant: Plant, settings: Any) -> None:
    """Faults P9, O5."""
    settings.DURABLE = settings.DURABLE | {"DELIVERY_ATTEMPTS": 2}
    workflow_id = plant.enqueue(activities.note, "j")
    from durable.models import OutboxRow

    OutboxRow.objects.filter(workflow_id=workflow_id).update(input='{"label":')
    after = plant.enqueue(activities.note, "k")
    plant.burst()
    row = plant.row(workflow_id)
    assert (row.status, row.cause, row.attempts) == (OutboxStatus.DEAD.value, "undecodable_input", 0)
    assert plant.look(after).status is WorkflowStatus.COMPLETED
    assert plant.labels() == ["k"]


def test_an_unknown_handler_is_put_off_uncounted_and_the_next_row_runs(plant: Plant) -> None:
    """Faults O6."""
    workflow_id = plant.enqueue(activities.note, "l")
    from durable.models import OutboxRow

    OutboxRow.objects.filter(workflow_id=workflow_id).update(activity="plant.of_tomorrow")
    after = plant.enqueue(activities.note, "m")
    plant.burst()
    row = plant.row(workflow_id)
    assert (row.status, row.deliveries, row.delivery_failures) == (OutboxStatus.PENDING.value, 0, 0)
    assert plant.look(after).status is WorkflowStatus.COMPLETED


def test_a_worker_serves_its_queues_only(plant: Plant) -> None:
    mine = plant.enqueue(activities.note, "mine", queue="fast")
    other = plant.enqueue(activities.note, "other", queue="slow")
    plant.burst(queues=["fast", "faster"])
    assert plant.look(mine).status is WorkflowStatus.COMPLETED
    assert plant.look(other).status is WorkflowStatus.RUNNING
