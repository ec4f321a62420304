"""Renewal: time for what is held. A token that is gone is lost; a lock of somebody else's is only busy."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from durable.flow.caller import cancel
from durable.flow.delivery import renew
from durable.flow.operator import terminate
from durable.flow.upkeep import reconcile
from durable.models import OutboxRow, WorkItem
from durable.outcomes import AckOutcome, Claim, HeldDelivery, Renewal
from tests.flow import cases
from tests.flow.driver import LEASE, Driver, items
from tests.flow.state import everything, expire, locked_elsewhere, make_due, only_postgresql
from tests.rounds import AT_LAST, rounds
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


def held(c: Claim, heartbeat: str | None = None) -> HeldDelivery:
    return HeldDelivery(c.row_id, c.token, heartbeat)


def test_a_renewal_counts_from_now(driver: Driver, frozen_clock: Any) -> None:
    """Not from the end of the former lease."""
    driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    frozen_clock.move(timedelta(seconds=20))
    assert renew.renew([held(out)], lease_for=LEASE) == [Renewal.RENEWED]
    assert items()[0].locked_until == frozen_clock.now + LEASE


def test_a_lease_that_has_run_out_is_renewed_while_nobody_took_over(driver: Driver) -> None:
    """The token decides, not the time."""
    driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    expire(out)
    assert renew.renew([held(out)], lease_for=LEASE) == [Renewal.RENEWED]
    assert reconcile.reconcile().rearmed == 0


def test_the_latest_heartbeat_is_kept_and_none_is_no_news(driver: Driver) -> None:
    """A renewal without details leaves the former ones."""
    driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    renew.renew([held(out, '{"page":1}')], lease_for=LEASE)
    renew.renew([held(out)], lease_for=LEASE)
    assert items()[0].heartbeat == '{"page":1}'
    renew.renew([held(out, '{"page":2}')], lease_for=LEASE)
    assert items()[0].heartbeat == '{"page":2}'


def test_each_answer_stands_where_its_item_was_given(driver: Driver) -> None:
    """Lost, foreign, asked to stop and good ones, in the order given."""
    ids = [driver.enqueue(cases.step, n) for n in range(4)]
    claims = sorted(driver.claim(), key=lambda c: ids.index(c.workflow_id))
    driver.complete(claims[0])
    cancel.cancel(ids[1])
    given = [
        held(claims[3]),
        held(claims[1]),
        HeldDelivery(claims[2].row_id, uuid.uuid4()),
        held(claims[0]),
        held(claims[2]),
    ]
    assert renew.renew(given, lease_for=LEASE) == [
        Renewal.RENEWED,
        Renewal.CANCEL_REQUESTED,
        Renewal.LOST,
        Renewal.LOST,
        Renewal.RENEWED,
    ]


def test_what_was_asked_to_stop_is_renewed_all_the_same(driver: Driver, frozen_clock: Any) -> None:
    """Its handler still runs, and has the time to stop."""
    workflow_id = driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    cancel.cancel(workflow_id)
    frozen_clock.move(timedelta(seconds=30))
    renew.renew([held(out)], lease_for=LEASE)
    assert items()[0].locked_until == frozen_clock.now + LEASE


def test_a_settled_delivery_is_lost(driver: Driver) -> None:
    """Specification B7: a worker that still runs one learns it at its next renewal."""
    workflow_id = driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    terminate.terminate(workflow_id, reason="enough")
    before = everything()
    assert renew.renew([held(out)], lease_for=LEASE) == [Renewal.LOST]
    assert everything() == before


def test_a_process_that_holds_two_deliveries_of_one_row_learns_which_is_lost(driver: Driver) -> None:
    """The old handler still runs when the row is delivered to the same process again; in either order."""
    driver.enqueue(cases.step, 1)
    old = driver.claim_one()
    expire(old)
    reconcile.reconcile()
    make_due(old.row_id)
    OutboxRow.objects.update(suspect=False)
    new = driver.claim_one()
    assert renew.renew([held(old), held(new)], lease_for=LEASE) == [Renewal.LOST, Renewal.RENEWED]
    assert renew.renew([held(new), held(old)], lease_for=LEASE) == [Renewal.RENEWED, Renewal.LOST]


def test_nothing_held_is_nothing_asked(django_assert_num_queries: Any) -> None:
    """An idle worker's beat costs no statement."""
    with django_assert_num_queries(0):
        assert renew.renew([], lease_for=LEASE) == []


@pytest.mark.parametrize("number", [1, 50])
def test_a_renewal_is_a_constant_number_of_statements(driver: Driver, number: int) -> None:
    """A lock in id order and one write."""
    for n in range(number):
        driver.enqueue(cases.step, n)
    claims = driver.claim(limit=number)
    with CaptureQueriesContext(connection) as captured:
        assert renew.renew([held(c) for c in claims], lease_for=LEASE) == [Renewal.RENEWED] * number
    counted = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE", "BEGIN", "SET LOCAL"))]
    assert len(counted) == 2, "\n".join(counted)


@own_connections
def test_an_item_that_somebody_has_locked_is_busy_and_stops_no_other(driver: Driver) -> None:
    """One locked item must not stop every renewal. SQLite has no row locks."""
    if not only_postgresql():
        pytest.skip("SQLite has no row locks.")
    driver.enqueue(cases.step, 1)
    driver.enqueue(cases.step, 2)
    first, second = driver.claim()
    gone = HeldDelivery(first.row_id, uuid.uuid4())
    with locked_elsewhere("durable_workitem", "outbox_row_id", first.row_id):
        answers = renew.renew([held(first), held(second), gone], lease_for=LEASE)
    assert answers == [Renewal.BUSY, Renewal.RENEWED, Renewal.LOST]
    assert renew.renew([held(first)], lease_for=LEASE) == [Renewal.RENEWED]


@pytest.mark.races
@own_connections
def test_renewals_racing_acknowledgements_of_the_same_items_end_without_a_deadlock(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Without the ordered lock this deadlocked in 43 of 60 rounds."""
    times, meet = rounds(8, asked=60), barrier(2)
    batches = []
    for _ in range(times):
        for n in range(20):
            driver.enqueue(cases.step, n)
        batches.append(driver.claim(limit=20))

    def renew_all() -> set[Renewal]:
        seen: set[Renewal] = set()
        for batch in batches:
            meet.wait()
            seen |= set(renew.renew([held(c) for c in reversed(batch)], lease_for=LEASE))
        return seen

    other = second_connection(renew_all)
    for batch in batches:
        meet.wait()
        assert driver.complete(*batch) == [AckOutcome.ACKNOWLEDGED] * 20
    assert other.result(AT_LAST) <= {Renewal.RENEWED, Renewal.BUSY, Renewal.LOST}
    assert not WorkItem.objects.exists()


def test_renewals_acknowledgements_and_ends_of_workflows_read_the_heartbeats_of_none(driver: Driver) -> None:
    """Each may have a megabyte, and a worker may hold thousands."""
    owner = driver.start(cases.fan_out, 3)
    driver.turn()
    claims = driver.claim()
    WorkItem.objects.update(heartbeat='"heavy"')
    with CaptureQueriesContext(connection) as made:
        renew.renew([held(claim) for claim in claims], lease_for=LEASE)
        driver.complete(claims[0], payload="1")
        terminate.terminate(owner, reason="enough")
    reading = [query["sql"] for query in made if "durable_workitem" in query["sql"]]
    assert len(reading) > 4
    assert not [sql for sql in reading if sql.startswith("SELECT") and "heartbeat" in sql.partition(" FROM ")[0]]
