"""Deliveries that are sent: claimed apart from the others, begun once by their token, and never a suspect before."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from durable.flow.caller import cancel
from durable.flow.delivery import abandon, begin, claim, release, renew
from durable.flow.operator import terminate
from durable.flow.transactions.commits import ClaimCommit
from durable.flow.upkeep import beat, reconcile
from durable.models import FailedAttempt, OutboxRow, WorkItem
from durable.outcomes import AckOutcome, Cause, Claim, GiveBack, HeldDelivery, ReconcileReport, Renewal
from durable.store.deliveries import claims
from tests.flow import cases
from tests.flow.driver import LEASE, Driver, items, row, workflow
from tests.flow.state import everything, expire
from tests.rounds import AT_LAST, rounds
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


def sent(limit: int = 9, *, queue: str = "reports", worker: str = "sender") -> list[Claim]:
    """Claim what is to be sent."""
    return claim.claim_to_send(worker, limit=limit, queue=queue, lease_for=LEASE, commit=ClaimCommit(worker))


def begun(row_id: int, token: uuid.UUID, *, worker: str = "cluster") -> Claim | None:
    """Begin it."""
    return begin.begin(row_id, token, worker=worker, lease_for=LEASE, commit=ClaimCommit(worker))


@pytest.fixture
def out(driver: Driver) -> Claim:
    """A delivery that was sent."""
    driver.enqueue(cases.step, 1, queue="reports")
    (only,) = sent()
    return only


def test_a_delivery_that_is_sent_names_its_queue_and_has_not_begun(out: Claim) -> None:
    assert (items()[0].queue, items()[0].begun_at, items()[0].worker) == ("reports", None, "sender")


def test_a_delivery_that_the_worker_runs_itself_names_no_queue(driver: Driver) -> None:
    driver.enqueue(cases.step, 1, queue="reports")
    driver.claim_one()
    assert (items()[0].queue, items()[0].begun_at) == ("", None)


def test_suspects_are_sent_after_the_others(driver: Driver) -> None:
    suspect, other = (driver.enqueue(cases.step, n, queue="reports") for n in range(2))
    OutboxRow.objects.filter(workflow_id=suspect).update(suspect=True)
    assert [c.workflow_id for c in sent()] == [other, suspect]


def test_no_more_are_claimed_than_asked_for_with_suspects_among_them(driver: Driver) -> None:
    for n in range(4):
        driver.enqueue(cases.step, n, queue="reports")
    OutboxRow.objects.filter(id__in=OutboxRow.objects.values_list("id")[:2]).update(suspect=True)
    assert [len(sent(3)), len(sent(3))] == [3, 1]


def test_claims_leave_out_the_queues_that_others_send(driver: Driver) -> None:
    driver.enqueue(cases.step, 1, queue="reports")
    here = driver.enqueue(cases.step, 2)
    taken = claim.claim(worker="w", limit=9, queues=None, lease_for=LEASE, but=("reports", "unused"))
    assert [c.workflow_id for c in taken] == [here]


def test_claims_take_the_highest_priority_of_all_queues_that_are_not_left_out(driver: Driver) -> None:
    for number, queue in enumerate(("a", "reports", "b", "c", "zebra")):
        driver.enqueue(cases.step, number, queue=queue, priority=number)
    taken = claim.claim(worker="w", limit=3, queues=None, lease_for=LEASE, but=("reports", "zebra"))
    assert [row(c.workflow_id).queue for c in taken] == ["c", "b", "a"]


def test_claims_beside_very_many_queues_leave_out_the_same(driver: Driver) -> None:
    """Too many to be asked one by one."""
    for number in range(claims.MOST_QUEUES + 1):
        driver.enqueue(cases.step, number, queue=f"queue {number}")
    driver.enqueue(cases.step, 1, queue="reports", priority=9)
    taken = claim.claim(worker="w", limit=100, queues=None, lease_for=LEASE, but=("reports",))
    assert len(taken) == claims.MOST_QUEUES + 1


def test_claims_of_suspects_leave_them_out_too(driver: Driver) -> None:
    driver.enqueue(cases.step, 1, queue="reports")
    OutboxRow.objects.update(suspect=True)
    assert claim.suspects_due(None) == 1
    assert claim.suspects_due(None, but=("reports",)) == 0
    assert claim.claim_suspect(worker="w", queues=None, lease_for=LEASE, but=("reports",)) == []


def test_a_claim_of_no_queue_takes_nothing(driver: Driver) -> None:
    """Of a worker all of whose queues are sent."""
    driver.enqueue(cases.step, 1)
    assert claim.claim(worker="w", limit=9, queues=(), lease_for=LEASE) == []


def test_beginning_takes_the_delivery_over_under_a_new_token(out: Claim, frozen_clock: Any) -> None:
    frozen_clock.move(timedelta(seconds=10))
    taken = begun(out.row_id, out.token)
    assert taken is not None
    assert (taken.payload, taken.attempt, taken.delivery, taken.worker) == (out.payload, 1, 1, "cluster")
    item = items()[0]
    assert (item.lock_token, item.worker, item.begun_at) == (taken.token, "cluster", frozen_clock.now)
    assert item.locked_until == frozen_clock.now + LEASE
    assert row(out.workflow_id).worker == "cluster"
    assert taken.token != out.token


def test_a_second_message_changes_nothing(driver: Driver, out: Claim) -> None:
    taken = begun(out.row_id, out.token)
    before = everything()
    assert begun(out.row_id, out.token, worker="second") is None
    assert everything() == before
    assert taken is not None
    assert driver.complete(taken, payload="1") == [AckOutcome.ACKNOWLEDGED]
    assert begun(out.row_id, out.token, worker="late") is None


def test_the_token_with_which_it_was_sent_is_worth_nothing_afterwards(driver: Driver, out: Claim) -> None:
    """Whoever sent it can neither end nor renew it; and the new token begins nothing."""
    taken = begun(out.row_id, out.token)
    assert taken is not None
    assert driver.complete(out) == [AckOutcome.TOKEN_MISSING]
    assert release.release([out]) == [GiveBack.TOKEN_MISSING]
    assert abandon.abandon(out, cause=Cause.TRANSPORT_LOST) is GiveBack.TOKEN_MISSING
    assert renew.renew([HeldDelivery(out.row_id, out.token)], lease_for=LEASE) == [Renewal.LOST]
    assert begun(out.row_id, taken.token) is None


@pytest.mark.parametrize(
    "end",
    [
        lambda out: release.release([out]),
        lambda out: abandon.abandon(out, cause=Cause.TRANSPORT_LOST),
        lambda out: terminate.terminate(out.workflow_id, reason="enough"),
        lambda out: cancel.cancel(out.workflow_id),
    ],
    ids=["released", "abandoned", "terminated", "asked to stop"],
)
def test_a_message_of_a_delivery_that_is_no_longer_wanted_changes_nothing(
    out: Claim, end: Callable[[Claim], object]
) -> None:
    end(out)
    before = everything()
    assert begun(out.row_id, out.token) is None
    assert everything() == before


def test_a_message_of_an_earlier_delivery_does_not_begin_the_next(out: Claim) -> None:
    release.release([out])
    (again,) = sent()
    assert begun(out.row_id, out.token) is None
    assert begun(again.row_id, again.token) is not None


def test_what_a_worker_runs_itself_is_begun_by_no_message(driver: Driver) -> None:
    driver.enqueue(cases.step, 1)
    own = driver.claim_one()
    assert begun(own.row_id, own.token) is None


def test_a_delivery_is_begun_after_its_lease_has_run_out_if_nobody_has_taken_it_over(out: Claim) -> None:
    """The token decides, not the time."""
    expire(out)
    assert begun(out.row_id, out.token) is not None
    assert reconcile.reconcile() == ReconcileReport()


def test_a_request_to_stop_that_came_before_the_begin_closes_the_row(driver: Driver, out: Claim) -> None:
    cancel.cancel(out.workflow_id)
    assert release.release([out]) == [GiveBack.SETTLED]
    assert workflow(out.workflow_id).status == "cancelled"


@pytest.mark.parametrize("suspect", [False, True])
def test_what_has_not_begun_when_its_sender_dies_goes_back_uncounted(out: Claim, suspect: bool) -> None:
    """Its handler has not run, so it has killed nobody: no suspect, unless it was one before."""
    OutboxRow.objects.update(suspect=suspect, delivery_budget=1)
    expire(out)
    assert reconcile.reconcile().rearmed == 1
    back = row(out.workflow_id)
    assert (back.status, back.deliveries, back.delivery_failures) == ("pending", 0, 0)
    assert (back.suspect, back.cause, FailedAttempt.objects.count(), items()) == (suspect, "", 0, [])


def test_a_lease_that_a_living_sender_lets_expire_is_counted_until_the_row_is_a_dead_letter(driver: Driver) -> None:
    """Or it would go on for ever. It is still no suspect: nothing of it has run."""
    workflow_id = driver.enqueue(cases.step, 1, queue="reports", deliveries=2)
    beat.beat(name="sender", queues=[], version="1", up_for=timedelta(hours=1))
    for status in ("pending", "dead"):
        OutboxRow.objects.update(visible_after="2020-01-01 00:00:00+00:00")
        expire(*sent())
        reconcile.reconcile()
        back = row(workflow_id)
        assert (back.status, back.suspect, back.cause) == (status, False, "lease_lost")


def test_what_has_begun_when_its_process_dies_is_counted_and_a_suspect(out: Claim) -> None:
    taken = begun(out.row_id, out.token)
    assert taken is not None
    expire(taken)
    assert reconcile.reconcile().rearmed == 1
    back = row(out.workflow_id)
    assert (back.deliveries, back.delivery_failures, back.suspect, back.cause) == (1, 1, True, "worker_died")
    assert FailedAttempt.objects.get().worker == "cluster"


def test_only_those_that_are_still_out_under_their_first_token_are_unbegun(driver: Driver) -> None:
    for n in range(3):
        driver.enqueue(cases.step, n, queue="reports")
    first, second, third = sent()
    begun(first.row_id, first.token)
    release.release([third])
    keys = [(c.row_id, c.token) for c in (first, second, third)]
    assert begin.unbegun(keys) == {keys[1]}
    assert begin.unbegun([]) == set()


@own_connections
@pytest.mark.races
def test_of_many_messages_at_once_one_begins(
    driver: Driver, barrier: Callable[[int], Barrier], second_connection: Callable[..., Future[Any]]
) -> None:
    for n in range(rounds(20, asked=500)):
        driver.enqueue(cases.step, n, queue="reports")
        (one,) = sent()
        meet = barrier(4)

        def take(at: int, one: Claim = one, meet: Barrier = meet) -> Claim | None:
            meet.wait()
            return begun(one.row_id, one.token, worker=f"process {at}")

        futures = [second_connection(take, at) for at in range(4)]
        winners = [claim for future in futures if (claim := future.result(AT_LAST)) is not None]
        assert len(winners) == 1
        assert [item.worker for item in items()] == [winners[0].worker]
        driver.complete(*winners)


@own_connections
@pytest.mark.races
def test_a_message_and_its_senders_patience_meet_and_one_of_them_has_the_delivery(
    driver: Driver, barrier: Callable[[int], Barrier], second_connection: Callable[..., Future[Any]]
) -> None:
    """Taken back, or begun; never both, and never neither."""
    for n in range(rounds(20, asked=500)):
        workflow_id = driver.enqueue(cases.step, n, queue="reports")
        (one,) = sent()
        meet = barrier(2)

        def back(one: Claim = one, meet: Barrier = meet) -> GiveBack:
            meet.wait()
            return release.release([one])[0]

        def take(one: Claim = one, meet: Barrier = meet) -> Claim | None:
            meet.wait()
            return begun(one.row_id, one.token)

        given, taken = second_connection(back), second_connection(take)
        if taken.result(AT_LAST) is None:
            assert given.result(AT_LAST) is GiveBack.PENDING
            assert row(workflow_id).status == "pending"
        else:
            # A release passes by what another session has locked.
            assert given.result(AT_LAST) in (GiveBack.TOKEN_MISSING, GiveBack.BUSY)
            assert row(workflow_id).status == "claimed"
        WorkItem.objects.all().delete()
        OutboxRow.objects.update(status="cancelled")
