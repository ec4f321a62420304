"""A history as long as it may become: senders cannot fill it, and whoever is asked to cancel still can."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import pytest

import durable
from durable.decorators.workflows import workflow
from durable.errors import MailboxFull
from durable.flow.caller import cancel, signal
from durable.flow.operator import terminate, unblock
from durable.kernel.history.room import FULL, Room
from durable.models import Message, Workflow
from tests.conftest import FrozenClock
from tests.flow import cases
from tests.flow import driver as rows_of
from tests.flow.driver import Driver, history

pytestmark = pytest.mark.django_db


@workflow(name="full.cleans_up")
async def cleans_up(steps: int) -> None:
    """Tidies before it ends, when it is asked to cancel."""
    try:
        for n in range(1_000):
            await cases.step.execute(n)
    except asyncio.CancelledError:
        for n in range(steps):
            await cases.step.execute(n)
        raise


@workflow(name="full.fans_out")
async def fans_out(width: int) -> None:
    """Too wide for its history, once it goes."""
    await durable.wait_for_signal("go")
    await asyncio.gather(*(cases.step.execute(n) for n in range(width)))


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(cached=request.param)


def stored(workflow_id: uuid.UUID) -> Workflow:
    return rows_of.workflow(workflow_id)


def send(workflow_id: uuid.UUID, count: int) -> None:
    for _ in range(count):
        signal.signal(workflow_id, "news", payload="1")


def go_on(driver: Driver) -> None:
    """The turn that finds what has come offers the workflow to its code; the next ones run it."""
    driver.turn()
    driver.run()


def test_the_last_tenth_is_not_for_signals() -> None:
    room = Room(100, 1_000)
    assert room.accepts_signals(89, 899)
    assert not room.accepts_signals(90, 0)
    assert not room.accepts_signals(0, 900)
    assert room.goes_on(99, 999, cancelling=False)
    assert not room.goes_on(100, 0, cancelling=False)
    assert not room.goes_on(0, 1_000, cancelling=False)
    assert room.goes_on(200, 1_999, cancelling=True)


def test_signals_do_not_keep_a_workflow_from_its_own_end(driver: Driver, settings: Any) -> None:
    """As many as anybody sends: its activities go on, and the signals stay unread and are kept."""
    settings.DURABLE = {"MAX_HISTORY_EVENTS": 60}
    workflow_id = driver.start(cases.sequence, 2)
    send(workflow_id, 100)
    driver.run()
    assert stored(workflow_id).status == "completed"
    events = history(workflow_id)
    assert events.count("signal_received") < 60
    assert events.count("signal_received") + Message.objects.filter(parked=True).count() == 100
    assert not Message.objects.filter(parked=False).exists()


def test_what_waits_for_nothing_but_a_signal_that_it_cannot_take_is_shown(
    driver: Driver, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Blocked, with its signals kept; a higher limit lets it go on with them, in order."""
    settings.DURABLE = {"MAX_HISTORY_EVENTS": 20}
    workflow_id = driver.start(cases.signalled)
    send(workflow_id, 30)
    signal.signal(workflow_id, "go", payload='"at last"')
    driver.run()
    found = stored(workflow_id)
    assert found.blocked_reason.startswith(f"{FULL}its code waits for a signal")
    assert history(workflow_id)[-1] == "workflow_blocked"
    with pytest.raises(MailboxFull):
        send(workflow_id, 1)
    settings.DURABLE = {"MAX_HISTORY_EVENTS": 100}
    unblock.unblock(workflow_id)
    driver.run()
    assert stored(workflow_id).result == '"at last"'
    assert history(workflow_id).count("signal_received") == 31


def test_that_signals_wait_from_here_on_is_said_once(
    driver: Driver, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DURABLE = {"MAX_HISTORY_EVENTS": 20}
    workflow_id = driver.start(cases.signalled, timeout=timedelta(hours=1))
    send(workflow_id, 30)
    driver.run()
    Message.objects.update(parked=False)
    driver.run()
    assert not stored(workflow_id).blocked_reason, "its time will be up"
    assert caplog.text.count("workflow.takes_no_signals") == 1


@pytest.mark.parametrize("limit", [{"MAX_HISTORY_EVENTS": 20}, {"MAX_HISTORY_BYTES": 1_500}], ids=["events", "bytes"])
def test_a_full_history_blocks_and_can_still_be_cancelled(driver: Driver, settings: Any, limit: dict[str, Any]) -> None:
    """Its code cleans up first. Blocked or not, and without anybody raising the limit."""
    settings.DURABLE = limit
    workflow_id = driver.start(cleans_up, 5)
    driver.run()
    assert stored(workflow_id).blocked_reason.startswith(f"{FULL}it has reached {next(iter(limit))}")
    before = len(history(workflow_id))
    cancel.cancel(workflow_id, reason="enough")
    go_on(driver)
    found = stored(workflow_id)
    assert (found.status, found.blocked_reason) == ("cancelled", "")
    events = history(workflow_id)
    assert events[-1] == "workflow_cancelled"
    assert sum(event.startswith("activity_completed") for event in events[before:]) == 5


def test_signals_before_it_do_not_hide_a_request_to_cancel(
    driver: Driver, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("durable.store.runs.inbox.HEADS", 2)
    settings.DURABLE = {"MAX_HISTORY_EVENTS": 20}
    workflow_id = driver.start(cases.signalled)
    send(workflow_id, 100)
    cancel.cancel(workflow_id)
    go_on(driver)
    assert stored(workflow_id).status == "cancelled"


@pytest.mark.parametrize(("width", "why"), [(49, "it would reach"), (100, "the workflow's code made more than")])
def test_what_does_not_fit_into_the_history_does_not_keep_a_request_to_cancel_from_it(
    driver: Driver, settings: Any, width: int, why: str
) -> None:
    """The activation that would have filled it is tried again, behind the request."""
    settings.DURABLE = {"MAX_HISTORY_EVENTS": 50}
    workflow_id = driver.start(fans_out, width)
    driver.turn()
    signal.signal(workflow_id, "go", payload="1")
    driver.run()
    assert stored(workflow_id).blocked_reason.startswith(FULL + why)
    cancel.cancel(workflow_id)
    go_on(driver)
    assert stored(workflow_id).status == "cancelled"


def test_a_clean_up_without_end_is_blocked_too_and_each_request_is_one_try(driver: Driver, settings: Any) -> None:
    """No loop of turns comes of it; terminate is what is left."""
    settings.DURABLE = {"MAX_HISTORY_EVENTS": 20}
    workflow_id = driver.start(cleans_up, 1_000)
    driver.run()
    cancel.cancel(workflow_id)
    go_on(driver)
    assert stored(workflow_id).blocked_reason.startswith(FULL)
    assert len(history(workflow_id)) < 160
    before = history(workflow_id)
    cancel.cancel(workflow_id)
    go_on(driver)
    assert history(workflow_id) == before
    terminate.terminate(workflow_id, reason="enough")
    assert stored(workflow_id).status == "cancelled"


def test_what_is_blocked_for_another_reason_is_not_tried_again_for_a_request(driver: Driver) -> None:
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    Workflow.objects.update(blocked_reason="Something else.", blocked_version="this")
    cancel.cancel(workflow_id)
    driver.noted.clear()
    go_on(driver)
    assert driver.noted == []
    assert list(Message.objects.values_list("parked", flat=True)) == [True]


def test_a_full_history_still_times_out(driver: Driver, settings: Any, frozen_clock: FrozenClock) -> None:
    settings.DURABLE = {"MAX_HISTORY_EVENTS": 20}
    workflow_id = driver.start(cleans_up, 0, timeout=timedelta(hours=1))
    driver.run()
    assert stored(workflow_id).blocked_reason
    frozen_clock.move(timedelta(hours=2))
    go_on(driver)
    assert stored(workflow_id).status == "timed_out"


def test_a_history_of_more_than_twice_the_limit_is_not_even_read(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of before there was a limit, say. Terminate ends it."""
    driver = Driver(cached=0)
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    Workflow.objects.update(history_bytes=2**40)
    cancel.cancel(workflow_id)
    monkeypatch.setattr("durable.store.runs.history.read_runs", None)
    driver.run()
    assert stored(workflow_id).blocked_reason.startswith(f"{FULL}it has reached MAX_HISTORY_BYTES")
    terminate.terminate(workflow_id, reason="too long")
    assert stored(workflow_id).status == "cancelled"
