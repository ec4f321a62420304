"""Workers of a project in which some queues are sent: who serves what, and what moves with the setting."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from durable import testing
from durable.models import OutboxRow, WorkItem
from durable.outcomes import WorkflowStatus
from durable.worker.process.receiving import Received, receive
from tests.chaos.fleet import until
from tests.transports import in_process
from tests.transports.conftest import RECORDED, Served
from tests.transports.doubles import Recorded, Subprocess
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows

Serving = Callable[..., AbstractContextManager[Served]]


def wait_until(condition: Callable[[], bool]) -> None:
    until(condition, within=PATIENCE, stuck=lambda: str(list(OutboxRow.objects.values())))


def completed(plant: Plant, *ids: uuid.UUID) -> bool:
    return all(plant.look(workflow_id).status is WorkflowStatus.COMPLETED for workflow_id in ids)


def test_a_transport_of_a_few_lines_is_a_whole_one(
    plant: Plant, sent_to: Callable[..., None], served: Serving, subprocess_environment: dict[str, str]
) -> None:
    """A process for each delivery: two functions to send, and one call to receive."""
    plant_settings = {"DJANGO_SETTINGS_MODULE": "tests.worker.plant_settings"}
    Subprocess.environment = subprocess_environment | plant_settings
    sent_to("tests.transports.doubles.Subprocess")
    ids = [plant.enqueue(activities.note, f"label {n}", queue="reports") for n in range(3)]
    with served():
        wait_until(lambda: completed(plant, *ids))
    assert sorted(plant.labels()) == ["label 0", "label 1", "label 2"]
    assert len(Subprocess.started) == 3


@pytest.mark.parametrize("queues", [(), ("reports", "default")])
def test_a_worker_runs_none_of_what_it_sends(
    plant: Plant, recorded: type[Recorded], served: Serving, queues: tuple[str, ...]
) -> None:
    away = plant.enqueue(activities.note, "away", queue="reports")
    here = plant.enqueue(activities.note, "here")
    with served(queues=queues):
        wait_until(lambda: completed(plant, here) and bool(recorded.sent))
        assert plant.labels() == ["here"]
        assert plant.look(away).status is WorkflowStatus.RUNNING


def test_a_worker_of_other_queues_sends_nothing(plant: Plant, recorded: type[Recorded], served: Serving) -> None:
    plant.enqueue(activities.note, "away", queue="reports")
    here = plant.enqueue(activities.note, "here")
    with served(queues=("default",)):
        wait_until(lambda: completed(plant, here))
    assert (recorded.sent, OutboxRow.objects.get(queue="reports").deliveries) == ([], 0)


def test_a_turn_claims_nothing_for_itself_that_is_to_be_sent(
    plant: Plant, settings: Any, recorded: type[Recorded], served: Serving
) -> None:
    """What a workflow stages goes to the transport, though the worker that turns it has slots free."""
    queues = {"default": {"transport": RECORDED, "cluster": "default"}}
    settings.DURABLE = {**settings.DURABLE, "QUEUES": queues}
    plant.start(workflows.fan, "wide", 5)
    with served():
        wait_until(lambda: len(recorded.sent) == 5)
        assert plant.labels() == []


def test_at_a_stop_what_has_not_begun_goes_back_uncounted(
    plant: Plant, recorded: type[Recorded], served: Serving
) -> None:
    for n in range(3):
        plant.enqueue(activities.note, f"label {n}", queue="reports")
    with served() as serving:
        wait_until(lambda: len(recorded.sent) == 3)
        assert serving.stop() == 0
    rows = OutboxRow.objects.all()
    assert {(row.status, row.deliveries, row.delivery_failures, row.suspect) for row in rows} == {
        ("pending", 0, 0, False)
    }
    assert not WorkItem.objects.exists()


def test_a_burst_leaves_to_others_what_is_sent(plant: Plant, recorded: type[Recorded]) -> None:
    """It would take it back at its end. What it can do itself is done; turns of the queue's workflows are."""
    plant.enqueue(activities.note, "away", queue="reports")
    plant.enqueue(activities.note, "here")
    plant.burst()
    plant.burst(queues=("reports",))
    assert (plant.labels(), recorded.sent) == (["here"], [])


def test_a_drain_of_a_users_test_runs_what_would_be_sent(plant: Plant, recorded: type[Recorded]) -> None:
    """It waits for no cluster, and needs none."""
    away = plant.enqueue(activities.note, "away", queue="reports")
    testing.drain()
    assert (plant.labels(), recorded.sent) == (["away"], [])
    assert completed(plant, away)


def test_a_queue_that_goes_back_to_the_workers_takes_its_work_along(
    plant: Plant, recorded: type[Recorded], served: Serving, settings: Any
) -> None:
    """What is at the broker then is worth nothing."""
    ids = [plant.enqueue(activities.note, f"label {n}", queue="reports") for n in range(3)]
    with served():
        wait_until(lambda: len(recorded.sent) == 3)
    settings.DURABLE = {key: value for key, value in settings.DURABLE.items() if key != "QUEUES"}
    plant.burst()
    assert completed(plant, *ids)
    with in_process.receiver():
        assert {receive(*message) for message in recorded.sent} == {Received.STALE}
    assert len(plant.labels()) == 3


def test_what_was_begun_before_the_queue_moves_ends_where_it_is(
    plant: Plant, recorded: type[Recorded], served: Serving, settings: Any
) -> None:
    begun = plant.enqueue(activities.note, "begun", queue="reports")
    with served():
        wait_until(lambda: len(recorded.sent) == 1)
        with in_process.receiver():
            settings.DURABLE = {key: value for key, value in settings.DURABLE.items() if key != "QUEUES"}
            assert receive(*recorded.sent[0]) is Received.RAN
    assert completed(plant, begun)


def test_a_queue_that_is_sent_from_now_on_takes_its_work_along(
    plant: Plant, sent_to: Callable[..., None], served: Serving
) -> None:
    ids = [plant.enqueue(activities.fail_once, f"label {n}", queue="reports") for n in range(3)]
    plant.enqueue(activities.note, "elsewhere")
    from durable.flow.delivery import claim

    claim.claim(worker="before", limit=1, queues=("reports",), lease_for=plant_lease())
    sent_to("tests.transports.in_process.InProcess")
    WorkItem.objects.update(locked_until="2020-01-01 00:00:00+00:00")
    with in_process.receiver(), served():
        wait_until(lambda: completed(plant, *ids))


def plant_lease() -> Any:
    from durable.conf import settings

    return settings.lease_for
