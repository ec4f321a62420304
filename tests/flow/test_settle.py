"""Settling what ended workflows left open."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from durable.flow.operator import terminate
from durable.flow.upkeep import settle
from durable.models import OutboxRow, Workflow, WorkItem
from durable.outcomes import AckOutcome
from tests.flow import cases
from tests.flow.driver import Driver, items, rows
from tests.flow.state import everything
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


def ended_from_outside(driver: Driver, width: int) -> uuid.UUID:
    """A workflow whose row says that it has ended, with rows of every open kind: nobody settled them."""
    workflow_id = driver.start(cases.fan_out, width)
    driver.turn()
    driver.claim(limit=width // 3)
    dead = OutboxRow.objects.filter(workflow_id=workflow_id, status="pending").order_by("-id")[: width // 3]
    OutboxRow.objects.filter(id__in=[r.id for r in dead]).update(status="dead", dead_lettered_at=dead[0].created_at)
    Workflow.objects.filter(id=workflow_id).update(status="completed", closed_at=dead[0].created_at)
    return workflow_id


def test_open_rows_and_dead_letters_of_ended_workflows_are_cancelled_and_their_items_deleted(driver: Driver) -> None:
    """Specification B7: rows of any number."""
    workflow_id = ended_from_outside(driver, 9)
    assert {r.status for r in rows(workflow_id)} == {"pending", "claimed", "dead"}
    assert settle.settle_closed() == 9
    assert {r.status for r in rows(workflow_id)} == {"cancelled"}
    assert items() == []
    assert settle.settle_closed() == 0


def test_done_rows_and_live_workflows_are_left_alone(driver: Driver) -> None:
    """HeldDelivery dead letters of a live workflow wait for staff."""
    live = driver.start(cases.fan_out, 3)
    driver.turn()
    driver.complete(*driver.claim(limit=1))
    OutboxRow.objects.filter(workflow_id=live, ordinal=3).update(
        status="dead", dead_lettered_at=rows(live)[0].created_at
    )
    before = everything()
    assert settle.settle_closed() == 0
    assert everything() == before


def test_more_than_a_batch_is_settled_in_rounds(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a worker's start all there are; later no more than about a limit at once."""
    monkeypatch.setattr(settle, "_BATCH", 10)  # no setting: several batches of few rows
    for _ in range(6):
        ended_from_outside(driver, 6)
    assert 6 <= settle.settle_closed(limit=6) < 36
    settle.settle_closed()
    assert set(OutboxRow.objects.values_list("status", flat=True)) == {"cancelled"}
    assert not WorkItem.objects.exists()


@own_connections
def test_of_a_settlement_and_an_acknowledgement_at_once_one_counts(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Closing and acknowledging the same rows, from two connections: no deadlock, and a settled row has no item."""
    meet = barrier(2)
    owners = [driver.start(cases.fan_out, 5) for _ in range(8)]
    driver.turn()
    claims = driver.claim(limit=40)

    def end_all() -> None:
        for owner in owners:
            meet.wait()
            terminate.terminate(owner, reason="enough")

    other = second_connection(end_all)
    answers = {}
    for owner in owners:
        mine = [c for c in claims if c.workflow_id == owner]
        meet.wait()
        answers[owner] = driver.complete(*mine)
    other.result(60)
    for owner, acked in answers.items():
        assert len(set(acked)) == 1
        expected = "done" if acked[0] is AckOutcome.ACKNOWLEDGED else "cancelled"
        assert {r.status for r in rows(owner)} == {expected}
    assert items() == []
