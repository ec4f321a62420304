"""Time: the server's clock decides on PostgreSQL, and no setting of the host's project moves a moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from durable import clock
from durable.flow.caller import signal
from durable.flow.delivery import abandon, acknowledge, renew
from durable.flow.looks import look
from durable.flow.upkeep import beat, reconcile
from durable.models import Event, FailedAttempt, Message, Workflow
from durable.outcomes import Cause, Failure, HeldDelivery, Renewal, RetryLater
from tests.flow import cases
from tests.flow.driver import LEASE, Driver, items, row, rows, workflow
from tests.flow.state import expire
from tests.waiting import PATIENCE, in_thread

pytestmark = pytest.mark.django_db(transaction=True)

SOON = timedelta(minutes=5)
SHORT = timedelta(milliseconds=200)


@pytest.fixture(params=[timedelta(minutes=10), timedelta(minutes=-10)], ids=["ahead", "behind"])
def wrong_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> timedelta:
    """This host's clock is ten minutes off; the server's is right."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no clock but the host's, and one host only.")
    off: timedelta = request.param
    monkeypatch.setattr(clock, "host_now", lambda: datetime.now(UTC) + off)
    return off


def test_a_host_whose_clock_is_off_steals_no_lease(driver: Driver, wrong_clock: timedelta) -> None:
    """Faults T3: a delivery that is out stays out, and is renewed from the server's now."""
    driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    assert reconcile.reconcile().rearmed == 0
    assert renew.renew([HeldDelivery(out.row_id, out.token)], lease_for=LEASE) == [Renewal.RENEWED]
    left = items()[0].locked_until - datetime.now(UTC)
    assert LEASE / 2 < left <= LEASE
    assert Driver(name="other").claim() == []


def test_a_host_whose_clock_is_off_starves_nothing(driver: Driver, wrong_clock: timedelta) -> None:
    """Faults T3: what is due is claimed, what has run out is taken up, messages and timers are read."""
    workflow_id = driver.start(cases.sequence, 1)
    assert driver.turn().staged == 1
    out = driver.claim_one()
    expire(out)
    assert reconcile.reconcile().rearmed == 1
    waited = row(workflow_id).visible_after - datetime.now(UTC)
    assert waited < timedelta(seconds=2)
    sleeper = driver.start(cases.sleeper, 0)
    driver.run()
    assert workflow(sleeper).status == "completed"


def test_a_host_whose_clock_is_off_begins_nothing_early(driver: Driver, wrong_clock: timedelta) -> None:
    """Rows, starts, timers and back-offs of five minutes are not due now."""
    later = datetime.now(UTC) + SOON
    single = driver.enqueue(cases.step, 1, start_at=later)
    driver.start(cases.nothing, start_at=later)
    sleeper = driver.start(cases.sleeper, SOON // timedelta(seconds=1))
    retried, given_back = driver.enqueue(cases.step, 2), driver.enqueue(cases.step, 3)
    driver.turn()
    claims = {c.workflow_id: c for c in driver.claim()}
    assert set(claims) == {retried, given_back}
    error = Failure("OSError", "no")
    delay = SOON // timedelta(microseconds=1)
    acknowledge.acknowledge([RetryLater(claims[retried], error, Cause.APPLICATION_ERROR, datetime.now(UTC), delay)])
    abandon.abandon(claims[given_back], cause=Cause.ACK_ABANDONED, delay=SOON)
    assert driver.turn().workflows == 0
    assert driver.claim() == []
    due = look.next_due(None)
    assert due is not None
    assert SOON - timedelta(minutes=1) < due <= SOON
    for id in (single, retried, given_back):
        assert abs(row(id).visible_after - later) < timedelta(minutes=1)
    wake_at = workflow(sleeper).wake_at
    assert wake_at is not None
    assert abs(wake_at - later) < timedelta(minutes=1)


def _until_somebody_waits_for_a_lock() -> datetime:
    """Returns the server's time at a moment at which a statement is waiting."""
    look_again = threading.Event()
    for _ in range(int(PATIENCE * 200)):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT clock_timestamp() FROM pg_locks WHERE NOT granted AND relation = 'durable_workitem'::regclass"
            )
            found = cursor.fetchone()
        if found is not None:
            at: datetime = found[0]
            return at
        look_again.wait(0.005)
    raise AssertionError("Nobody waits.")


def _granting(how: str, driver: Driver) -> Callable[[], object]:
    if how == "claim":
        return lambda: driver.claim(lease_for=SHORT)
    driver.enqueue(cases.step, 2)
    out = driver.claim()
    return lambda: renew.renew([HeldDelivery(c.row_id, c.token) for c in out], lease_for=SHORT)


@pytest.mark.parametrize("how", ["claim", "renew"])
def test_a_lease_begins_when_it_is_written_not_when_its_statement_began_to_wait(driver: Driver, how: str) -> None:
    """Or a short one would be granted when it has run out, and be taken up at once."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite waits at BEGIN, before a moment is taken.")
    driver.enqueue(cases.step, 1)
    grant = _granting(how, driver)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE durable_workitem IN SHARE MODE")
        granting = in_thread(grant)
        waited_at = _until_somebody_waits_for_a_lock()
    granting.result(PATIENCE)
    assert all(item.locked_until >= waited_at + SHORT for item in items())


@pytest.fixture(params=["Asia/Tokyo", "America/Adak"])
def local_times(request: pytest.FixtureRequest, settings: Any) -> Iterator[str]:
    """A host project without time zones, nine hours ahead of UTC, or nine to ten behind."""
    settings.USE_TZ = False
    settings.TIME_ZONE = request.param
    yield request.param
    connection.close()


def test_without_time_zones_no_fresh_lease_is_taken_up(driver: Driver, local_times: str) -> None:
    """Faults Q4: a fresh claim does not look hours old, and one that ran out is not hidden for hours."""
    driver.enqueue(cases.step, 1)
    out = driver.claim_one()
    assert reconcile.reconcile().rearmed == 0
    assert renew.renew([HeldDelivery(out.row_id, out.token)], lease_for=LEASE) == [Renewal.RENEWED]
    assert reconcile.reconcile().rearmed == 0
    expire(out)
    assert reconcile.reconcile().rearmed == 1


def test_without_time_zones_moments_are_aware_and_right(driver: Driver, local_times: str) -> None:
    """Every column, by whatever statement it was written and read."""
    later = datetime.now(UTC) + SOON
    driver.start(cases.sequence, 2, timeout=timedelta(hours=1))
    driver.run(lambda c: "1")
    out_of = driver.start(cases.sequence, 1)
    driver.turn()
    abandon.abandon(driver.claim_one(), cause=Cause.ACK_ABANDONED, delay=SOON)
    signal.signal(out_of, "go", payload="1")
    beat.beat(name="driver", queues=["default"], version="1")
    driver.enqueue(cases.step, 1)
    (held,) = driver.claim()
    moments = [
        *(moment for w in Workflow.objects.all() for moment in (w.created_at, w.closed_at) if moment is not None),
        *Event.objects.values_list("recorded_at", flat=True),
        *Message.objects.values_list("visible_at", flat=True),
        *FailedAttempt.objects.values_list("ended_at", flat=True),
        held.created_at,
        items()[0].locked_until - LEASE,
        look.health().at,
        look.snapshot(out_of).created_at,
        *(event.recorded_at for event in look.history(out_of)),
        rows(out_of)[0].visible_after - SOON,
        look.pending(out_of)[0].due - SOON,
    ]
    assert len(moments) > 15
    for moment in moments:
        assert moment.utcoffset() == timedelta()
        assert abs(moment - (later - SOON)) < timedelta(minutes=1)
    assert look.health().workers == ("driver",)


def test_without_time_zones_timers_and_starts_keep_their_moments(driver: Driver, local_times: str) -> None:
    """A sleep of five minutes is neither over now nor in nine hours."""
    later = datetime.now(UTC) + SOON
    sleeper = driver.start(cases.sleeper, SOON // timedelta(seconds=1))
    driver.enqueue(cases.step, 1, start_at=later)
    driver.turn()
    assert driver.turn().workflows == 0
    assert driver.claim() == []
    wake_at = workflow(sleeper).wake_at
    assert wake_at is not None
    assert abs(wake_at - later) < timedelta(minutes=1)
    due = look.next_due(None)
    assert due is not None
    assert SOON - timedelta(minutes=1) < due <= SOON
    assert driver.start(cases.sleeper, 0)
    assert driver.turn().closed == 1
