"""django-q2 clusters as processes, on the broker of the ORM: real messages, real processes, real deaths."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

import pytest

from durable.flow.upkeep import beat
from durable.models import FailedAttempt, OutboxRow, Worker, WorkItem
from durable.outcomes import OutboxStatus, WorkflowStatus
from tests.chaos.fleet import Fleet, until
from tests.chaos.yard import activities as yard
from tests.ledger.models import Entry
from tests.transports.clusters import Clusters
from tests.worker.conftest import Plant
from tests.worker.plant import activities

pytestmark = pytest.mark.slow

WITHIN = 120.0


def wait_for(plant: Plant, ids: Iterable[uuid.UUID], clusters: Clusters, fleet: Fleet) -> None:
    """Wait until these workflows have ended."""
    until(
        lambda: all(plant.look(workflow_id).status is not WorkflowStatus.RUNNING for workflow_id in ids),
        within=WITHIN,
        stuck=lambda: f"{list(OutboxRow.objects.values())}\n{clusters.tails()}\n{fleet.tails()}",
    )


def test_activities_of_the_queue_run_in_the_cluster_and_the_others_in_the_worker(
    plant: Plant, clusters: Clusters, fleet: Fleet
) -> None:
    """Both stop cleanly, and the rows of their processes go with them."""
    cluster, worker = clusters.hire(), fleet.hire()
    ids = [plant.enqueue(yard.say_process, f"there {n}", queue="reports") for n in range(30)]
    here = [plant.enqueue(yard.say_process, f"here {n}") for n in range(3)]
    wait_for(plant, [*ids, *here], clusters, fleet)
    assert {int(plant.look(workflow_id).result) for workflow_id in here} == {worker.process.pid}
    there = {int(plant.look(workflow_id).result) for workflow_id in ids}
    rows = {row.name: row for row in Worker.objects.filter(cluster="default")}
    assert there <= {int(name.rsplit("-", 2)[1]) for name in rows}
    assert {tuple(row.queues) for row in rows.values()} == {("reports",)}
    assert {plant.row(workflow_id).worker for workflow_id in ids} <= set(rows)
    assert Entry.objects.count() == 33
    assert (worker.stop(), cluster.stop()) == (0, 0)
    assert list(Worker.objects.values("name")) == []


def test_a_cluster_whose_own_times_are_far_too_short_runs_a_long_handler_once(
    plant: Plant, clusters: Clusters, fleet: Fleet
) -> None:
    """Faults X1: `timeout` 1, `retry` 2, and a handler of ten seconds, which nothing stops and nobody else runs."""
    clusters.hire(options={"timeout": 1, "retry": 2, "max_attempts": 1, "ack_failures": False})
    fleet.hire(PLANT_LEASE="2")
    workflow_id = plant.enqueue(yard.work_until_stopped, 10_000, queue="reports")
    after = [plant.enqueue(yard.say_process, f"beside {n}", queue="reports") for n in range(5)]
    wait_for(plant, [workflow_id, *after], clusters, fleet)
    row = plant.row(workflow_id)
    assert (row.deliveries, row.attempts, plant.look(workflow_id).result) == (1, 1, '"done"')
    assert FailedAttempt.objects.count() == 0
    assert "reincarnated" not in clusters.tails()
    # The broker gave the message again while the handler ran.
    assert "message_without_delivery" in clusters.tails()


def test_a_handler_that_never_returns_costs_its_process_and_nothing_else(
    plant: Plant, clusters: Clusters, fleet: Fleet
) -> None:
    """Acknowledged in time from another thread; the cluster replaces the process in its own way, and goes on."""
    cluster = clusters.hire()
    fleet.hire()
    ids = [plant.enqueue(yard.hang, f"hang {n}", queue="reports") for n in range(4)]
    after = plant.enqueue(yard.say_process, "after", queue="reports")
    wait_for(plant, [*ids, after], clusters, fleet)
    assert {plant.look(workflow_id).failure.type for workflow_id in ids} == {"TimeoutError"}
    hung = set(Entry.objects.filter(label__startswith="hang").values_list("amount", flat=True))
    assert len(hung) == 4
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in hung), within=WITHIN, stuck=clusters.tails)
    assert "recycled worker" in cluster.told
    assert "after death" not in cluster.told


def test_a_handler_that_kills_its_process_becomes_a_dead_letter_and_others_get_through(
    plant: Plant, clusters: Clusters, fleet: Fleet, tmp_path: Path
) -> None:
    """Faults O1: each death counts, as it does in a worker."""
    clusters.hire(PLANT_LEASE="1")
    fleet.hire(PLANT_LEASE="1", PLANT_DELIVERIES="3")
    deadly = plant.enqueue(activities.die, str(tmp_path / "deaths"), queue="reports")
    OutboxRow.objects.update(delivery_budget=3)
    others = [plant.enqueue(yard.say_process, f"beside {n}", queue="reports") for n in range(10)]
    wait_for(plant, others, clusters, fleet)
    until(
        lambda: plant.row(deadly).status == OutboxStatus.DEAD,
        within=WITHIN,
        stuck=lambda: f"{list(OutboxRow.objects.values())}\n{clusters.tails()}\n{fleet.tails()}",
    )
    assert len((tmp_path / "deaths").read_text().split()) == 3
    assert set(FailedAttempt.objects.values_list("cause", flat=True)) == {"worker_died"}


def test_messages_that_are_lost_are_sent_anew_uncounted_while_the_cluster_lives(
    plant: Plant, clusters: Clusters, fleet: Fleet
) -> None:
    from django_q.models import OrmQ

    fleet.hire(PLANT_BEGIN="1")
    ids = [plant.enqueue(yard.say_process, f"lost {n}", queue="reports") for n in range(5)]
    OutboxRow.objects.update(delivery_budget=1)
    until(lambda: OrmQ.objects.count() >= 5, within=WITHIN, stuck=fleet.tails)
    # A process that lives, of a cluster that never got the messages.
    beat.beat(name="of-the-cluster-1-a", queues=["reports"], version="1", cluster="default")
    Worker.objects.update(beat_at="2130-01-01 00:00:00+00:00")
    OrmQ.objects.all().delete()
    until(lambda: OrmQ.objects.count() >= 5, within=WITHIN, stuck=fleet.tails)
    clusters.hire()
    wait_for(plant, ids, clusters, fleet)
    assert FailedAttempt.objects.count() == 0
    assert Entry.objects.count() == 5
    assert not WorkItem.objects.exists()
