"""Acknowledgements: token, item, row and completion in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from durable.flow.caller import cancel
from durable.flow.delivery import acknowledge, release
from durable.flow.upkeep import reconcile
from durable.models import FailedAttempt, Message, OutboxRow
from durable.outcomes import (
    AckOutcome,
    CancelAnswer,
    Cancelled,
    Cause,
    Claim,
    Completed,
    Ending,
    Failed,
    Failure,
    RetryLater,
)
from tests.flow import cases
from tests.flow.driver import Driver, history, items, row, rows, workflow
from tests.flow.state import everything, expire, make_due, messages_of

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)

ERROR = Failure("builtins.OSError", "the bank is closed", "Traceback: line 1")
BEGAN = datetime(2030, 1, 1, 11, 59, tzinfo=UTC)
GONE = [AckOutcome.TOKEN_MISSING]
GOOD = [AckOutcome.ACKNOWLEDGED]


def completed(c: Claim, payload: str = '{"paid":"9.90"}') -> Completed:
    return Completed(c, payload)


def failed(c: Claim) -> Failed:
    return Failed(c, ERROR, Cause.APPLICATION_ERROR, BEGAN)


def retry_later(c: Claim, delay_us: int = 5_000_000) -> RetryLater:
    return RetryLater(c, ERROR, Cause.APPLICATION_ERROR, BEGAN, delay_us)


ENDINGS: dict[str, Callable[[Claim], Ending]] = {
    "completed": completed,
    "failed": failed,
    "retry later": retry_later,
    "cancelled": Cancelled,
}
every_ending = pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)


@pytest.fixture
def out(driver: Driver) -> Claim:
    """The delivery of a workflow's only activity."""
    driver.start(cases.sequence, 1)
    driver.turn()
    return driver.claim_one()


@pytest.fixture
def single(driver: Driver) -> Claim:
    """The delivery of a single activity."""
    driver.enqueue(cases.step, 1)
    return driver.claim_one()


def test_a_success_closes_the_row_and_tells_the_workflow(out: Claim) -> None:
    """The result waits for the workflow's next turn, byte for byte."""
    assert acknowledge.acknowledge([completed(out)]) == GOOD
    assert (row(out.workflow_id).status, row(out.workflow_id).attempts) == ("done", 1)
    assert messages_of(out.workflow_id) == [("completed", 1, '{"paid":"9.90"}')]
    assert items() == []
    assert not FailedAttempt.objects.exists()


def test_an_error_without_attempts_left_closes_the_row_and_tells_the_workflow(out: Claim) -> None:
    """The error stays with the row, and goes to the workflow with the number of attempts."""
    assert acknowledge.acknowledge([failed(out)]) == GOOD
    assert (row(out.workflow_id).status, row(out.workflow_id).attempts) == ("done", 1)
    assert messages_of(out.workflow_id) == [("failed", 1, {"failure": ERROR.as_data(), "attempts": 1})]
    kept = FailedAttempt.objects.get()
    assert (kept.outbox_row_id, kept.number, kept.worker, kept.started_at) == (out.row_id, 1, "driver", BEGAN)
    assert (kept.cause, kept.error) == ("application_error", ERROR.as_data())
    assert items() == []


def test_an_error_with_attempts_left_makes_the_row_pending_again_later(
    driver: Driver, frozen_clock: Any, out: Claim
) -> None:
    """The attempt counts, the delivery budget is not touched, and nobody is told."""
    assert acknowledge.acknowledge([retry_later(out)]) == GOOD
    staged = row(out.workflow_id)
    assert (staged.status, staged.attempts, staged.delivery_failures, staged.deliveries) == ("pending", 1, 0, 1)
    assert (staged.claimed_at, staged.visible_after) == (None, frozen_clock.now + timedelta(seconds=5))
    assert (staged.cause, staged.suspect) == ("application_error", False)
    assert messages_of(out.workflow_id) == []
    assert FailedAttempt.objects.get().error == ERROR.as_data()
    assert driver.claim() == []
    frozen_clock.move(timedelta(seconds=5))
    again = driver.claim_one()
    assert (again.attempt, again.delivery) == (2, 2)


def test_a_cancellation_closes_the_row_and_carries_no_completion(out: Claim) -> None:
    """Not an attempt, and nothing to tell."""
    assert acknowledge.acknowledge([Cancelled(out)]) == GOOD
    assert (row(out.workflow_id).status, row(out.workflow_id).attempts) == ("cancelled", 0)
    assert messages_of(out.workflow_id) == []
    assert items() == []


@every_ending
def test_the_last_heartbeat_of_a_delivery_stays_with_its_row(
    driver: Driver, out: Claim, ending: Callable[[Claim], Ending]
) -> None:
    """The next attempt can read it."""
    acknowledge.acknowledge([replace(ending(out), heartbeat='{"page":7}')])
    assert row(out.workflow_id).last_heartbeat == '{"page":7}'


@pytest.mark.parametrize(
    ("ending", "status", "event"),
    [
        (completed, "completed", "workflow_completed"),
        (failed, "failed", "workflow_failed"),
        (Cancelled, "cancelled", "workflow_cancelled"),
    ],
)
def test_the_acknowledgement_of_a_single_activity_ends_its_workflow(
    single: Claim, frozen_clock: Any, ending: Callable[[Claim], Ending], status: str, event: str
) -> None:
    """Row, event and status in one commit; no turn is needed."""
    assert acknowledge.acknowledge([ending(single)]) == GOOD
    owner = workflow(single.workflow_id)
    assert (owner.status, owner.last_seq, owner.closed_at) == (status, 2, frozen_clock.now)
    assert history(single.workflow_id) == ["workflow_started", event]
    assert owner.result == ('{"paid":"9.90"}' if status == "completed" else None)
    assert owner.failure == (ERROR.as_data() if status == "failed" else None)
    assert not Message.objects.exists()
    assert items() == []


def test_a_single_activity_with_attempts_left_stays_live(single: Claim) -> None:
    """Its workflow has nothing new in its history."""
    acknowledge.acknowledge([retry_later(single)])
    assert (workflow(single.workflow_id).status, history(single.workflow_id)) == ("running", ["workflow_started"])
    assert row(single.workflow_id).status == "pending"


@every_ending
def test_a_token_that_is_gone_changes_nothing(out: Claim, ending: Callable[[Claim], Ending]) -> None:
    """Acknowledged twice: the second finds no item (specification A4)."""
    acknowledge.acknowledge([completed(out)])
    before = everything()
    assert acknowledge.acknowledge([ending(out)]) == GONE
    assert everything() == before


@every_ending
def test_a_foreign_token_changes_nothing(out: Claim, ending: Callable[[Claim], Ending]) -> None:
    """The row is claimed, by somebody else."""
    before = everything()
    assert acknowledge.acknowledge([ending(replace(out, token=uuid.uuid4()))]) == GONE
    assert everything() == before


@every_ending
def test_a_late_ack_after_the_row_was_delivered_again_changes_nothing(
    driver: Driver, out: Claim, ending: Callable[[Claim], Ending]
) -> None:
    """Faults X3, S5: the token was issued anew; a write of delivery n is refused once n + 1 exists."""
    expire(out)
    reconcile.reconcile()
    make_due(out.row_id)
    OutboxRow.objects.update(suspect=False)
    again = driver.claim_one()
    before = everything()
    assert acknowledge.acknowledge([ending(out)]) == GONE
    assert everything() == before
    assert acknowledge.acknowledge([completed(again)]) == GOOD


def test_two_deliveries_of_one_row_in_one_batch_are_told_apart(driver: Driver, out: Claim) -> None:
    """One process may end the lost one and the good one at the same moment."""
    expire(out)
    reconcile.reconcile()
    make_due(out.row_id)
    OutboxRow.objects.update(suspect=False)
    again = driver.claim_one()
    endings = [completed(out, '"old"'), completed(again, '"new"'), completed(out, '"older"')]
    assert acknowledge.acknowledge(endings) == [GONE[0], GOOD[0], GONE[0]]
    assert messages_of(out.workflow_id) == [("completed", 1, '"new"')]


def test_two_endings_of_one_delivery_in_one_batch_are_one(single: Claim) -> None:
    """The second is as late as it would be in a batch of its own."""
    assert acknowledge.acknowledge([completed(single), failed(single)]) == [GOOD[0], GONE[0]]
    assert history(single.workflow_id) == ["workflow_started", "workflow_completed"]


def test_a_token_whose_lease_has_run_out_is_good_while_nobody_took_over(out: Claim) -> None:
    """Specification A3: the token decides, not the time."""
    expire(out)
    assert acknowledge.acknowledge([completed(out)]) == GOOD
    assert row(out.workflow_id).status == "done"


def test_a_missing_token_is_an_outcome_of_its_item_and_no_error_of_the_batch(driver: Driver) -> None:
    """The neighbours are acknowledged; the outcomes stand in the order given."""
    workflow_id = driver.start(cases.fan_out, 5)
    driver.turn()
    five = driver.claim()
    acknowledge.acknowledge([completed(five[1])])
    release.release([five[3]])
    answers = acknowledge.acknowledge([completed(c) for c in reversed(five)])
    assert answers == [GOOD[0], GONE[0], GOOD[0], GONE[0], GOOD[0]]
    assert [r.status for r in rows(workflow_id)].count("done") == 4
    assert len(messages_of(workflow_id)) == 4


def test_a_batch_of_every_kind_of_ending(driver: Driver) -> None:
    """Singles beside activities of workflows, each with its own end."""
    of_workflow = driver.start(cases.fan_out, 4)
    driver.turn()
    claims = driver.claim()
    alone = [driver.enqueue(cases.step, n) for n in range(4)]
    singles = sorted(driver.claim(), key=lambda c: alone.index(c.workflow_id))
    endings = [make(c) for make, c in zip([*ENDINGS.values()] * 2, claims + singles, strict=True)]
    assert acknowledge.acknowledge(endings) == GOOD * 8
    assert [r.status for r in rows(of_workflow)] == ["done", "done", "pending", "cancelled"]
    assert [workflow(id).status for id in alone] == ["completed", "failed", "running", "cancelled"]
    assert [kind for kind, _, _ in messages_of(of_workflow)] == ["completed", "failed"]
    assert items() == []


def test_an_empty_batch_does_nothing() -> None:
    """It has no outcomes."""
    assert acknowledge.acknowledge([]) == []


@pytest.mark.parametrize("number", [1, 100])
@pytest.mark.parametrize("kind", ["single", "of a workflow"])
def test_an_acknowledgement_is_a_constant_number_of_statements(driver: Driver, kind: str, number: int) -> None:
    """Whatever the size of the batch."""
    if kind == "single":
        for n in range(number):
            driver.enqueue(cases.step, n)
    else:
        driver.start(cases.fan_out, number)
        driver.turn()
    claims = driver.claim(limit=100)
    assert len(claims) == number
    with CaptureQueriesContext(connection) as captured:
        acknowledge.acknowledge([completed(c) for c in claims])
    counted = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE", "BEGIN", "SET LOCAL"))]
    # Rows (where they can be locked), items; delete and close (two on SQLite), and tell; a single one's workflow is
    # locked too, and gets the database's time (where that has to be asked for), an event and a status (likewise two).
    expected = {"postgresql": (6, 4), "sqlite": (6, 4)}[connection.vendor][kind != "single"]
    assert len(counted) == expected, "\n".join(counted)


@pytest.mark.parametrize("kind", ["single", "of a workflow"])
def test_after_a_cancel_request_an_error_with_attempts_left_closes_the_row(driver: Driver, kind: str) -> None:
    """Faults N1: no further attempt starts."""
    if kind == "single":
        driver.enqueue(cases.step, 1)
        out = driver.claim_one()
    else:
        driver.start(cases.cleaner)
        driver.turn()
        out = driver.claim_one()
    assert cancel.cancel(out.workflow_id, reason="enough").answer is CancelAnswer.ASKED
    if kind != "single":
        driver.turn()
    assert acknowledge.acknowledge([retry_later(out)]) == GOOD
    assert row(out.workflow_id).status == "cancelled"
    assert workflow(out.workflow_id).status == ("cancelled" if kind == "single" else "running")


def test_after_a_cancel_request_spent_retries_wait_for_no_staff(driver: Driver) -> None:
    """Faults N1, with `on_exhausted="hold"`: nobody wants the activity any more."""
    workflow_id = driver.enqueue(cases.step, 1, budget=1, options={"on_exhausted": "hold"})
    out = driver.claim_one()
    assert cancel.cancel(workflow_id, reason="enough").answer is CancelAnswer.ASKED
    assert acknowledge.acknowledge([failed(out)]) == GOOD
    assert (row(workflow_id).status, workflow(workflow_id).status) == ("cancelled", "cancelled")


@pytest.mark.parametrize("ending", [completed, failed])
def test_after_a_cancel_request_a_finish_that_came_first_stands(
    single: Claim, ending: Callable[[Claim], Ending]
) -> None:
    """Faults N1: both outcomes are clean."""
    cancel.cancel(single.workflow_id)
    assert acknowledge.acknowledge([ending(single)]) == GOOD
    assert workflow(single.workflow_id).status == ("completed" if ending is completed else "failed")


@pytest.mark.parametrize("policy", ["fail", "hold"])
def test_spent_retries_fail_the_activity_or_wait_for_staff(driver: Driver, policy: str) -> None:
    """Specification B6, `on_exhausted`: held, the row is a dead letter that nobody was told of."""
    workflow_id = driver.enqueue(cases.step, 1, budget=1, options={"on_exhausted": policy})
    assert acknowledge.acknowledge([failed(driver.claim_one())]) == GOOD
    staged = row(workflow_id)
    assert workflow(workflow_id).status == ("failed" if policy == "fail" else "running")
    assert (staged.status, staged.attempts) == ("done" if policy == "fail" else "dead", 1)
    assert staged.failure_delivered is False
    assert FailedAttempt.objects.count() == 1


@own_connections
def test_an_acknowledgement_is_never_tried_twice_here(out: Claim) -> None:
    """The schedule is the worker's (specification A2): what the database raised goes to it, and nothing was changed."""
    before, tried = everything(), []

    def locked(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "durable_workitem" in sql:
            tried.append(sql)
            raise OperationalError("database is locked")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(locked), pytest.raises(OperationalError):
        acknowledge.acknowledge([completed(out)])
    assert len(tried) == 1
    assert everything() == before


def test_an_error_that_is_not_retried_goes_to_the_workflow_also_under_on_exhausted_hold(driver: Driver) -> None:
    """Specification B6: it is spent retries that are held; a verdict of the handler is none."""
    workflow_id = driver.enqueue(cases.step, 1, budget=5, options={"on_exhausted": "hold"})
    assert acknowledge.acknowledge([replace(failed(driver.claim_one()), spent=False)]) == GOOD
    assert (row(workflow_id).status, workflow(workflow_id).status) == ("done", "failed")
