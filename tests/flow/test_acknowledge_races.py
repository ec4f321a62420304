"""Acknowledgements that meet others, or a connection that fails behind the commit."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from durable.flow.delivery import abandon, acknowledge
from durable.flow.transactions.faults import Fault, classify
from durable.outcomes import AckOutcome, Cause, Claim, Completed, Ending, GiveBack
from durable.store.connections import sql
from tests.flow import cases
from tests.flow.driver import Driver, failed, history, row
from tests.flow.state import everything, locked_elsewhere, only_postgresql
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db(transaction=True)

GONE = [AckOutcome.TOKEN_MISSING]
GOOD = [AckOutcome.ACKNOWLEDGED]


def completed(c: Claim, payload: str = "1") -> Completed:
    return Completed(c, payload)


@pytest.mark.parametrize("kind", ["single", "of a workflow"])
def test_an_acknowledgement_that_committed_without_saying_so_is_not_doubled(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Specification A4, A5.6: the next try finds no such token, abandoning then changes nothing, and one completion
    is in the history.
    """
    workflow_id = driver.enqueue(cases.step, 1) if kind == "single" else driver.start(cases.sequence, 1)
    driver.turn()
    out = driver.claim_one()
    commit = connection.commit

    def committed_and_lost() -> None:
        commit()
        raise OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "commit", committed_and_lost)
        with pytest.raises(OperationalError):
            acknowledge.acknowledge([completed(out, "1")])
    committed = everything()
    assert acknowledge.acknowledge([completed(out, "1")]) == GONE
    given_back = abandon.abandon(out, cause=Cause.ACK_ABANDONED, delay=timedelta(milliseconds=100))
    assert given_back is GiveBack.TOKEN_MISSING
    assert everything() == committed
    driver.run()
    closing = ["workflow_completed"]
    outcomes = ["activity_scheduled 1", "activity_completed 1"] if kind != "single" else []
    assert history(workflow_id) == ["workflow_started", *outcomes, *closing]


def test_two_acknowledgements_of_one_delivery_at_once_make_one_completion(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """From two connections, ten times."""
    meet = barrier(2)
    for n in range(10):
        driver.enqueue(cases.step, n)
    claims = driver.claim()

    def acknowledge_all(ending: Callable[[Claim], Ending]) -> list[AckOutcome]:
        answers = []
        for c in claims:
            meet.wait()
            answers += acknowledge.acknowledge([ending(c)])
        return answers

    other = second_connection(acknowledge_all, failed)
    mine, theirs = acknowledge_all(completed), other.result(60)
    assert all({a, b} == {GOOD[0], GONE[0]} for a, b in zip(mine, theirs, strict=True))
    for c, answer in zip(claims, mine, strict=True):
        ended = "completed" if answer is GOOD[0] else "failed"
        assert history(c.workflow_id) == ["workflow_started", f"workflow_{ended}"]


def test_batches_that_overlap_in_other_orders_do_not_deadlock(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Faults D4: rows are locked in key order, whatever the order of the call."""
    meet = barrier(2)
    for n in range(60):
        driver.enqueue(cases.step, n)
    claims = driver.claim(limit=60)

    def acknowledge_in(step: int) -> int:
        good = 0
        for at in range(0, 60, 20):
            meet.wait()
            answers = acknowledge.acknowledge([completed(c) for c in claims[at : at + 20][::step]])
            good += answers.count(GOOD[0])
        return good

    other = second_connection(acknowledge_in, -1)
    assert acknowledge_in(1) + other.result(60) == 60


@pytest.mark.parametrize("held", ["durable_workflow", "durable_outboxrow", "durable_workitem"])
@pytest.mark.parametrize("kind", ["single", "of a workflow"])
def test_an_acknowledgement_waits_for_locks_only_so_long(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, kind: str, held: str
) -> None:
    """Faults J7: the wait is bounded from the first statement on, which waits for locks itself; and only inside."""
    if not only_postgresql():
        pytest.skip("SQLite has no row locks.")
    workflow_id = driver.enqueue(cases.step, 1) if kind == "single" else driver.start(cases.sequence, 1)
    driver.turn()
    out = driver.claim_one()
    monkeypatch.setattr(sql, "LOCK_WAIT", "20ms")
    key: Any = workflow_id if held == "durable_workflow" else row(workflow_id).id
    before = everything()
    with locked_elsewhere(held, "outbox_row_id" if held == "durable_workitem" else "id", key):
        if kind != "single" and held == "durable_workflow":
            assert acknowledge.acknowledge([completed(out)]) == GOOD, "No lock of the workflow is needed."
            return
        with pytest.raises(OperationalError) as caught:
            acknowledge.acknowledge([completed(out)])
        assert classify(caught.value) is Fault.RETRYABLE
    assert everything() == before
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)
    assert acknowledge.acknowledge([completed(out)]) == GOOD
