"""Releasing and postponing: the delivery is given back as if it had not been made."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from durable.flow.caller import cancel
from durable.flow.delivery import claim, postpone, release
from durable.models import FailedAttempt, OutboxRow
from durable.outcomes import AckOutcome, GiveBack
from tests.flow import cases
from tests.flow.driver import LEASE, Driver, items, row, workflow
from tests.flow.state import everything
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


def test_a_release_takes_the_delivery_off_the_count_and_makes_the_row_due(driver: Driver, frozen_clock: Any) -> None:
    """No budget is spent, and nothing is kept as a failure."""
    workflow_id = driver.enqueue(cases.step, 1)
    before = row(workflow_id)
    assert release.release([driver.claim_one()]) == [GiveBack.PENDING]
    after = row(workflow_id)
    assert (after.status, after.deliveries, after.delivery_failures, after.attempts) == ("pending", 0, 0, 0)
    assert (after.visible_after, after.claimed_at, after.cause) == (before.visible_after, None, "")
    assert items() == []
    assert not FailedAttempt.objects.exists()
    assert driver.claim_one().delivery == 1


def test_a_released_suspect_stays_one(driver: Driver) -> None:
    """It has not proved itself."""
    workflow_id = driver.enqueue(cases.step, 1)
    OutboxRow.objects.update(suspect=True)
    release.release(claim.claim_suspect(worker="w", queues=None, lease_for=LEASE))
    assert row(workflow_id).suspect is True


def test_a_released_row_keeps_what_its_handler_said_last(driver: Driver) -> None:
    """A stop is no reason to begin anew."""
    workflow_id = driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    type(items()[0]).objects.update(heartbeat='"half"')
    release.release([out])
    assert row(workflow_id).last_heartbeat == '"half"'


def test_each_release_has_its_own_outcome_in_the_order_given(driver: Driver) -> None:
    """Missing, foreign and asked to stop beside good ones."""
    ids = [driver.enqueue(cases.step, n) for n in range(5)]
    claims = sorted(driver.claim(), key=lambda c: ids.index(c.workflow_id))
    driver.complete(claims[0])
    cancel.cancel(ids[1])
    given = [claims[4], claims[0], replace(claims[2], token=uuid.uuid4()), claims[1], claims[3]]
    assert release.release(given) == [
        GiveBack.PENDING,
        GiveBack.TOKEN_MISSING,
        GiveBack.TOKEN_MISSING,
        GiveBack.SETTLED,
        GiveBack.PENDING,
    ]
    assert [row(id).status for id in ids] == ["done", "cancelled", "claimed", "pending", "pending"]
    assert workflow(ids[1]).status == "cancelled"


@pytest.mark.parametrize("number", [1, 50])
def test_a_release_is_a_constant_number_of_statements(driver: Driver, number: int) -> None:
    """Whatever a worker holds when it stops."""
    driver.start(cases.fan_out, number)
    driver.turn()
    claims = driver.claim(limit=number)
    with CaptureQueriesContext(connection) as captured:
        release.release(claims)
    counted = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE", "BEGIN", "SET LOCAL"))]
    # Rows (where they can be locked), items; delete, give back.
    assert len(counted) == {"postgresql": 4, "sqlite": 3}[connection.vendor], "\n".join(counted)


def test_a_postponed_row_waits_without_counting(driver: Driver, frozen_clock: Any) -> None:
    """Faults O6: for a handler that is not known here yet."""
    workflow_id = driver.enqueue(cases.step, 1)
    assert postpone.postpone(driver.claim_one(), delay=timedelta(seconds=5)) is GiveBack.PENDING
    staged = row(workflow_id)
    assert (staged.deliveries, staged.delivery_failures) == (0, 0)
    assert staged.visible_after == frozen_clock.now + timedelta(seconds=5)
    assert driver.claim() == []
    frozen_clock.move(timedelta(seconds=5))
    assert len(driver.claim()) == 1


@pytest.mark.parametrize("change", ["acknowledged", "foreign"])
def test_a_postponement_under_a_token_that_is_gone_changes_nothing(driver: Driver, change: str) -> None:
    """The row belongs to somebody else by now."""
    driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    if change == "acknowledged":
        driver.complete(out)
    else:
        out = replace(out, token=uuid.uuid4())
    before = everything()
    assert postpone.postpone(out, delay=timedelta(seconds=5)) is GiveBack.TOKEN_MISSING
    assert release.release([out]) == [GiveBack.TOKEN_MISSING]
    assert everything() == before


def test_a_postponed_row_that_was_asked_to_stop_is_closed_instead(driver: Driver) -> None:
    """Faults N1."""
    workflow_id = driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    cancel.cancel(workflow_id)
    assert postpone.postpone(out, delay=timedelta(seconds=5)) is GiveBack.SETTLED
    assert workflow(workflow_id).status == "cancelled"


@own_connections
def test_of_a_release_and_an_acknowledgement_at_once_one_counts(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """From two connections: what was given back is not done."""
    meet = barrier(2)
    for n in range(10):
        driver.enqueue(cases.step, n)
    claims = driver.claim()

    def release_all() -> list[GiveBack]:
        answers = []
        for c in claims:
            meet.wait()
            answers += release.release([c])
        return answers

    other = second_connection(release_all)
    mine = []
    for c in claims:
        meet.wait()
        mine += driver.complete(c)
    for c, good, back in zip(claims, mine, other.result(60), strict=True):
        assert (good is AckOutcome.ACKNOWLEDGED) == (back is GiveBack.TOKEN_MISSING)
        assert row(c.workflow_id).status == ("done" if good is AckOutcome.ACKNOWLEDGED else "pending")
        assert row(c.workflow_id).deliveries == (1 if good is AckOutcome.ACKNOWLEDGED else 0)
