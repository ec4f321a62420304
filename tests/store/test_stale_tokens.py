"""A write that names a token changes nothing when the item carries another one, also without the lock before it."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from durable.models import WorkItem
from durable.outcomes import Claim, HeldDelivery, OutboxStatus
from durable.store.deliveries import together, work_items
from durable.store.runs import workflows
from tests.flow import cases
from tests.flow.driver import Driver, row, workflow
from tests.flow.state import everything

pytestmark = pytest.mark.django_db

STALE = uuid.UUID(int=7)


@pytest.fixture
def claims() -> list[Claim]:
    """Two deliveries that are out, under one token."""
    driver = Driver()
    for _ in range(2):
        driver.enqueue(cases.step, 1)
    return driver.claim()


def done(claim: Claim) -> tuple[int, OutboxStatus, int, str | None]:
    return claim.row_id, OutboxStatus.DONE, 1, None


def test_an_item_is_not_removed_by_a_stale_token(claims: list[Claim]) -> None:
    before = everything()
    assert work_items.delete(connection, [(claims[0].row_id, STALE)]) == set()
    assert everything() == before


def test_of_many_those_are_removed_whose_token_holds(claims: list[Claim]) -> None:
    mine, taken_over = claims
    deliveries = [(mine.row_id, mine.token), (taken_over.row_id, STALE)]
    assert work_items.delete(connection, deliveries) == {mine.row_id}
    assert list(WorkItem.objects.values_list("outbox_row_id", flat=True)) == [taken_over.row_id]


def test_a_token_removes_no_item_but_its_own_rows(claims: list[Claim]) -> None:
    """A process may hold two deliveries of a row, of which one is lost: the other's token is in the same batch."""
    first, second = claims
    WorkItem.objects.filter(outbox_row_id=first.row_id).update(lock_token=STALE)
    assert work_items.delete(connection, [(first.row_id, second.token), (second.row_id, STALE)]) == set()
    assert WorkItem.objects.count() == 2


def test_an_acknowledgement_with_a_stale_token_closes_no_row(claims: list[Claim]) -> None:
    before = everything()
    together.finish(connection, [(claims[0].row_id, STALE)], [done(claims[0])])
    assert everything() == before


def test_an_acknowledgement_closes_those_rows_whose_item_it_has_removed(claims: list[Claim]) -> None:
    mine, taken_over = claims
    deliveries = [(mine.row_id, mine.token), (taken_over.row_id, STALE)]
    together.finish(connection, deliveries, [done(mine), done(taken_over)])
    assert [row(claim.workflow_id).status for claim in claims] == ["done", "claimed"]
    assert list(WorkItem.objects.values_list("outbox_row_id", flat=True)) == [taken_over.row_id]


def test_a_delivery_is_not_renewed_by_a_stale_token(claims: list[Claim]) -> None:
    before = everything()
    work_items.extend(connection, [HeldDelivery(claims[0].row_id, STALE, "late")], lease_for=timedelta(hours=1))
    assert everything() == before


def test_last_seq_moves_only_from_the_event_before(claims: list[Claim]) -> None:
    owner = claims[0].workflow_id
    before = workflow(owner).last_seq
    workflows.advance_seq(connection, owner, before + 2, {})
    assert workflow(owner).last_seq == before
    workflows.advance_seq(connection, owner, before + 1, {})
    assert workflow(owner).last_seq == before + 1


@pytest.mark.parametrize("count", [1, 2])
def test_naming_the_token_costs_no_further_statement(claims: list[Claim], count: int) -> None:
    chosen = claims[:count]
    with CaptureQueriesContext(
        connection,
    ) as ran:
        together.finish(connection, [(c.row_id, c.token) for c in chosen], [done(c) for c in chosen])
    assert len(ran) == (1 if connection.vendor == "postgresql" else 2)
