"""What somebody else has locked is passed over: no bounded round waits for it, and everything else goes on.

Specification B7; faults K13.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import InterfaceError, connection, transaction

from durable import clock
from durable.flow.caller import cancel, signal
from durable.flow.delivery import acknowledge, release
from durable.flow.operator import unblock
from durable.flow.turns import poison, turn
from durable.flow.turns.passed_over import PassedOver
from durable.flow.upkeep import beat, reconcile, settle
from durable.models import OutboxRow, Worker, Workflow
from durable.outcomes import Claim, Completed, GiveBack, ReconcileReport
from durable.store.deliveries import work_items
from durable.worker.loops import notes
from durable.worker.loops.housekeeping import Housekeeping
from tests import factories
from tests.flow import cases
from tests.flow.driver import Driver, history, items, row, rows, workflow
from tests.flow.state import expire, locked_elsewhere, raise_state
from tests.waiting import PATIENCE, Gate, in_thread

pytestmark = pytest.mark.django_db(transaction=True)
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no row locks.")


@pytest.fixture
def sixty(driver: Driver) -> list[Claim]:
    """Sixty deliveries whose leases have run out."""
    for n in range(60):
        driver.enqueue(cases.step, n)
    claims = driver.claim(limit=60)
    expire(*claims)
    return claims


def statuses() -> dict[str, int]:
    """How many outbox rows are in which status."""
    found = list(OutboxRow.objects.values_list("status", flat=True))
    return {status: found.count(status) for status in set(found)}


LOCKS = {
    "its outbox row": ("durable_outboxrow", "id"),
    "its work item": ("durable_workitem", "outbox_row_id"),
}


@on_postgresql
@pytest.mark.parametrize("what", LOCKS)
def test_one_locked_row_keeps_no_other_expired_lease_from_being_taken_up(sixty: list[Claim], what: str) -> None:
    """59 of 60, without waiting; the last one as soon as nobody holds it."""
    table, column = LOCKS[what]
    with locked_elsewhere(table, column, sixty[30].row_id):
        report = reconcile.reconcile()
        assert (report.rearmed, report.errors) == (59, {})
        assert statuses() == {"pending": 59, "claimed": 1}
    assert reconcile.reconcile().rearmed == 1
    assert set(OutboxRow.objects.values_list("delivery_failures", flat=True)) == {1}


@on_postgresql
def test_an_acknowledgement_that_is_slow_to_commit_is_passed_over_and_counts(
    driver: Driver, sixty: list[Claim]
) -> None:
    """The worker may be dead; its server process is still at it, and has the row and the item."""
    gate = Gate("the acknowledgement")

    def slowly() -> None:
        with transaction.atomic():
            acknowledge._write(connection, [Completed(sixty[30], "1")])  # the moment between the locks and the commit
            gate.pass_through()

    slow = in_thread(slowly)
    gate.wait_for_arrival()
    try:
        assert reconcile.reconcile().rearmed == 59
    finally:
        gate.open()
    slow.result(PATIENCE)
    assert reconcile.reconcile().rearmed == 0
    assert workflow(sixty[30].workflow_id).status == "completed"


@on_postgresql
@pytest.mark.parametrize("state", ["55P03", "40P01", "57014", "23514"])
def test_an_error_that_belongs_to_one_workflow_stops_no_other(
    sixty: list[Claim], monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """A lock that does not come, a deadlock, a statement's time limit, a broken constraint: shown, and tried again."""
    delete = work_items.delete
    ill = sixty[30]

    def failing(connection: Any, deliveries: Any) -> set[int]:
        if ill.row_id in [row_id for row_id, _ in deliveries]:
            raise_state(state)
        return delete(connection, deliveries)

    monkeypatch.setattr(work_items, "delete", failing)
    # No waits between the tries of a transaction.
    monkeypatch.setattr("durable.flow.transactions.transaction._FIRST_WAIT", 0)
    report = reconcile.reconcile()
    assert report.rearmed == 59
    assert list(report.errors) == [ill.workflow_id]
    monkeypatch.undo()
    assert reconcile.reconcile().rearmed == 1


def _ended_with_open_rows(driver: Driver, count: int) -> list[uuid.UUID]:
    ids = [driver.start(cases.fan_out, 2) for _ in range(count)]
    while driver.turn().workflows:
        pass
    driver.claim(limit=count)
    Workflow.objects.filter(id__in=ids).update(status="completed", closed_at=clock.database_now(connection))
    return ids


@on_postgresql
def test_what_is_locked_of_ended_workflows_is_settled_later_and_the_rest_now(driver: Driver) -> None:
    """A workflow, a row, an item, each held by somebody: the call comes back, with all the others settled."""
    ids = _ended_with_open_rows(driver, 10)
    claimed = OutboxRow.objects.filter(workflow_id=ids[1], status="claimed").first()
    with ExitStack() as locks:
        locks.enter_context(locked_elsewhere("durable_workflow", "id", ids[0]))
        locks.enter_context(locked_elsewhere("durable_workitem", "outbox_row_id", claimed.id if claimed else 0))
        locks.enter_context(locked_elsewhere("durable_outboxrow", "id", rows(ids[2])[0].id))
        assert settle.settle_closed() == 20 - 2 - 1 - 1
        assert statuses()["cancelled"] == 16
    assert settle.settle_closed() == 4
    assert statuses() == {"cancelled": 20}
    assert items() == []


@on_postgresql
def test_blocked_workflows_are_offered_but_for_the_one_that_is_locked_which_is_offered_later(driver: Driver) -> None:
    """What is left is known, and offered to this code once, too."""
    ids = [driver.start(cases.signalled) for _ in range(5)]
    while driver.turn().workflows:
        pass
    Workflow.objects.filter(id__in=ids).update(blocked_reason="other code", blocked_version="old")
    with locked_elsewhere("durable_workflow", "id", ids[2]):
        offered = unblock.after_deploy("new")
        assert (offered.count, offered.left) == (4, frozenset([ids[2]]))
        again = unblock.after_deploy("new", left=offered.left)
        assert (again.count, again.left) == (0, frozenset([ids[2]]))
    last = unblock.after_deploy("new", left=again.left)
    assert (last.count, last.left) == (1, frozenset())
    assert set(Workflow.objects.values_list("blocked_version", flat=True)) == {""}


def test_a_workflow_that_is_gone_is_not_offered_for_ever(driver: Driver) -> None:
    assert unblock.after_deploy("new", left=frozenset([uuid.uuid4()])).left == frozenset()


@on_postgresql
def test_a_poison_turn_of_a_locked_workflow_is_counted_later(driver: Driver) -> None:
    """Nobody waits for it, and it is not forgotten."""
    workflow_id = driver.start(cases.signalled)
    with locked_elsewhere("durable_workflow", "id", workflow_id):
        assert poison.count(workflow_id) is False
    assert poison.count(workflow_id) is True
    assert workflow(workflow_id).poison_turns == 1


@on_postgresql
def test_a_sign_of_life_waits_for_no_other_workers_row() -> None:
    """A silent one whose row is locked is forgotten later."""
    old = clock.database_now(connection) - 3 * beat._FORGET_AFTER  # no setting: what counts as silent
    for name in ("held", "free"):
        factories.WorkerFactory(name=name, beat_at=old)
    with locked_elsewhere("durable_worker", "name", "held"):
        beat.beat(name="me", queues=[], version="1")
        assert set(Worker.objects.values_list("name", flat=True)) == {"held", "me"}
    beat.beat(name="me", queues=[], version="1")
    assert set(Worker.objects.values_list("name", flat=True)) == {"me"}


@on_postgresql
@pytest.mark.parametrize("what", LOCKS)
def test_a_release_gives_back_all_but_the_one_that_is_locked(driver: Driver, what: str) -> None:
    """That one stays as it is, and says so."""
    table, column = LOCKS[what]
    for n in range(5):
        driver.enqueue(cases.step, n)
    claims = driver.claim()
    with locked_elsewhere(table, column, claims[2].row_id):
        outcomes = release.release(claims)
        assert outcomes == [GiveBack.PENDING] * 2 + [GiveBack.BUSY] + [GiveBack.PENDING] * 2
        assert statuses() == {"pending": 4, "claimed": 1}
    assert release.release([claims[2]]) == [GiveBack.PENDING]
    assert set(OutboxRow.objects.values_list("deliveries", flat=True)) == {0}


# --- turns ---------------------------------------------------------------------------------------------------------


@on_postgresql
def test_a_turn_that_meets_a_locked_row_keeps_no_other_workflow_from_its_turn(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the batch has to cancel a row that somebody holds. It is put aside, and has its turn later."""
    held = driver.start(cases.limited, 60)
    driver.turn()
    free = [driver.start(cases.nothing) for _ in range(5)]
    cancel.cancel(held, reason="enough")
    aside = PassedOver()

    def step() -> Any:
        return turn.turn(cache=driver.cache, queues=None, limit=50, note=driver.noted.append, aside=aside)

    with locked_elsewhere("durable_outboxrow", "id", row(held).id):
        report = step()
        assert {workflow(id).status for id in free} == {"completed"}
        assert (report.workflows, report.closed) == (5, 5)
        assert workflow(held).status == "running"
        assert step().workflows == 0
    assert aside.left_out() == {held}
    monkeypatch.setattr("durable.flow.turns.passed_over.ASIDE_FOR", 0.0)
    aside.put(held)
    assert step().closed == 1
    assert history(held)[-1] == "workflow_cancelled"


# --- housekeeping --------------------------------------------------------------------------------------------------


class House:
    """A worker's housekeeping by itself."""

    def __init__(self, folder: Path) -> None:
        self.ready = 0
        self.reports: list[ReconcileReport] = []
        self.keeping = Housekeeping(
            worker="new", queues=None, count_the_dead=partial(notes.count_the_dead, folder),
            ready=self._is_ready, on_report=self.reports.append, wakes_by=lambda: "polling",
        )  # fmt: skip

    def _is_ready(self) -> None:
        self.ready += 1


@contextmanager
def everything_locked(driver: Driver, sixty: list[Claim]) -> Iterator[None]:
    """One of everything that a worker looks at when it starts is held by somebody."""
    ended = _ended_with_open_rows(driver, 2)
    blocked = driver.start(cases.signalled)
    driver.turn()
    Workflow.objects.filter(id=blocked).update(blocked_reason="other code", blocked_version="old")
    factories.WorkerFactory(name="new")
    with ExitStack() as locks:
        for table, column, key in (
            ("durable_outboxrow", "id", sixty[30].row_id),
            ("durable_workflow", "id", ended[0]),
            ("durable_workflow", "id", blocked),
            ("durable_worker", "name", "new"),
        ):
            locks.enter_context(locked_elsewhere(table, column, key))
        yield


@on_postgresql
def test_a_new_worker_is_ready_whatever_is_locked_and_does_the_rest_later(
    driver: Driver, sixty: list[Claim], tmp_path: Path
) -> None:
    house = House(tmp_path)
    with everything_locked(driver, sixty):
        rest = house.keeping.step()
        assert house.ready == 1
        assert house.reports[-1].rearmed >= 59
        assert 0 < rest <= 1.0
    house.keeping._due = 0.0  # the next round is due now, without a wait
    assert house.keeping.step() > 1.0
    assert house.ready == 1
    assert statuses().get("claimed", 0) == 0
    assert not Workflow.objects.filter(blocked_version="old").exists()
    assert not settle.settle_closed()


def test_a_fault_of_one_part_keeps_neither_the_others_nor_the_readiness_waiting(
    sixty: list[Claim], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Damaged rows, for example. It is said, and tried again soon."""

    def damaged(**_: Any) -> int:
        raise ValueError("'newer' is not a valid OutboxStatus")

    monkeypatch.setattr(settle, "settle_closed", damaged)
    house = House(tmp_path)
    assert house.keeping.step() <= 1.0
    assert (house.ready, house.reports[-1].rearmed) == (1, 60)
    assert "newer" in caplog.text


def test_a_store_that_is_away_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing could be claimed either."""

    def away(**_: Any) -> int:
        raise InterfaceError("connection already closed")

    monkeypatch.setattr(settle, "settle_closed", away)
    house = House(tmp_path)
    with pytest.raises(InterfaceError):
        house.keeping.step()
    assert house.ready == 0
    monkeypatch.undo()
    house.keeping.step()
    assert house.ready == 1


def test_a_signal_after_the_round_still_reaches_a_workflow_that_was_offered_again(driver: Driver) -> None:
    """What is offered has its messages back."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    Workflow.objects.filter(id=workflow_id).update(blocked_reason="other code", blocked_version="old")
    signal.signal(workflow_id, "go", payload="1")
    driver.turn()
    assert unblock.after_deploy("new").count == 1
    Driver(name="new").run()
    assert workflow(workflow_id).result == "1"
