"""Results beside rows that a foreign session holds: others are written meanwhile, and no handler runs again."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from durable.flow.delivery import abandon, acknowledge
from durable.flow.looks import probe
from durable.models import FailedAttempt, OutboxRow, WorkItem
from durable.outcomes import AckOutcome, Cause, Claim, Ending, GiveBack, OutboxStatus, WorkflowStatus
from durable.worker.handlers import execute
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.execute import GiveUp
from durable.worker.loops import aside
from durable.worker.loops.acks import Acks
from durable.worker.loops.leases import Leases
from durable.worker.process.modes import WorkerExit
from durable.worker.threads.wakeup import Wake
from tests.flow.state import locked_elsewhere
from tests.settings import VENDOR
from tests.waiting import Gate
from tests.worker.benches import FAILURE, WAITS, Bench, due_now
from tests.worker.conftest import Plant
from tests.worker.making import CountedTime, delivery
from tests.worker.plant import activities
from tests.worker.threads import running, until, until_closed

pytestmark = pytest.mark.skipif(VENDOR != "postgresql", reason="SQLite has no row locks.")

MINUTE = 60_000_000
TABLES = {
    "its outbox row": ("durable_outboxrow", "id", "row_id"),
    "its work item": ("durable_workitem", "outbox_row_id", "row_id"),
    "its workflow": ("durable_workflow", "id", "workflow_id"),
}


class Desk:
    """An ack thread's body run in the test, with foreign sessions that hold rows until the test says otherwise."""

    def __init__(self) -> None:
        self.time = CountedTime()
        self.leases = Leases(lease_for=timedelta(minutes=1), idle=Wake())
        self.ended: list[Claim] = []
        self.acks = Acks(
            ended=self._ended,
            timing=self.time,
            set_aside=self.leases.set_aside,
            counted_again=self.leases.count_again,
        )
        self.locks = ExitStack()
        self.freed = False

    def free(self) -> None:
        self.freed = True
        self.locks.close()

    def _ended(self, delivery: Delivery, outcome: Any) -> None:
        self.ended.append(delivery.claim)
        self.leases.end(delivery)

    def lock(self, claims: Sequence[Claim], what: str = "its outbox row") -> None:
        table, column, key = TABLES[what]
        for claim in claims:
            self.locks.enter_context(locked_elsewhere(table, column, getattr(claim, key)))

    def submit(self, claims: Sequence[Claim]) -> None:
        """Run the handlers, and hand over what they ended with."""
        for claim in claims:
            mine = Delivery(claim)
            self.leases.hold([mine])
            self.acks.submit(mine, execute.run(claim, rng=None, delivery=mine))  # type: ignore[arg-type]

    def write(self, *, until: Callable[[], bool], then: Callable[[], None]) -> None:
        """Write until the state of things is as told; then do something, and write the rest."""
        done: list[None] = []

        def during_wait() -> None:
            if not done and until():
                done.append(None)
                then()
                self.acks.finish(0)

        self.time.during_wait = during_wait
        self.acks.run()
        assert done, "It never came to that."


@pytest.fixture
def bench(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


@pytest.fixture
def desk(plant: Plant) -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.locks.close()


@pytest.mark.parametrize("what", TABLES)
def test_a_lock_that_outlasts_all_tries_costs_no_result_and_no_second_run(
    plant: Plant, bench: Bench, desk: Desk, what: str
) -> None:
    """Eight of twelve are held for a minute: the others are written at once, these when they are free again."""
    ids = [plant.enqueue(activities.note, str(number)) for number in range(12)]
    claims = bench.claim()
    desk.lock(claims[:8], what)
    desk.submit(claims)
    began = desk.time.at

    def state() -> tuple[int, int]:
        return desk.acks.locked, desk.leases.in_flight

    def a_minute_later() -> bool:
        assert len(desk.ended) in (0, 4)
        return desk.time.at > began + MINUTE

    def free() -> None:
        assert state() == (8, 0)
        assert desk.leases.count == 8, "They are renewed."
        desk.locks.close()

    desk.write(until=a_minute_later, then=free)
    assert sorted(plant.labels()) == sorted(str(number) for number in range(12))
    assert {plant.look(id).status for id in ids} == {WorkflowStatus.COMPLETED}
    assert state() == (0, 0)
    assert desk.acks.pending == 0
    assert set(OutboxRow.objects.values_list("deliveries", "delivery_failures")) == {(1, 0)}
    assert not FailedAttempt.objects.exists()


def test_of_one_batch_each_goes_on_when_its_own_lock_is_gone(plant: Plant, bench: Bench, desk: Desk) -> None:
    """A batch of claims has one token, and is not one thing for that."""
    for number in range(3):
        plant.enqueue(activities.note, str(number))
    claims = bench.claim()
    assert len({claim.token for claim in claims}) == 1
    first = ExitStack()
    first.enter_context(locked_elsewhere("durable_outboxrow", "id", claims[0].row_id))
    desk.lock(claims[1:2])
    desk.submit(claims)

    def free_the_first() -> bool:
        if desk.acks.locked == 2:
            first.close()
        return desk.acks.locked == 1 and claims[0] in desk.ended

    desk.write(until=free_the_first, then=desk.locks.close)
    assert desk.ended == [claims[2], claims[0], claims[1]]


def test_a_lock_that_ends_within_the_tries_ends_them(plant: Plant, bench: Bench) -> None:
    """The schedule is the same as for every passing fault."""
    workflow_id = plant.enqueue(activities.note, "a")
    claims = bench.claim()
    with ExitStack() as locks:
        locks.enter_context(locked_elsewhere("durable_outboxrow", "id", claims[0].row_id))
        bench.time.during_wait = lambda: locks.close() if len(bench.time.waits) == 3 else None
        bench.deliver(claims)
    assert bench.time.waits == WAITS[:3]
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED


def test_of_a_hundred_the_one_that_is_held_for_five_tries_is_abandoned(
    plant: Plant, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Specification A5.9 with a real lock, which is gone as soon as the fifth attempt has failed."""
    for number in range(100):
        plant.enqueue(activities.add, number, 0)
    claims = bench.claim()
    held = claims[41]
    locks = ExitStack()
    locks.enter_context(locked_elsewhere("durable_outboxrow", "id", held.row_id))
    tries: dict[int, int] = {}
    inner = acknowledge.acknowledge

    def count(endings: Sequence[Ending]) -> list[AckOutcome]:
        for ending in endings:
            tries[ending.claim.row_id] = tries.get(ending.claim.row_id, 0) + 1
        try:
            return inner(endings)
        finally:
            if tries[held.row_id] == 5:
                locks.close()

    with locks:
        monkeypatch.setattr(acknowledge, "acknowledge", count)
        bench.deliver(claims)
    monkeypatch.setattr(acknowledge, "acknowledge", inner)
    assert tries.pop(held.row_id) == 5
    assert set(tries.values()) == {2}
    assert bench.time.waits == WAITS
    row = plant.row(held.workflow_id)
    assert (row.status, row.delivery_failures) == (OutboxStatus.PENDING.value, 1)
    due_now(held.workflow_id)
    [again] = bench.claim()
    bench.deliver([again])
    assert plant.look(held.workflow_id).status is WorkflowStatus.COMPLETED


def test_a_lock_that_outlasts_all_patience_is_said_and_the_lease_runs_out(
    plant: Plant, bench: Bench, desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(aside, "PATIENCE", timedelta(seconds=20))
    workflow_id = plant.enqueue(activities.note, "a")
    claims = bench.claim()
    desk.lock(claims)
    desk.submit(claims)
    began = desk.time.at
    waited: list[int] = []

    def ended(delivery: Delivery, outcome: Any) -> None:
        desk.ended.append(delivery.claim)
        waited.append(desk.time.at - began)
        desk.acks.finish(0)

    desk.acks._ended = ended
    desk.acks.run()
    assert desk.ended == claims
    assert sum(WAITS) + 20_000_000 <= waited[0] < sum(WAITS) + 21_000_000
    assert desk.acks.pending == 0
    assert "acknowledgement_waits_for_lock" in caplog.text
    assert "lock_outlasted_patience" in caplog.text
    assert plant.row(workflow_id).status == OutboxStatus.CLAIMED.value
    assert WorkItem.objects.count() == 1


def test_a_stop_waits_for_a_lock_only_so_long_and_says_what_it_could_not_write(
    plant: Plant, bench: Bench, desk: Desk, caplog: Any
) -> None:
    """The schedule of tries is gone through, and three seconds are over: no more, since the worker's end is near."""
    plant.enqueue(activities.note, "a")
    claims = bench.claim()
    desk.lock(claims)
    desk.submit(claims)
    began = desk.time.at
    desk.acks.finish(0)
    desk.acks.run()
    assert desk.time.at - began < 4_000_000
    assert (desk.acks.pending, desk.ended, desk.leases.count) == (1, [], 1)
    assert "lock_outlasted_patience" in caplog.text


def test_a_delivery_that_is_given_back_waits_for_its_lock_as_well(plant: Plant, bench: Bench, desk: Desk) -> None:
    """It is abandoned with its own cause, once, when the lock is gone."""
    workflow_id = plant.enqueue(activities.note, "a")
    claims = bench.claim()
    desk.lock(claims)
    desk.leases.hold([mine := Delivery(claims[0])])
    desk.acks.submit(mine, GiveUp(claims[0], Cause.UNDECODABLE_INPUT, FAILURE))
    desk.write(until=lambda: desk.acks.locked == 1, then=desk.locks.close)
    row = plant.row(workflow_id)
    assert (row.status, row.cause, row.delivery_failures) == ("pending", "undecodable_input", 1)
    assert FailedAttempt.objects.count() == 1
    assert desk.ended == claims


def test_what_is_to_be_given_back_beside_a_lock_makes_no_try_that_others_would_wait_for(
    plant: Plant, bench: Bench, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five tries with their back-off took more than half a second of the one thread, for each of them."""
    for number in range(3):
        plant.enqueue(activities.note, str(number))
    claims = bench.claim()
    desk.lock(claims)
    tries: list[bool] = []
    real = abandon.abandon

    def count(claim: Claim, **rest: Any) -> GiveBack:
        tries.append(desk.freed)
        return real(claim, **rest)

    monkeypatch.setattr(abandon, "abandon", count)
    for claim in claims:
        desk.leases.hold([mine := Delivery(claim)])
        desk.acks.submit(mine, GiveUp(claim, Cause.UNDECODABLE_INPUT, FAILURE))
    desk.write(until=lambda: desk.acks.locked == 3, then=desk.free)
    assert tries == [True] * 3


def test_being_looked_at_is_waiting_for_a_lock(
    plant: Plant, bench: Bench, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A burst that looked meanwhile took it for work, and waited from the beginning; or for the end of all work."""
    plant.enqueue(activities.note, "a")
    claims = bench.claim()
    desk.lock(claims)
    desk.submit(claims)
    seen: list[tuple[int, bool]] = []
    real = probe.locked

    def look(waiting: Sequence[tuple[Claim, Ending | None]]) -> set[tuple[int, uuid.UUID]]:
        seen.append((desk.acks.locked, desk.acks.at_work))
        return real(waiting)

    monkeypatch.setattr(probe, "locked", look)
    desk.write(until=lambda: len(seen) == 4, then=desk.locks.close)
    assert seen[0] == (0, True), "It has just failed for the fifth time."
    assert set(seen[1:]) == {(1, False)}
    assert (desk.acks.locked, desk.acks.at_work, desk.acks.pending) == (0, False, 0)


def test_what_was_taken_over_while_it_was_locked_changes_nothing(
    plant: Plant, bench: Bench, desk: Desk, caplog: Any
) -> None:
    """The holder of the lock has made an end of it: the token is gone, and nothing is written."""
    workflow_id = plant.enqueue(activities.note, "a")
    claims = bench.claim()
    desk.lock(claims)
    desk.submit(claims)

    def free_and_take_away() -> None:
        desk.locks.close()
        WorkItem.objects.all().delete()

    desk.write(until=lambda: desk.acks.locked == 1, then=free_and_take_away)
    assert desk.ended == claims
    assert "late_acknowledgement" in caplog.text
    assert plant.look(workflow_id).status is WorkflowStatus.RUNNING


def test_leases_count_what_waits_for_a_lock_as_held_and_not_as_in_flight() -> None:
    wake = Wake()
    leases = Leases(lease_for=timedelta(minutes=1), idle=wake)
    one, two, newer = delivery(1), delivery(2), delivery(1)
    leases.hold([one, two])
    leases.set_aside(one)
    assert (leases.count, leases.in_flight) == (2, 1)
    leases.count_again(one)
    assert leases.in_flight == 2
    leases.set_aside(one)
    leases.hold([newer])
    assert (leases.count, leases.in_flight) == (2, 2)
    leases.end(one)
    leases.set_aside(one)
    assert (leases.count, leases.in_flight) == (2, 2), "It is not held any more."
    leases.set_aside(two)
    wake.wait(0)
    leases.end(newer)
    assert wake.rung, "Nothing is in flight."


def test_a_worker_goes_on_claiming_and_acknowledging_beside_locked_results(
    plant: Plant, door: Callable[[str], Gate], settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """As many as it may have in flight are locked. The rest runs, it is well, and these are written in the end."""
    monkeypatch.setattr("durable.worker.loops.claims.IN_FLIGHT", 1)
    monkeypatch.setattr("durable.worker.handlers.foresight.Foresight.ahead", 0)
    settings.DURABLE = settings.DURABLE | {"CONCURRENCY": 2}
    gate = door("held")
    held = [plant.enqueue(activities.pass_gate, "held") for _ in range(2)]
    with running() as (worker, future):
        gate.wait_for_arrival(2)
        with ExitStack() as locks:
            for workflow_id in held:
                locks.enter_context(locked_elsewhere("durable_outboxrow", "id", plant.row(workflow_id).id))
            gate.open()
            others = [plant.enqueue(activities.note, str(number)) for number in range(6)]
            for workflow_id in others:
                until_closed(plant, workflow_id)
            until(lambda: worker.acks.locked == 2)
            assert worker.complaints() == []
        for workflow_id in held:
            until_closed(plant, workflow_id)
        worker.stop()
        assert future.result(60) is WorkerExit.CLEAN
    assert {plant.row(workflow_id).deliveries for workflow_id in held} == {1}
    assert plant.labels().count("held") == 2
    assert worker.acks.locked == 0
