"""Reconciling: what a worker let fall is taken up; what is not known to be live is not."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from durable.flow.caller import cancel, enqueue
from durable.flow.delivery import claim, renew
from durable.flow.transactions import transaction as own
from durable.flow.upkeep import beat, reconcile
from durable.models import FailedAttempt, Message, OutboxRow, Worker, Workflow, WorkItem
from durable.outcomes import AckOutcome, Claim, HeldDelivery, ReconcileReport, Renewal
from tests.flow import cases
from tests.flow.driver import LEASE, Driver, history, items, row, workflow
from tests.flow.state import everything, expire, locked_elsewhere, messages_of, only_postgresql, run
from tests.rounds import AT_LAST, rounds
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


@pytest.fixture
def out(driver: Driver) -> Claim:
    """The delivery of a workflow's only activity."""
    driver.start(cases.sequence, 1)
    driver.turn()
    return driver.claim_one()


def test_deliveries_are_counted_on_the_row_by_the_statement_that_claims(driver: Driver, frozen_clock: Any) -> None:
    """Faults O4: the count hangs on no id that changes with each delivery, and a worker that dies at once has been
    counted.
    """
    workflow_id = driver.enqueue(cases.step, 1)
    tokens = set()
    for number in (1, 2, 3):
        with CaptureQueriesContext(connection) as captured:
            claims = claim.claim(worker=f"worker {number}", limit=5, queues=None, lease_for=LEASE)
            claims += claim.claim_suspect(worker=f"worker {number}", queues=None, lease_for=LEASE)
        (only,) = claims
        tokens.add(only.token)
        (counting,) = [q["sql"] for q in captured if re.search(r"deliveries = (\w+\.)?deliveries \+ 1", q["sql"])]
        assert "status = 'claimed'" in counting
        staged = row(workflow_id)
        assert (staged.pk, staged.deliveries, only.delivery) == (only.row_id, number, number)
        frozen_clock.move(LEASE + timedelta(seconds=1))
        reconcile.reconcile()
        assert row(workflow_id).delivery_failures == number
        frozen_clock.move(timedelta(minutes=10))
    assert len(tokens) == 3


def test_a_lease_that_ran_out_is_taken_up_and_the_row_runs_again(driver: Driver, frozen_clock: Any, out: Claim) -> None:
    """Faults S1, S4: with no operator, after the back-off; the lost delivery is kept with its cause, and counted."""
    frozen_clock.move(LEASE + timedelta(microseconds=1))
    assert reconcile.reconcile() == ReconcileReport(rearmed=1)
    staged = row(out.workflow_id)
    assert (staged.status, staged.deliveries, staged.delivery_failures, staged.attempts) == ("pending", 1, 1, 0)
    assert (staged.suspect, staged.cause, items()) == (True, "worker_died", [])
    assert timedelta(seconds=0.8) <= staged.visible_after - frozen_clock.now <= timedelta(seconds=1.3)
    kept = FailedAttempt.objects.get()
    assert (kept.number, kept.worker, kept.cause, kept.error) == (1, "driver", "worker_died", None)
    frozen_clock.move(timedelta(seconds=2))
    (again,) = claim.claim_suspect(worker="other", queues=None, lease_for=LEASE)
    driver.complete(again, payload="0")
    driver.run()
    assert workflow(out.workflow_id).status == "completed"
    assert row(out.workflow_id).suspect is False


def test_a_lease_that_has_not_run_out_is_left_alone_however_long_it_runs(
    driver: Driver, frozen_clock: Any, out: Claim
) -> None:
    """Faults X2: the lease is looked at, never the run time."""
    for _ in range(60):
        frozen_clock.move(LEASE - timedelta(seconds=1))
        renew.renew([HeldDelivery(out.row_id, out.token)], lease_for=LEASE)
        assert reconcile.reconcile() == ReconcileReport()
    assert driver.complete(out) == [AckOutcome.ACKNOWLEDGED]


def test_a_worker_that_still_beats_has_lost_its_lease_and_is_not_called_dead(out: Claim) -> None:
    """The words differ; what is done is the same."""
    beat.beat(name="driver", queues=["default"], version="1")
    expire(out)
    reconcile.reconcile()
    assert row(out.workflow_id).cause == "lease_lost"


def test_a_worker_that_was_started_again_under_the_same_name_did_not_lose_what_the_former_one_had(
    driver: Driver, frozen_clock: Any, out: Claim
) -> None:
    """That process died with it. What the new one claimed and did not renew, it has lost."""
    beat.beat(name="driver", queues=[], version="1", up_for=timedelta(seconds=1))
    frozen_clock.move(timedelta(seconds=5))
    beat.beat(name="driver", queues=[], version="1", up_for=timedelta(seconds=1))
    mine = driver.enqueue(cases.step, 2)
    later = driver.claim_one()
    frozen_clock.move(LEASE + timedelta(seconds=1))
    beat.beat(name="driver", queues=[], version="1")
    assert reconcile.reconcile().rearmed == 2
    assert (row(out.workflow_id).cause, row(mine).cause) == ("worker_died", "lease_lost")
    assert dict(FailedAttempt.objects.values_list("outbox_row_id", "cause")) == {
        out.row_id: "worker_died",
        later.row_id: "lease_lost",
    }
    assert Worker.objects.get().started_at == frozen_clock.now - LEASE - timedelta(seconds=2)


def test_the_last_heartbeat_is_copied_to_the_row(out: Claim) -> None:
    """The next delivery can read it."""
    renew.renew([HeldDelivery(out.row_id, out.token, '{"page":3}')], lease_for=LEASE)
    expire(out)
    reconcile.reconcile()
    assert row(out.workflow_id).last_heartbeat == '{"page":3}'


@pytest.mark.parametrize(("policy", "delivered"), [("hold", False), ("deliver", True)])
def test_the_last_delivery_of_the_budget_makes_a_dead_letter(out: Claim, policy: str, delivered: bool) -> None:
    """Faults S4: only then; with the cause, and the marker that says whether the workflow was told."""
    OutboxRow.objects.update(delivery_budget=1, options={"on_dead_letter": policy})
    expire(out)
    assert reconcile.reconcile() == ReconcileReport(dead_lettered=1)
    staged = row(out.workflow_id)
    assert (staged.status, staged.failure_delivered, staged.cause) == ("dead", delivered, "worker_died")
    assert [kind for kind, _, _ in messages_of(out.workflow_id)] == (["failed"] if delivered else [])
    assert items() == []


def test_a_row_of_a_workflow_that_has_ended_is_settled_and_not_armed_again(out: Claim) -> None:
    """Specification B7: terminal means settle."""
    Workflow.objects.update(status="cancelled", closed_at=out.created_at)
    expire(out)
    assert reconcile.reconcile() == ReconcileReport(settled=1)
    assert (row(out.workflow_id).status, items()) == ("cancelled", [])
    assert not FailedAttempt.objects.exists()


def test_a_row_of_an_earlier_run_is_settled(out: Claim) -> None:
    """Nobody waits for it: ordinals are used again."""
    Workflow.objects.update(run=2)
    expire(out)
    assert reconcile.reconcile() == ReconcileReport(settled=1)
    assert row(out.workflow_id).status == "cancelled"


def test_a_claimed_row_without_an_item_is_taken_up(out: Claim) -> None:
    """Nobody could ever renew or acknowledge it."""
    WorkItem.objects.all().delete()
    assert reconcile.reconcile() == ReconcileReport(rearmed=1)
    assert (row(out.workflow_id).status, row(out.workflow_id).cause) == ("pending", "worker_died")


@pytest.mark.parametrize("kind", ["single", "of a workflow"])
def test_a_row_that_was_asked_to_stop_is_closed_instead(driver: Driver, kind: str) -> None:
    """Faults N1: no further attempt starts."""
    workflow_id = driver.enqueue(cases.step, 1) if kind == "single" else driver.start(cases.cleaner)
    driver.turn()
    out = driver.claim_one()
    cancel.cancel(workflow_id)
    driver.turn()
    expire(out)
    assert reconcile.reconcile().settled == 1
    assert row(workflow_id, 1).status == "cancelled"
    assert workflow(workflow_id).status == ("cancelled" if kind == "single" else "running")


def test_what_is_taken_up_together_is_suspect_and_counted_when_it_is_due(driver: Driver, frozen_clock: Any) -> None:
    """Specification B7: one of them may be the killer, so each is delivered alone; its neighbours lose one delivery."""
    for n in range(3):
        driver.enqueue(cases.step, n)
    expire(*driver.claim())
    assert reconcile.reconcile() == ReconcileReport(rearmed=3)
    frozen_clock.move(timedelta(seconds=5))
    assert reconcile.reconcile() == ReconcileReport(suspects_due=3)
    assert driver.claim() == []
    assert set(OutboxRow.objects.values_list("suspect", "delivery_failures")) == {(True, 1)}


def test_rows_on_good_leases_in_front_do_not_hide_the_one_behind(driver: Driver) -> None:
    """Faults S6: five hundred older claims that it may not touch, and one expired, are one round; and so are three
    hundred expired ones, in pages.
    """
    many = [
        enqueue.new_activity(
            id=uuid.uuid4(), activity="cases.step", payload='{"n":1}', attempt_budget=5, delivery_budget=8
        )
        for _ in range(501)
    ]
    enqueue.enqueue(many)
    claims = sorted(driver.claim(limit=501), key=lambda c: c.row_id)
    expire(claims[-1])
    assert reconcile.reconcile().rearmed == 1
    expire(*claims[100:400])
    assert reconcile.reconcile().rearmed == 300
    assert OutboxRow.objects.filter(status="claimed").count() == 200


@pytest.mark.parametrize("number", [1, 60])
def test_a_page_is_a_constant_number_of_statements(driver: Driver, number: int) -> None:
    """Whatever a dead process held."""
    for n in range(number):
        driver.enqueue(cases.step, n)
    expire(*driver.claim(limit=number))
    with CaptureQueriesContext(connection) as captured:
        assert reconcile.reconcile().rearmed == number
    counted = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE", "BEGIN", "SET LOCAL"))]
    # Two looks (what expired, what has no item) with an empty one behind the first; nine in the page; the suspects.
    assert len(counted) == {"postgresql": 13, "sqlite": 12}[connection.vendor], "\n".join(counted)


BROKEN: dict[str, Callable[[Claim], object]] = {
    "options that are no JSON": lambda c: run(
        f"UPDATE durable_outboxrow SET options = 'not json' WHERE id = {c.row_id}"
    ),
    "a workflow that is gone": lambda c: Workflow.objects.filter(id=c.workflow_id).delete(),
}


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN)
def test_one_broken_workflow_is_shown_and_left_un_armed_and_stops_no_other(
    driver: Driver, breaks: Callable[[Claim], object]
) -> None:
    """Specification B7: a row of unknown liveness is never re-armed, and one bad history never stops the others."""
    for n in range(4):
        driver.enqueue(cases.step, n)
    claims = driver.claim()
    expire(*claims)
    broken = claims[1]
    breaks(broken)
    report = reconcile.reconcile()
    assert (report.rearmed, set(report.errors)) == (3, {broken.workflow_id})
    assert OutboxRow.objects.filter(id=broken.row_id).values_list("status", "delivery_failures").get() == ("claimed", 0)
    assert WorkItem.objects.filter(outbox_row_id=broken.row_id).exists()
    again = reconcile.reconcile()
    assert (again.rearmed, set(again.errors)) == (0, {broken.workflow_id})


@own_connections
@pytest.mark.parametrize("nth", range(1, 5))
def test_an_error_of_the_store_ends_the_round_with_nothing_re_armed(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """Specification B7: whichever look or lock it was; the next round finds everything as it was."""
    monkeypatch.setattr(own, "_FIRST_WAIT", 0)  # no waits between the tries of a transaction
    for n in range(3):
        driver.enqueue(cases.step, n)
    expire(*driver.claim())
    before, seen = everything(), []

    def away(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
            seen.append(sql)
        if len(seen) >= nth:
            raise OperationalError("the connection is lost")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(away), pytest.raises(OperationalError):
        reconcile.reconcile()
    assert everything() == before
    assert reconcile.reconcile().rearmed == 3


@own_connections
def test_a_workflow_that_somebody_holds_is_taken_up_in_a_later_round(driver: Driver) -> None:
    """It is not waited for, and is no error. SQLite has no row locks."""
    if not only_postgresql():
        pytest.skip("SQLite has no row locks.")
    held, free = driver.enqueue(cases.step, 1), driver.enqueue(cases.step, 2)
    expire(*driver.claim())
    with locked_elsewhere("durable_workflow", "id", held):
        assert reconcile.reconcile() == ReconcileReport(rearmed=1)
    assert row(free).status == "pending"
    assert reconcile.reconcile() == ReconcileReport(rearmed=1)


@pytest.mark.races
@own_connections
def test_a_heartbeat_racing_the_sweep_fails_no_activity(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Faults D2: either the renewal came first, and the delivery goes on; or the sweep did, and the renewal says lost,
    at the next beat if the sweep was just at it.
    """
    times, meet = rounds(15, asked=200), barrier(2)
    for n in range(times):
        driver.enqueue(cases.step, n)
    claims = driver.claim(limit=times)

    def renew_each() -> list[Renewal]:
        answers = []
        for c in claims:
            meet.wait()
            answers += renew.renew([HeldDelivery(c.row_id, c.token, '"alive"')], lease_for=LEASE)
            meet.wait()
        return answers

    other = second_connection(renew_each)
    rearmed = 0
    for c in claims:
        expire(c)
        meet.wait()
        rearmed += reconcile.reconcile().rearmed
        meet.wait()
    first = other.result(AT_LAST)
    answers = renew.renew([HeldDelivery(c.row_id, c.token) for c in claims], lease_for=LEASE)
    assert rearmed == answers.count(Renewal.LOST)
    for c, at_once, answer in zip(claims, first, answers, strict=True):
        assert at_once in (answer, Renewal.BUSY)
        staged = row(c.workflow_id)
        expected = ("pending", 1) if answer is Renewal.LOST else ("claimed", 0)
        assert (staged.status, staged.delivery_failures) == expected
        assert history(c.workflow_id) == ["workflow_started"]


@own_connections
def test_two_sweeps_at_once_take_up_each_row_once(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Every worker reconciles; a delivery is counted as failed once."""
    meet = barrier(3)
    for n in range(60):
        driver.enqueue(cases.step, n)
    expire(*driver.claim(limit=60))

    def sweep() -> int:
        meet.wait()
        return reconcile.reconcile().rearmed

    sweeps = [second_connection(sweep) for _ in range(3)]
    rearmed = sum(future.result(60) for future in sweeps)
    rearmed += reconcile.reconcile().rearmed
    assert rearmed == 60
    assert set(OutboxRow.objects.values_list("status", "delivery_failures")) == {("pending", 1)}
    assert FailedAttempt.objects.count() == 60


def test_the_budget_of_deliveries_is_looked_at_before_another_one_is_made(driver: Driver, frozen_clock: Any) -> None:
    """Faults O3: with a budget of one, a worker that died with the row is the first and the last to have had it."""
    workflow_id = driver.enqueue(cases.step, 1, deliveries=1)
    driver.claim_one()
    frozen_clock.move(LEASE + timedelta(seconds=1))
    assert reconcile.reconcile() == ReconcileReport(dead_lettered=1)
    frozen_clock.move(timedelta(days=1))
    assert driver.claim() == []
    assert claim.claim_suspect(worker="w", queues=None, lease_for=LEASE) == []
    assert (row(workflow_id).status, row(workflow_id).deliveries) == ("dead", 1)


def test_taking_up_needs_no_row_of_the_queue_that_it_repairs(driver: Driver, frozen_clock: Any, out: Claim) -> None:
    """Faults S2: nothing else is pending, due or waiting anywhere, and no worker has ever been heard of."""
    assert OutboxRow.objects.exclude(id=out.row_id).count() == Message.objects.count() == Worker.objects.count() == 0
    frozen_clock.move(LEASE + timedelta(seconds=1))
    assert reconcile.reconcile() == ReconcileReport(rearmed=1)
