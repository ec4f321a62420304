"""Faults by name: in activities, and at the commits of the engine's own transactions."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import durable
from durable import testing
from durable.flow.delivery import renew
from durable.flow.transactions.faults import Fault, classify
from durable.outcomes import HeldDelivery
from tests.ledger.models import Entry
from tests.testing import plant

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(
    params=[
        pytest.param("open", marks=pytest.mark.django_db, id="in the test's transaction"),
        pytest.param("none", marks=pytest.mark.django_db(transaction=True), id="without a transaction"),
    ]
)
def database(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


def runs_of(activity: Any) -> list[str]:
    """The types of the events of the only workflow of a kind."""
    from durable.flow.looks import look

    (found,) = look.listing(workflow_type=activity.name)
    return [event["type"] for event in testing.export_history(found.id)["events"]]


@pytest.mark.django_db
class TestActivities:
    def test_an_activity_fails_so_often_in_place_of_its_handler(self) -> None:
        with testing.failing(plant.note, times=2) as fault:
            testing.run(plant.note, "third time lucky")
        assert (fault.raised, fault.left) == (2, 0)
        assert Entry.objects.count() == 1

    def test_an_activity_fails_after_its_handler_has_done_its_work(self) -> None:
        with testing.failing("plant.note", when="after"):
            testing.run(plant.note, "twice")
        assert Entry.objects.count() == 2

    def test_a_transactional_handler_that_fails_afterwards_leaves_nothing_behind(self) -> None:
        with testing.failing(plant.book, when="after"):
            testing.run(plant.book, "once")
        assert Entry.objects.count() == 1

    def test_the_error_may_be_an_exception_a_class_or_made_each_time(self) -> None:
        for error in (OSError("given"), OSError, lambda: OSError("made")):
            failing = testing.failing(plant.charge, times=9, error=error)
            with failing, pytest.raises(durable.WorkflowFailed) as caught:
                testing.run(plant.charge, 1, Decimal(1))
            assert caught.value.type == "OSError"

    def test_an_error_that_is_not_retried_fails_at_once(self) -> None:
        failing = testing.failing(plant.charge, times=9, error=ValueError("no such card"))
        with failing as fault, pytest.raises(durable.WorkflowFailed):
            testing.run(plant.charge, 1, Decimal(1))
        assert fault.raised == 1

    def test_what_is_no_activity_and_no_point_is_refused(self) -> None:
        for target in ("clam", "plant.nobody", len):
            with pytest.raises(testing.UnknownFault, match="acknowledge"), testing.failing(target):  # type: ignore[arg-type]
                pass


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", ["turn", "claim", "acknowledge", "reconcile"])
@pytest.mark.usefixtures("database")
def test_a_workflow_survives_a_fault_at_each_point(point: str, when: Any) -> None:
    """Each outcome stands once in the history, whichever commit failed, or succeeded without saying so."""
    with testing.failing(point, when=when) as fault:
        if point == "reconcile":
            # It has a transaction only when something was let fall: a claim that nobody knows of.
            with testing.failing("claim", when="after"):
                assert testing.run(plant.lengthy, 2) == 2
        else:
            assert testing.run(plant.lengthy, 2) == 2
            assert fault.raised == 1
    pair = ["activity_scheduled", "activity_completed"]
    assert runs_of(plant.lengthy) == ["workflow_started", *pair, *pair, "workflow_completed"]


@pytest.mark.usefixtures("database")
def test_acknowledgements_that_fail_four_times_do_not_run_the_handler_again() -> None:
    """Specification A2: five attempts of the acknowledgement, one of the handler."""
    with testing.replaced({plant.slow: lambda: "once"}) as calls, testing.failing("acknowledge", times=4) as fault:
        assert testing.run(plant.slow) == "once"
    assert (len(calls.calls), fault.raised) == (1, 4)


@pytest.mark.usefixtures("database")
def test_an_acknowledgement_that_fails_five_times_is_abandoned_and_the_activity_delivered_again() -> None:
    """Specification A2: after the fifth it is given back with 100 ms."""
    replaced = testing.replaced({plant.slow: lambda: "again"})
    with testing.freeze(NOON), testing.failing("acknowledge", times=5), replaced as calls:
        handle = plant.slow.enqueue()
        report = testing.drain()
        assert report.next_due_at == NOON + timedelta(milliseconds=100)
        assert len(report.faults) == 5
        assert testing.run(handle) == "again"
    assert len(calls.calls) == 2


@pytest.mark.usefixtures("database")
def test_an_acknowledgement_whose_commit_did_not_say_so_counts_once() -> None:
    """Specification A4: the second try meets no token, and stops."""
    with testing.replaced({plant.slow: lambda: "once"}) as calls, testing.failing("acknowledge", when="after"):
        assert testing.run(plant.slow) == "once"
    assert len(calls.calls) == 1


@pytest.mark.usefixtures("database")
def test_a_claim_that_nobody_knows_of_is_taken_up_before_later_timers_fire() -> None:
    """The workflow's limit of an hour does not pass for an activity whose lease of a minute was lost."""
    with testing.failing("claim", when="after"):
        assert testing.run(plant.hurried) == "in time"


@pytest.mark.django_db(transaction=True)
def test_a_real_worker_in_this_process_meets_the_engines_faults_too() -> None:
    """On its own threads: one commit of each kind fails, and the next try succeeds."""
    from durable.worker.process.modes import WorkerMode
    from durable.worker.process.worker import Worker

    handle = plant.lengthy.start(2)
    plant.slow.enqueue()  # what turns stage they may claim themselves; this is for claims only
    points = ("turn", "claim", "acknowledge")
    with ExitStack() as stack:
        faults = [stack.enter_context(testing.failing(point)) for point in points]
        assert Worker(mode=WorkerMode.BURST).run() == 0
    assert [fault.raised for fault in faults] == [1, 1, 1]
    assert handle.result(timeout=0) == 2


@pytest.mark.django_db
def test_an_error_that_is_not_worth_a_retry_reaches_the_test() -> None:
    from django.db import IntegrityError

    plant.slow.enqueue()
    with testing.failing("claim", error=IntegrityError("broken")), pytest.raises(IntegrityError, match="broken"):
        testing.drain()


@pytest.mark.django_db
def test_a_store_that_stays_away_reaches_the_test() -> None:
    from django.db import OperationalError

    plant.slow.enqueue()
    with testing.failing("claim", times=1000), pytest.raises(OperationalError, match="injected"):
        testing.drain()


@pytest.mark.django_db
def test_points_of_workers_are_known_by_name_too() -> None:
    """`renew` belongs to the lease thread of a real worker; the verb itself is what fails."""
    assert set(testing.POINTS) >= {"claim", "turn", "acknowledge", "renew", "abandon", "release", "reconcile"}
    with testing.failing("renew") as fault, pytest.raises(Exception, match="injected") as caught:
        renew.renew([HeldDelivery(1, uuid.uuid4())], lease_for=timedelta(minutes=1))
    assert classify(caught.value) is Fault.RETRYABLE
    assert fault.raised == 1


def test_an_endless_loop_of_work_is_given_up(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durable.testing.inline.MOST_ROUNDS", 20)
    with testing.replaced({plant.slow: lambda: plant.slow.enqueue() and "and again"}):
        plant.slow.enqueue()
        with pytest.raises(testing.NeverIdle, match="20 rounds"):
            testing.drain()
