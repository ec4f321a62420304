"""Django's own pool of connections on the host's alias: the engine keeps out of it, and handlers share it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from django.db import connections, transaction

from durable.outcomes import OutboxStatus, WorkflowStatus
from durable.store.connections import unpooled
from durable.worker.process.modes import WorkerMode
from durable.worker.process.worker import Worker
from durable.worker.threads import hygiene
from tests.hosting import hosted
from tests.settings import VENDOR
from tests.waiting import PATIENCE, Gate
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows
from tests.worker.threads import running, until, until_closed

pytestmark = pytest.mark.skipif(VENDOR != "postgresql", reason="Django's pool is PostgreSQL's")

SIZES = {
    "Django's default": True,
    "eight": {"min_size": 2, "max_size": 8},
    "one": {"min_size": 1, "max_size": 1},
}


@pytest.fixture
def pooled(plant: Plant, settings: Any) -> Iterator[Callable[[Any], None]]:
    """`pooled(True)`: from here on the alias has that pool, and a worker sixteen slots."""
    entered = []

    def enter(pool: Any) -> None:
        settings.DURABLE = settings.DURABLE | {"CONCURRENCY": 16}
        entered.append(hosted(options={"pool": pool}))
        entered[-1].__enter__()

    yield enter
    for block in reversed(entered):
        block.__exit__(None, None, None)


def sessions_of_the_pool() -> int:
    opened: dict[str, Any] = getattr(connections["default"], "_connection_pools", {})
    return opened["default"].get_stats()["requests_num"] if "default" in opened else 0


def outside_the_pool() -> Any:
    """The test's own thread looks on, and takes nothing from the pool that it is about."""
    return unpooled.kept_out("default")


@pytest.mark.parametrize("size", SIZES)
def test_work_goes_on_whatever_the_size_of_the_pool_and_nothing_is_counted_against_it(
    plant: Plant, pooled: Callable[[Any], None], size: str
) -> None:
    """Faults K1: 120 activities of all kinds on 16 slots, each delivered once."""
    from durable.models import OutboxRow

    pooled(SIZES[size])
    ids = [plant.start(workflows.fan, f"{size} {number}", 4) for number in range(10)]
    ids += [plant.start(workflows.journey, f"{size} {number}") for number in range(10)]
    ids += [plant.enqueue(activities.loops), plant.enqueue(activities.write_once, "alone")]
    for workflow_id in ids[10:20]:
        plant.signal(workflow_id, "go", "home")
    with outside_the_pool(), running():
        for workflow_id in ids:
            until_closed(plant, workflow_id)
    assert {plant.look(workflow_id).status for workflow_id in ids} == {WorkflowStatus.COMPLETED}
    assert set(OutboxRow.objects.values_list("status", "deliveries", "delivery_failures")) == {("done", 1, 0)}
    assert sessions_of_the_pool() > 0


@pytest.mark.parametrize("size", SIZES)
def test_a_burst_ends_with_a_pool_of_any_size(plant: Plant, pooled: Callable[[Any], None], size: str) -> None:
    pooled(SIZES[size])
    ids = [plant.start(workflows.three, f"{size} {number}") for number in range(5)]
    plant.burst()
    assert {plant.look(workflow_id).status for workflow_id in ids} == {WorkflowStatus.COMPLETED}


def test_no_thread_of_the_engine_draws_from_the_pool(plant: Plant, pooled: Callable[[Any], None]) -> None:
    """Claims, turns, acknowledgements, renewals, housekeeping, a burst's looks and its last words."""
    ids = [plant.enqueue(activities.add, 1, number) for number in range(20)]
    pooled(True)
    worker = Worker(mode=WorkerMode.BURST)
    assert worker.run() == 0
    assert sessions_of_the_pool() == 0
    assert unpooled.is_pooled(connections["default"]), "and the caller's thread has the host's pool again"
    assert {plant.look(workflow_id).status for workflow_id in ids} == {WorkflowStatus.COMPLETED}


def test_a_connection_that_the_engine_discards_is_followed_by_one_outside_the_pool(
    pooled: Callable[[Any], None], second_connection: Callable[..., Future[Any]]
) -> None:
    """Django makes a new wrapper, with the pool, for one that was deleted inside a transaction."""
    pooled({"min_size": 1, "max_size": 1, "timeout": 0.05})

    def use() -> tuple[bool, bool, int]:
        hygiene.connect()
        transaction.atomic().__enter__()
        first = connections["default"]
        hygiene.drop()
        after_the_drop = connections["default"] is not first and unpooled.is_kept_out(connections["default"])
        del connections["default"]
        hygiene.connect()
        return after_the_drop, unpooled.is_kept_out(connections["default"]), sessions_of_the_pool()

    assert second_connection(use).result(PATIENCE) == (True, True, 0)


def test_a_transactional_delivery_that_gets_no_connection_is_put_off_uncounted_and_health_is_red_meanwhile(
    plant: Plant, pooled: Callable[[Any], None], door: Callable[[str], Gate]
) -> None:
    """Faults K1: one handler sits on the only connection; what comes after it loses nothing."""
    gate = door("held")
    pooled({"min_size": 1, "max_size": 1, "timeout": 0.05})
    holding = plant.enqueue(activities.pass_gate_holding, "held")
    with outside_the_pool(), running() as (worker, _):
        gate.wait_for_arrival()
        refused = plant.enqueue(activities.write_once, "later")
        until(lambda: any("pool of the database 'default' is empty" in text for text in worker.complaints()))
        until(lambda: plant.row(refused).status == OutboxStatus.PENDING.value)
        row = plant.row(refused)
        assert (row.deliveries, row.delivery_failures, row.attempts) == (0, 0, 0)
        gate.open()
        until_closed(plant, holding)
        until_closed(plant, refused)
        until(lambda: worker.complaints() == [])
    assert plant.row(refused).status == OutboxStatus.DONE.value
    assert list(plant.row(refused).failed_attempts.all()) == []
    assert plant.labels().count("later") == 1


def test_a_handlers_thread_gives_its_connection_back_after_each_handler(
    plant: Plant, pooled: Callable[[Any], None]
) -> None:
    """Sixteen threads that kept theirs would starve all but four of them."""
    pooled({"min_size": 1, "max_size": 1, "timeout": PATIENCE})
    ids: list[uuid.UUID] = []
    with outside_the_pool(), running() as (worker, _):
        ids += [plant.enqueue(activities.note, f"{number}") for number in range(32)]
        ids += [plant.enqueue(activities.note_async, f"async {number}") for number in range(8)]
        for workflow_id in ids:
            until_closed(plant, workflow_id)
        [pool] = unpooled.pools().values()
        until(lambda: pool.get_stats()["pool_available"] == 1)
        assert worker.complaints() == []
    assert len(set(plant.labels())) == 40
