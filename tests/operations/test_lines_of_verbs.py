"""Lines of verbs, in processes without a worker: after the commit, and whatever the host's handlers do."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from durable import operations
from durable.errors import RedriveRefused
from durable.flow.upkeep import reconcile
from durable.kernel.history.commands import FailWorkflow
from durable.models import OutboxRow, WorkItem
from durable.outcomes import Cause, Failure
from durable.store.deliveries import together
from tests import factories
from tests.flow import cases
from tests.flow.driver import Driver
from tests.ledger.models import Entry
from tests.operations import cases as operated
from tests.operations.scenes import bury, stranded
from tests.worker.hearing import fields, listening, raising

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_dead_letter_of_a_worker_that_died_has_an_error_that_names_activity_and_cause(driver: Driver) -> None:
    """No process has an exception of it: what a collector groups by is made."""
    driver.start(cases.sequence, 1)
    driver.turn()
    (claim,) = driver.claim()
    OutboxRow.objects.filter(pk=claim.row_id).update(delivery_failures=7)
    WorkItem.objects.update(locked_until=factories.now() - timedelta(hours=1))
    with listening() as ear:
        reconcile.reconcile()
    [record] = ear.of("activity.dead_lettered")
    assert fields(record, "cause") == (Cause.WORKER_DIED.value,)
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "cases.step failed with DeliveryFailed: worker died"


def test_a_delivery_that_a_dead_worker_held_is_a_warning(driver: Driver) -> None:

    driver.start(cases.sequence, 1)
    driver.turn()
    driver.claim()
    WorkItem.objects.update(locked_until=factories.now() - timedelta(hours=1))
    with listening() as ear:
        reconcile.reconcile()
    assert ear.said() == [("WARNING", "activity.delivery_failed")]
    assert fields(ear.records[0], "cause", "worker", "failures", "of") == ("worker_died", "driver", 1, 8)


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3)])
def test_a_handler_that_raises_breaks_no_verb(driver: Driver, error: BaseException) -> None:
    workflow_id, _ = stranded(driver)
    with listening(raising(error)) as ear:
        operations.redrive(workflow_id, 1)
        operations.pause(workflow_id)
        operations.resume(workflow_id)
        with pytest.raises(RedriveRefused):
            operations.redrive(workflow_id, 1)
        operations.terminate(workflow_id, reason="enough")
    assert len(ear.records) == 5


def test_a_handler_that_writes_is_in_no_transaction_of_the_engine(driver: Driver) -> None:
    inside: list[tuple[str, bool]] = []

    def write(record: logging.LogRecord) -> None:
        inside.append((str(record.msg), connection.in_atomic_block))
        Entry.objects.create(label="log")

    workflow_id, _ = stranded(driver)
    with listening(write):
        operations.redrive(workflow_id, 1)
        bury(driver.claim()[0])
        operations.discard(workflow_id, 1, reason="no use")
        driver.turn()
    assert [event for event, _ in inside] == [
        "redrive.done", "activity.dead_lettered", "discard.done", "workflow.failed",
    ]  # fmt: skip
    assert not any(within for _, within in inside)
    assert Entry.objects.count() == 4


def test_a_batch_that_is_rolled_back_says_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn fails after the workflow's code has run and was planned to fail."""
    driver.start(operated.careful, 1)
    monkeypatch.setattr(together, "record", _out_of_order)
    with listening() as ear, pytest.raises(LookupError):
        driver.turn()
    assert ear.records == []


def _out_of_order(*args: Any) -> None:
    raise LookupError("out of order")


def test_the_error_of_a_command_is_no_part_of_what_it_is() -> None:

    failure = Failure("LookupError", "x")
    assert FailWorkflow(failure, error=LookupError()) == FailWorkflow(failure)
