"""Tests of what is promised of activities, whoever runs them. The modules that import them say who does: workers
themselves, or a transport.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils.translation import gettext_lazy, override

from durable import get_workflow
from durable.kernel.history.events import EventType
from durable.outcomes import OutboxStatus, WorkflowStatus
from tests.waiting import Gate
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows


def test_a_workflow_runs_to_its_end(plant: Plant) -> None:
    workflow_id = plant.start(workflows.three, "a")
    plant.burst()
    found = plant.look(workflow_id)
    assert (found.status, found.result) == (WorkflowStatus.COMPLETED, '["a-0","a-1","a-2"]')
    assert plant.labels() == ["a-0", "a-1", "a-2"]


def test_a_fan_out_wider_than_the_slots_runs_each_once(plant: Plant) -> None:
    """Faults X5."""
    workflow_id = plant.start(workflows.fan, "b", 50)
    plant.burst()
    assert plant.look(workflow_id).result == "50"
    assert sorted(plant.labels()) == sorted(f"b-{at}" for at in range(50))


def test_single_activities_end_with_their_result(plant: Plant) -> None:
    ids = [plant.enqueue(activities.add, number, 1) for number in range(30)]
    plant.burst()
    assert [plant.look(workflow_id).result for workflow_id in ids] == [str(number + 1) for number in range(30)]
    assert plant.history(ids[0]) == [EventType.WORKFLOW_STARTED, EventType.WORKFLOW_COMPLETED]


def test_a_limit_of_three_means_three_starts(plant: Plant) -> None:
    """Faults O2, P4."""
    workflow_id = plant.enqueue(activities.fail, "c")
    plant.burst()
    found = plant.look(workflow_id)
    assert found.status is WorkflowStatus.FAILED
    assert (found.failure.type, found.failure.message) == ("RuntimeError", "no c")
    assert "raise RuntimeError" in found.failure.traceback
    assert plant.labels() == ["c"] * 3


def test_a_failed_attempt_is_made_again(plant: Plant) -> None:
    workflow_id = plant.enqueue(activities.fail_once, "d")
    plant.burst()
    assert plant.look(workflow_id).result == "2"
    assert plant.row(workflow_id).failed_attempts.count() == 1


def test_a_result_that_json_can_not_carry_fails_once_and_keeps_side_results(plant: Plant) -> None:
    """Faults P2."""
    workflow_id = plant.enqueue(activities.nan, "e")
    plant.burst()
    found = plant.look(workflow_id)
    assert (found.status, found.failure.type) == (WorkflowStatus.FAILED, "durable.errors.PayloadError")
    assert plant.labels() == ["e"]


def test_a_heartbeat_of_one_attempt_can_be_read_by_the_next(plant: Plant) -> None:
    workflow_id = plant.enqueue(activities.heartbeat)
    plant.burst()
    assert plant.look(workflow_id).result == '{"page":7}'


def test_an_overrun_attempt_is_spent_and_its_slot_is_not(plant: Plant, door: Callable[[str], Gate]) -> None:
    """Two attempts stand at the door for ever; with one slot, the third one still runs."""
    door("late")
    workflow_id = plant.enqueue(activities.overrun, "late")
    plant.burst(concurrency=1)
    assert plant.look(workflow_id).result == '"in time"'
    assert [failed.cause for failed in plant.row(workflow_id).failed_attempts.all()] == ["timeout", "timeout"]


def test_event_loops_work_inside_a_sync_handler(plant: Plant) -> None:
    """Faults J8."""
    workflow_id = plant.enqueue(activities.loops)
    plant.burst()
    assert plant.look(workflow_id).result == '"1 2"'


def test_a_handler_that_leaves_a_transaction_open_is_failed_by_name(plant: Plant) -> None:
    """Faults C10."""
    workflow_id = plant.enqueue(activities.left_open, "f")
    after = plant.enqueue(activities.note, "g")
    plant.burst(concurrency=1)
    found = plant.look(workflow_id)
    assert (found.status, found.failure.type) == (WorkflowStatus.FAILED, "durable.errors.TransactionLeftOpen")
    assert plant.look(after).status is WorkflowStatus.COMPLETED
    assert plant.labels() == ["g"]


def test_a_begin_that_django_knows_nothing_of_is_found_too(plant: Plant) -> None:
    """Faults C10. What the next handler of that thread writes would have been lost with it."""
    workflow_id = plant.enqueue(activities.left_open_by_hand, "f")
    after = plant.enqueue(activities.note, "g")
    plant.burst(concurrency=1)
    found = plant.look(workflow_id)
    assert (found.status, found.failure.type) == (WorkflowStatus.FAILED, "durable.errors.TransactionLeftOpen")
    assert plant.look(after).status is WorkflowStatus.COMPLETED
    assert plant.labels() == ["g"]


@pytest.mark.parametrize("how", ["entered", "closed", "marked", "rolled back", "aborted"])
def test_a_transactional_handler_that_spoils_its_transaction_is_failed_by_name(plant: Plant, how: str) -> None:
    """Specification A6, faults C10. Neither a dead letter, nor a completion that nobody committed."""
    if how == "aborted" and connection.vendor == "sqlite":
        pytest.skip("On SQLite a failed statement undoes itself, and the transaction goes on.")
    workflow_id = plant.enqueue(activities.spoil, how)
    after = plant.enqueue(activities.write_once, "h")
    plant.burst(concurrency=1)
    found = plant.look(workflow_id)
    assert (found.status, found.failure.type) == (WorkflowStatus.FAILED, "durable.errors.TransactionSpoilt")
    assert plant.look(after).status is WorkflowStatus.COMPLETED
    assert plant.labels() == ["h"]


def test_a_transactional_handler_that_raises_inside_a_block_it_did_not_leave_writes_nothing(plant: Plant) -> None:
    """Specification A6. Its error ends the whole transaction, and not a savepoint of it."""
    workflow_id = plant.enqueue(activities.entered_and_raised, "i")
    plant.burst(concurrency=1)
    assert plant.look(workflow_id).failure.type == "LookupError"
    assert plant.labels() == []


def test_a_transactional_handler_commits_with_its_completion(plant: Plant) -> None:
    workflow_id = plant.enqueue(activities.write_once, "h")
    plant.burst()
    assert plant.look(workflow_id).result == f'"{workflow_id}:1:1"'
    assert plant.labels() == ["h"]


def test_a_transactional_handler_that_fails_leaves_nothing_but_its_failure(plant: Plant) -> None:
    """Specification A6."""
    workflow_id = plant.enqueue(activities.write_and_fail, "i")
    plant.burst()
    found = plant.look(workflow_id)
    assert (found.status, found.failure.message) == (WorkflowStatus.FAILED, "rolled back")
    assert plant.labels() == []


def test_an_unknown_handler_counts_after_its_time_and_ends_as_a_dead_letter(plant: Plant, settings: Any) -> None:
    """Faults O6."""
    settings.DURABLE = settings.DURABLE | {"DELIVERY_ATTEMPTS": 2, "UNKNOWN_HANDLER_FOR": timedelta()}
    workflow_id = plant.enqueue(activities.note, "n")
    from durable.models import OutboxRow

    OutboxRow.objects.filter(workflow_id=workflow_id).update(activity="plant.of_yesterday")
    plant.burst()
    row = plant.row(workflow_id)
    assert (row.status, row.cause) == (OutboxStatus.DEAD.value, "unknown_handler")
    errors = [failed.error["message"] for failed in row.failed_attempts.all()]
    assert len(errors) == 2
    assert all("plant.of_yesterday" in error for error in errors)


def test_what_an_overrun_handler_says_later_is_dropped(plant: Plant, door: Callable[[str], Gate]) -> None:
    """Its attempt has failed with a timeout; the late result changes nothing."""
    gate = door("o")
    workflow_id = plant.enqueue(activities.overrun, "o", budget=1)
    plant.burst()
    gate.open()
    found = plant.look(workflow_id)
    assert (found.status, found.failure.type) == (WorkflowStatus.FAILED, "TimeoutError")
    assert "start_to_close" in found.failure.message


def test_lazy_texts_go_in_come_out_and_are_sent_as_texts(plant: Plant) -> None:
    said = plant.enqueue(activities.speak, gettext_lazy("Maybe"))
    journey = plant.start(workflows.journey, gettext_lazy("Yes"))
    with override("de"):
        get_workflow(journey).signal("go", gettext_lazy("Yes"))
    plant.burst()
    assert plant.look(said).result == '["Maybe","Yes","No"]'
    assert plant.labels()[-1] == "Yes Ja"
