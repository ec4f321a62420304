"""Transactional activities: the handler's own writes and its completion commit together, exactly once
(specification A6).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.db import OperationalError, connection

from durable.flow.delivery import acknowledge
from durable.flow.upkeep import reconcile
from durable.models import OutboxRow
from durable.outcomes import AckOutcome, Claim, Completed
from tests.flow import cases
from tests.flow.driver import Driver, history, row, workflow
from tests.flow.state import everything, expire, make_due, undone
from tests.ledger.models import Entry
from tests.waiting import PATIENCE, Gate

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def out(driver: Driver) -> Claim:
    driver.enqueue(cases.step, 1)
    return driver.claim_one()


def paying(out: Claim) -> Callable[[], Completed]:
    """A handler that writes one row of its own."""

    def handler() -> Completed:
        Entry.objects.create(label="paid")
        return Completed(out, "1")

    return handler


def test_the_handlers_writes_and_its_completion_are_committed_together(driver: Driver, out: Claim) -> None:
    """Row, event, status and the entry."""
    assert acknowledge.transactional(out, paying(out)) is AckOutcome.ACKNOWLEDGED
    assert Entry.objects.count() == 1
    assert history(out.workflow_id) == ["workflow_started", "workflow_completed"]
    assert row(out.workflow_id).status == "done"


def test_an_error_of_the_handler_rolls_everything_back_and_is_raised(out: Claim) -> None:
    """It is then acknowledged like any other, by the worker."""

    def handler() -> Completed:
        paying(out)()
        raise LookupError("no such account")

    before = everything()
    with pytest.raises(LookupError, match="no such account"):
        acknowledge.transactional(out, handler)
    assert (Entry.objects.count(), everything()) == (0, before)


def test_without_a_token_the_handler_does_not_run(driver: Driver, out: Claim) -> None:
    """That is also what a retry finds behind a commit that did not say so: gone means done."""
    driver.complete(out)
    ran: list[str] = []

    def handler() -> Completed:
        ran.append("ran")
        return Completed(out, "1")

    before = everything()
    assert acknowledge.transactional(out, handler) is AckOutcome.TOKEN_MISSING
    assert (ran, everything()) == ([], before)


def test_a_token_that_was_taken_while_the_handler_ran_undoes_its_writes(
    driver: Driver, out: Claim, second_connection: Callable[..., Future[Any]], gate: Gate
) -> None:
    """The fence is taken last: the token is not locked meanwhile. On SQLite the handler holds the only write lock: the
    token can only go before it began.
    """
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer: nobody can take the token meanwhile.")

    def handler() -> Completed:
        paying(out)()
        gate.pass_through()
        return Completed(out, "1")

    running = second_connection(acknowledge.transactional, out, handler)
    gate.wait_for_arrival()
    expire(out)
    assert reconcile.reconcile().rearmed == 1
    gate.open()
    assert running.result(PATIENCE) is AckOutcome.TOKEN_MISSING
    assert Entry.objects.count() == 0
    assert row(out.workflow_id).status == "pending"


def test_a_retryable_error_before_the_commit_has_undone_the_writes(driver: Driver, out: Claim) -> None:
    """It is raised untouched: the worker repeats handler *and* acknowledgement, and the effect is there once."""
    before, failing = everything(), ["once"]

    def deadlock(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if failing and "DELETE FROM durable_workitem" in sql:
            failing.clear()
            raise OperationalError("deadlock detected")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(deadlock):
        with pytest.raises(OperationalError):
            acknowledge.transactional(out, paying(out))
        assert (Entry.objects.count(), everything()) == (0, before)
        assert acknowledge.transactional(out, paying(out)) is AckOutcome.ACKNOWLEDGED
    assert Entry.objects.count() == 1


def test_after_an_unknown_commit_the_token_tells_that_it_is_done(out: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writes are there once, whatever the driver said."""
    commit = connection.commit

    def committed_and_lost() -> None:
        commit()
        raise OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "commit", committed_and_lost)
        with pytest.raises(OperationalError):
            acknowledge.transactional(out, paying(out))
    assert acknowledge.transactional(out, paying(out)) is AckOutcome.TOKEN_MISSING
    assert Entry.objects.count() == 1
    assert workflow(out.workflow_id).status == "completed"


def test_an_activity_of_a_workflow_hands_its_completion_to_the_next_turn(driver: Driver) -> None:
    """And one that was delivered again is done by the second delivery only."""
    workflow_id = driver.start(cases.sequence, 1)
    driver.turn()
    lost = driver.claim_one()
    expire(lost)
    reconcile.reconcile()
    make_due(lost.row_id)
    OutboxRow.objects.update(suspect=False)
    good = driver.claim_one()
    assert acknowledge.transactional(lost, paying(lost)) is AckOutcome.TOKEN_MISSING
    assert acknowledge.transactional(good, paying(good)) is AckOutcome.ACKNOWLEDGED
    driver.run()
    assert (workflow(workflow_id).result, Entry.objects.count()) == ("1", 1)


def test_a_handler_may_undo_a_part_of_its_own(out: Claim) -> None:
    """Its savepoints are its own affair; what it kept is committed with the completion."""

    def handler() -> Completed:
        Entry.objects.create(label="kept")
        with undone():
            Entry.objects.create(label="undone")
        return Completed(out, "1")

    assert acknowledge.transactional(out, handler) is AckOutcome.ACKNOWLEDGED
    assert list(Entry.objects.values_list("label", flat=True)) == ["kept"]
