"""Clusters, workers and brokers die at random moments, and nothing is lost or recorded twice."""

from __future__ import annotations

import json
import os
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durable.kernel.history.events import EventType
from durable.models import FailedAttempt, OutboxRow, WorkItem
from durable.outcomes import OutboxStatus, WorkflowStatus
from tests.chaos import evidence
from tests.chaos.fleet import FULL, Fleet, chance, pass_time, tell, until
from tests.chaos.yard import activities as yard
from tests.ledger.models import Entry
from tests.transports.clusters import Cluster, Clusters
from tests.transports.redis_server import Redis, need_redis
from tests.worker.conftest import Plant
from tests.worker.plant import activities

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800 if FULL else 600)]

ACTIVITIES, ROUNDS = (500, 40) if FULL else (60, 4)
FLUSHED = 100
SHORT = {"PLANT_LEASE": "2", "PLANT_BEGIN": "3", "PLANT_MAX_OUT": "20"}


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    """A Redis of this test's own."""
    need_redis()
    made = Redis(tmp_path)
    made.start()
    yield made
    made.kill()


class Storm:
    """Whoever is hit stands up again."""

    def __init__(self, clusters: Clusters, fleet: Fleet, redis: Redis | None, rng: random.Random) -> None:
        self._clusters, self._fleet, self._redis, self._rng = clusters, fleet, redis, rng
        self._options = {} if redis is None else redis.options
        self.cluster = self._new_cluster()
        self.worker = self._new_worker()

    def _new_cluster(self) -> Cluster:
        return self._clusters.hire(options=self._options, **SHORT)

    def _new_worker(self) -> Any:
        return self._fleet.hire(PLANT_CLUSTER=json.dumps(self._options), **SHORT)

    def strike(self) -> str:
        """One blow, at whoever it is."""
        blows: list[Callable[[], None]] = [self._kill_cluster, self._kill_worker]
        if self._redis is not None:
            blows += [self._kill_redis, self._redis.flush]
        blow = self._rng.choice(blows)
        blow()
        return blow.__name__

    def _kill_cluster(self) -> None:
        self.cluster.kill()
        self.cluster = self._new_cluster()

    def _kill_worker(self) -> None:
        self.worker.kill()
        self.worker = self._new_worker()

    def _kill_redis(self) -> None:
        assert self._redis is not None
        self._redis.kill()
        pass_time(self._rng.uniform(0, 1))
        self._redis.start()

    def pass_by(self) -> None:
        """Afterwards somebody is there: a cluster that found no broker at its start has ended."""
        if self.cluster.process.poll() is not None:
            self.cluster = self._new_cluster()


@pytest.fixture
def patient(plant: Plant, settings: Any) -> Plant:
    """The plant, whose rows may be delivered as often as it takes: each blow costs some of them a delivery."""
    settings.DURABLE = {**settings.DURABLE, "DELIVERY_ATTEMPTS": 1000}
    return plant


@pytest.mark.parametrize("broker", ["orm", "redis"])
def test_kills_at_random_moments_lose_nothing_and_record_nothing_twice(
    patient: Plant, clusters: Clusters, fleet: Fleet, broker: str, request: pytest.FixtureRequest
) -> None:
    """Faults S1, S4, S5, S8: SIGKILL of the cluster, of the worker that sends, and of a Redis that keeps nothing."""
    plant = patient
    rng = chance(f"storm on {broker}")
    server = request.getfixturevalue("redis") if broker == "redis" else None
    storm = Storm(clusters, fleet, server, rng)
    once: list[uuid.UUID] = []
    again: list[uuid.UUID] = []
    long: list[uuid.UUID] = []
    blows: Counter[str] = Counter()
    for _ in range(ROUNDS):
        for _ in range(ACTIVITIES // ROUNDS // 3 + 1):
            number = len(once)
            once.append(plant.enqueue(activities.write_once, f"once {number}", queue="reports"))
            again.append(plant.enqueue(activities.note, f"again {number}", queue="reports"))
            # Long enough to be hit while it runs.
            long.append(plant.enqueue(yard.work_until_stopped, 200, queue="reports"))
        pass_time(rng.uniform(0, 3))
        blows[storm.strike()] += 1
        storm.pass_by()
    ids = [*once, *again, *long]

    def is_over() -> bool:
        storm.pass_by()
        return not evidence.open_ones(ids)

    until(
        is_over,
        within=900 if FULL else 240,
        stuck=lambda: f"{evidence.what_is_stuck(ids)}\n{clusters.tails()}\n{fleet.tails()}",
    )
    tell(f"{len(ids)} activities, {dict(blows)}, lost deliveries: {dict(evidence.lost_attempts())}")
    ended = [EventType.WORKFLOW_STARTED, EventType.WORKFLOW_COMPLETED]
    assert all(plant.history(workflow_id) == ended for workflow_id in ids)
    count = Counter(Entry.objects.values_list("label", flat=True))
    assert {count[f"once {number}"] for number in range(len(once))} == {1}
    assert min(count[f"again {number}"] for number in range(len(again))) >= 1
    # A cluster that dies between the effect and the acknowledgement repeats it; nothing else does.
    repeated = sum(count[f"again {number}"] - 1 for number in range(len(again)))
    lost = evidence.lost_attempts()
    assert repeated <= lost["worker_died"] + lost["lease_lost"]
    assert set(lost) <= {"worker_died", "lease_lost", "transport_down", "transport_lost"}
    assert not WorkItem.objects.exists()
    assert not OutboxRow.objects.exclude(status=OutboxStatus.DONE).exists()


def test_a_broker_that_forgets_everything_loses_nothing(
    plant: Plant, clusters: Clusters, fleet: Fleet, redis: Redis, tmp_path: Path
) -> None:
    """A hundred messages are out when it is flushed. They come again, uncounted, since the cluster lives."""
    arrived, opened = str(tmp_path / "arrived"), str(tmp_path / "opened")
    os.mkfifo(arrived)
    os.mkfifo(opened)
    options = {**redis.options, "workers": 1}
    clusters.hire(options=options, **SHORT)
    fleet.hire(PLANT_CLUSTER=json.dumps(options), **SHORT | {"PLANT_MAX_OUT": str(FLUSHED + 5), "PLANT_BEGIN": "10"})
    first = plant.enqueue(activities.hold_pipe, arrived, opened, "first", queue="reports")
    Path(arrived).read_text()
    ids = [plant.enqueue(activities.note, f"flushed {n}", queue="reports") for n in range(FLUSHED)]
    # The cluster's memory holds some of them, while its only process is busy.
    until(
        lambda: WorkItem.objects.filter(begun_at=None).count() == FLUSHED and redis.waiting() >= FLUSHED - 5,
        within=120,
        stuck=lambda: f"{redis.waiting()} wait\n{clusters.tails()}\n{fleet.tails()}",
    )
    redis.flush()
    Path(opened).write_text("go")
    until(
        lambda: not evidence.open_ones([first, *ids]),
        within=240,
        stuck=lambda: f"{evidence.what_is_stuck(ids)}\n{clusters.tails()}\n{fleet.tails()}",
    )
    assert all(plant.look(workflow_id).status is WorkflowStatus.COMPLETED for workflow_id in ids)
    assert FailedAttempt.objects.count() == 0
    assert Counter(Entry.objects.values_list("label", flat=True)).most_common(1)[0][1] == 1
    assert Entry.objects.count() == FLUSHED + 1


def test_while_the_broker_is_away_nothing_is_claimed_or_counted(
    plant: Plant, clusters: Clusters, fleet: Fleet, redis: Redis
) -> None:
    """Faults O9: the ping is refused, and what was due goes on its way once the broker is back."""
    redis.kill()
    worker = fleet.hire(PLANT_CLUSTER=json.dumps(redis.options), **SHORT)
    ids = [plant.enqueue(activities.note, f"late {n}", queue="reports") for n in range(10)]
    OutboxRow.objects.update(delivery_budget=1)
    until(lambda: "transport_refuses" in worker.told, within=120, stuck=fleet.tails)
    rows = OutboxRow.objects.values_list("status", "deliveries", "delivery_failures")
    assert set(rows) == {("pending", 0, 0)}
    redis.start()
    clusters.hire(options=redis.options, **SHORT)
    until(
        lambda: not evidence.open_ones(ids),
        within=240,
        stuck=lambda: f"{evidence.what_is_stuck(ids)}\n{clusters.tails()}\n{fleet.tails()}",
    )
    assert FailedAttempt.objects.count() == 0
    assert Entry.objects.count() == 10
