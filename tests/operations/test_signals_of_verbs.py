"""Signals of what verbs did: after the commit that they speak of, and never of what was rolled back."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.dispatch import Signal
from django.test import TestCase

import durable.testing
from durable import operations, signals
from durable.decorators.workflows import workflow
from durable.errors import RedriveRefused
from durable.flow.caller import cancel, start
from durable.flow.operator import terminate
from durable.flow.transactions import transaction as own
from durable.flow.turns import poison
from durable.kernel.definitions.registry import registry
from tests.flow import cases
from tests.flow.driver import Driver
from tests.ledger.models import Entry
from tests.operations import cases as operated
from tests.operations.faults import Fault, failing
from tests.operations.scenes import bury, stranded
from tests.worker.hearing import fields, listening

pytestmark = pytest.mark.django_db(transaction=True)

EVERY = [name for name, value in vars(signals).items() if isinstance(value, Signal)]


class Heard(list[tuple[str, dict[str, Any]]]):
    """Signals in the order in which they came."""

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [values for found, values in self if found == name]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """All signals, as they come."""
    found = Heard()
    receivers: list[tuple[Any, Any]] = []
    for name in EVERY:

        def receive(sender: Any, name: str = name, **values: Any) -> None:
            values.pop("signal")
            found.append((name, values))

        signal = getattr(signals, name)
        signal.connect(receive, weak=False)
        receivers.append((signal, receive))
    yield found
    for signal, receive in receivers:
        signal.disconnect(receive)


@pytest.fixture
def falling() -> Iterator[Callable[[str, BaseException], None]]:
    """`falling(name, error)`: a receiver of that signal raises."""
    connected: list[tuple[Any, Any]] = []

    def connect(name: str, error: BaseException) -> None:
        def fall(**values: Any) -> None:
            raise error

        signal = getattr(signals, name)
        signal.connect(fall, weak=False)
        connected.append((signal, fall))

    yield connect
    for signal, fall in connected:
        signal.disconnect(fall)


# --- verbs that join the caller's transaction ---


def test_a_start_is_told_after_the_callers_commit(driver: Driver, heard: Heard) -> None:
    with transaction.atomic():
        workflow_id = driver.start(cases.sequence, 1, key="order-1")
        driver.enqueue(cases.step, 1)
        assert heard == []
    assert heard.names == ["workflow_started", "workflow_started"]
    assert heard[0][1] == {
        "workflow_id": workflow_id, "type": "cases.sequence", "key": "order-1", "single": False, "queue": "default",
    }  # fmt: skip


def test_a_start_outside_of_a_transaction_is_told_at_once(driver: Driver, heard: Heard) -> None:
    driver.start(cases.sequence, 1)
    assert heard.names == ["workflow_started"]


def test_what_was_rolled_back_is_never_told_and_a_savepoint_is_enough_for_that(driver: Driver, heard: Heard) -> None:
    def start_and_fall() -> None:
        with transaction.atomic():
            driver.start(cases.sequence, 1)
            raise LookupError

    with pytest.raises(LookupError):
        start_and_fall()
    with transaction.atomic():
        with pytest.raises(LookupError):
            start_and_fall()
        kept = driver.start(cases.sequence, 1)
    assert [values["workflow_id"] for values in heard.of("workflow_started")] == [kept]


def test_a_key_that_is_taken_starts_nothing_and_tells_nothing(driver: Driver, heard: Heard) -> None:

    driver.start(cases.sequence, 1, key="k")
    again = start.new_workflow(id=uuid.uuid4(), type=cases.sequence.name, payload='{"args":[1]}', key="k")
    start.start([again])
    assert len(heard) == 1


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3)])
def test_a_receiver_that_raises_breaks_no_start_and_stops_no_other_receiver(
    driver: Driver, falling: Any, heard: Heard, error: BaseException
) -> None:
    falling("workflow_started", error)
    later: list[Any] = []

    def receive(**values: Any) -> None:
        later.append(values["workflow_id"])

    signals.workflow_started.connect(receive, weak=False)
    try:
        with listening(name="durable.signals") as ear, transaction.atomic():
            driver.start(cases.sequence, 1)
    finally:
        signals.workflow_started.disconnect(receive)
    assert len(later) == len(heard) == 1
    assert ear.said() == [("ERROR", "signal.receiver_raised")]
    assert fields(ear.records[0], "signal") == ("workflow_started",)


def test_a_receiver_writes_in_no_transaction_of_the_engine_or_the_caller(driver: Driver) -> None:
    inside: list[bool] = []

    def receive(**values: Any) -> None:
        inside.append(connection.in_atomic_block)
        Entry.objects.create(label="told")

    for name in ("workflow_started", "workflow_closed"):
        getattr(signals, name).connect(receive, weak=False)
    try:
        with transaction.atomic():
            workflow_id = driver.start(cases.sequence, 1)
        terminate.terminate(workflow_id, reason="enough")
    finally:
        for name in ("workflow_started", "workflow_closed"):
            getattr(signals, name).disconnect(receive)
    assert inside == [False, False]
    assert Entry.objects.count() == 2


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite begins its own transaction for a start.")
def test_a_caller_that_has_switched_autocommit_off_by_hand_gets_its_start_and_no_signal(
    driver: Driver, heard: Heard
) -> None:
    """Django has no hook for such a commit."""
    transaction.set_autocommit(False)
    try:
        driver.enqueue(cases.step, 1)
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert heard == []


def test_a_cancelled_single_activity_is_told_with_its_reason(driver: Driver, heard: Heard) -> None:
    workflow_id = driver.enqueue(cases.step, 1)
    with transaction.atomic():
        cancel.cancel(workflow_id, reason="sold out")
        assert heard.names == ["workflow_started"]
    [closed] = heard.of("workflow_closed")
    assert (closed["workflow_id"], closed["status"], closed["reason"]) == (workflow_id, "cancelled", "sold out")


# --- verbs of their own ---


def test_a_terminated_workflow_is_told_as_cancelled(driver: Driver, heard: Heard) -> None:
    workflow_id = driver.start(cases.sequence, 1)
    terminate.terminate(workflow_id, reason="enough")
    assert heard.of("workflow_closed") == [
        {
            "workflow_id": workflow_id, "type": "cases.sequence", "key": None, "single": False, "status": "cancelled",
            "error_type": "", "error_message": "", "reason": "enough",
        }
    ]  # fmt: skip


def test_a_dead_letter_its_redrive_and_its_discard_are_told_once_each(driver: Driver, heard: Heard) -> None:
    workflow_id, _ = stranded(driver)
    [dead] = heard.of("activity_dead_lettered")
    assert dead == {
        "workflow_id": workflow_id, "type": "cases.sequence", "key": None, "run": 1, "ordinal": 1,
        "activity": "cases.step", "single": False, "cause": "ack_abandoned", "delivered": False, "deliveries": 8,
        "attempts": 0, "error_type": "DeliveryFailed", "error_message": "ack abandoned",
    }  # fmt: skip
    operations.redrive(workflow_id, 1, actor="ann", reason="mended")
    assert heard.of("dead_letter_redriven") == [
        {
            "workflow_id": workflow_id, "run": 1, "ordinal": 1, "activity": "cases.step", "mode": "eligible",
            "was_judged": False, "actor": "ann", "reason": "mended",
        }
    ]  # fmt: skip
    (claim,) = driver.claim()
    bury(claim)
    operations.discard(workflow_id, 1, reason="no use", actor="bob")
    assert heard.of("dead_letter_discarded") == [
        {
            "workflow_id": workflow_id, "run": 1, "ordinal": 1, "activity": "cases.step", "then": "fail",
            "was_judged": False, "actor": "bob", "reason": "no use",
        }
    ]  # fmt: skip
    driver.turn()
    [closed] = heard.of("workflow_closed")
    assert (closed["status"], closed["error_type"]) == ("failed", "durable.errors.ActivityError")


def test_a_refused_redrive_tells_nothing(driver: Driver, heard: Heard) -> None:
    workflow_id = driver.start(cases.sequence, 1)
    with pytest.raises(RedriveRefused):
        operations.redrive(workflow_id, 1)
    assert heard.of("dead_letter_redriven") == []


def test_a_redrive_whose_first_commit_failed_is_told_once(driver: Driver, heard: Heard) -> None:
    workflow_id, _ = stranded(driver)
    with failing(lambda number: number == 1, Fault.LOST):
        operations.redrive(workflow_id, 1)
    assert len(heard.of("dead_letter_redriven")) == 1


def test_a_dead_letter_that_is_delivered_says_so_and_its_workflow_goes_on(driver: Driver, heard: Heard) -> None:
    workflow_id = driver.start(operated.careful, 1)
    driver.turn()
    (claim,) = driver.claim()
    with listening() as ear:
        bury(claim)
    assert [values["delivered"] for values in heard.of("activity_dead_lettered")] == [True]
    assert ear.said() == [("ERROR", "activity.dead_lettered")]
    assert fields(ear.records[0], "workflow", "delivered") == (str(workflow_id), True)


def test_a_blocked_workflow_is_an_error_and_a_signal_and_only_an_error_when_it_is_blocked_anew(
    driver: Driver, heard: Heard
) -> None:
    workflow_id = driver.start(cases.sequence, 2)
    driver.turn()
    driver.complete(*driver.claim())

    with registry.isolated():
        registry.add_activity(cases.other)

        async def changed(length: int) -> None:
            await cases.other.execute(length)

        registry.add_workflow(workflow(name="cases.sequence")(changed))
        with listening() as ear:
            Driver(cached=0).turn()
    [record] = ear.of("workflow.blocked")
    assert (record.levelname, *fields(record, "workflow", "type")) == ("ERROR", str(workflow_id), "cases.sequence")
    assert record.exc_info is not None
    [blocked] = heard.of("workflow_blocked")
    assert blocked["workflow_id"] == workflow_id
    assert "history records" in blocked["reason"]


def test_poison_turns_are_warnings_until_the_workflow_is_blocked_by_them(driver: Driver, heard: Heard) -> None:

    workflow_id = driver.start(cases.sequence, 1)
    with listening() as ear:
        for _ in range(3):
            own.own(poison.counting(workflow_id))
    assert ear.said() == [*[("WARNING", "workflow.poison_turn")] * 3, ("ERROR", "workflow.blocked")]
    assert len(heard.of("workflow_blocked")) == 1


def test_a_workflow_out_of_time_is_an_error_and_is_told(driver: Driver, heard: Heard, frozen_clock: Any) -> None:

    driver.start(cases.signalled, timeout=timedelta(minutes=1))
    driver.turn()
    frozen_clock.move(timedelta(minutes=2))
    with listening() as ear:
        driver.turn()
    assert ear.said() == [("ERROR", "workflow.timed_out")]
    assert [values["status"] for values in heard.of("workflow_closed")] == ["timed_out"]


# --- in a TestCase ---


class InATestCase(TestCase):
    """Whose transaction is never committed: what the documentation says of it."""

    def setUp(self) -> None:
        self.heard: list[str] = []
        for name in ("workflow_started", "workflow_closed"):
            signal = getattr(signals, name)

            def receive(sender: Any, name: str = name, **values: Any) -> None:
                self.heard.append(name)

            signal.connect(receive, weak=False)
            self.addCleanup(signal.disconnect, receive)

    def test_signals_of_joined_verbs_are_captured_and_those_of_the_engines_work_are_sent_at_once(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            cases.sequence.start(2)
            assert self.heard == []
        assert self.heard == ["workflow_started"]
        durable.testing.drain()
        assert self.heard == ["workflow_started", "workflow_closed"]
