"""Turns: messages and timers become events, commands become rows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from durable.flow.caller import cancel, signal
from durable.flow.turns import turn
from durable.models import Event, Message, OutboxRow
from durable.outcomes import CancelAnswer
from tests.flow import cases
from tests.flow.driver import Driver, failed, history, row, rows, workflow

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=[1000, 0], ids=["warm", "cold"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(cached=request.param)


def test_a_workflow_without_steps_ends_in_its_first_turn(driver: Driver) -> None:
    """The status, the result and the event that explains them are written together, and its message is gone."""
    workflow_id = driver.start(cases.nothing)
    driver.run()
    assert (workflow(workflow_id).status, workflow(workflow_id).result) == ("completed", '"done"')
    assert history(workflow_id) == ["workflow_started", "workflow_completed"]
    assert workflow(workflow_id).last_seq == 2
    assert not Message.objects.exists()


def test_steps_run_one_after_another(driver: Driver) -> None:
    """Each result is one event, and each brings the next row."""
    workflow_id = driver.start(cases.sequence, 3)
    driver.run()
    assert workflow(workflow_id).result == "3"
    assert history(workflow_id) == [
        "workflow_started",
        *("activity_scheduled 1", "activity_completed 1"),
        *("activity_scheduled 2", "activity_completed 2"),
        *("activity_scheduled 3", "activity_completed 3", "workflow_completed"),
    ]
    assert [r.status for r in rows(workflow_id)] == ["done"] * 3


def test_a_fan_out_is_staged_in_one_turn_and_joined(driver: Driver) -> None:
    """A hundred activities, one turn to stage them."""
    workflow_id = driver.start(cases.fan_out, 100)
    assert driver.turn().staged == 100
    driver.run()
    assert workflow(workflow_id).result == str(sum(range(100)))


def test_a_workflow_that_only_waits_records_that_it_has_begun(driver: Driver) -> None:
    """Otherwise a cold worker could not know when its first activation was."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    assert history(workflow_id) == ["workflow_started", "workflow_begun"]
    signal.signal(workflow_id, "go", payload='{"ok":true}')
    driver.run()
    assert workflow(workflow_id).result == '{"ok":true}'


def test_time_begins_with_the_first_turn_and_not_with_a_long_wait_in_the_queue(
    driver: Driver, frozen_clock: Any
) -> None:
    """Five minutes of backlog are no part of a one-minute limit around the first activity."""
    workflow_id = driver.start(cases.limited, 60)
    frozen_clock.move(timedelta(minutes=5))
    driver.run()
    assert workflow(workflow_id).result == '"in time"'


def test_a_time_limit_fires_and_cancels_the_activity(driver: Driver, frozen_clock: Any) -> None:
    """A pending row is closed; no event says that the timer began."""
    workflow_id = driver.start(cases.limited, 60)
    driver.turn()
    assert workflow(workflow_id).wake_at == frozen_clock.now + timedelta(seconds=60)
    frozen_clock.move(timedelta(seconds=61))
    driver.turn()
    assert workflow(workflow_id).result == '"too late"'
    assert history(workflow_id) == [
        "workflow_started",
        "activity_scheduled 1",
        "timer_fired",
        "activity_cancelled 1",
        "workflow_completed",
    ]
    assert row(workflow_id).status == "cancelled"
    assert driver.claim() == []


def test_a_running_activity_that_nobody_awaits_is_asked_to_stop_and_its_late_result_is_consumed(
    driver: Driver, frozen_clock: Any
) -> None:
    """A finish that arrives is clean, and changes nothing (faults N1)."""
    workflow_id = driver.start(cases.cleaner)
    driver.turn()
    out = driver.claim_one()
    assert cancel.cancel(workflow_id, reason="changed my mind").answer is CancelAnswer.ASKED
    driver.turn()
    assert history(workflow_id)[2:] == ["cancel_requested", "activity_cancelled 1", "activity_scheduled 2"]
    driver.complete(out)
    assert row(workflow_id, 1).status == "done"
    driver.run()
    assert workflow(workflow_id).status == "cancelled"
    assert history(workflow_id)[-2:] == ["activity_completed 2", "workflow_cancelled"]


def test_an_activity_that_failed_for_good_raises_in_the_workflow(driver: Driver) -> None:
    """An error that the code lets pass fails the workflow, with type, message and traceback as text (faults P4)."""
    workflow_id = driver.start(cases.sequence, 1)
    driver.run(lambda claim: failed(claim, "no stock"))
    found = workflow(workflow_id)
    assert found.status == "failed"
    assert found.failure["type"].endswith("ActivityError")
    assert "no stock" in found.failure["message"]


def test_the_failure_of_a_workflow_keeps_the_original_error(driver: Driver) -> None:
    """The type's name, the message and where it was raised."""
    workflow_id = driver.start(cases.failing)
    driver.run()
    failure = workflow(workflow_id).failure
    assert (failure["type"], failure["message"]) == ("ValueError", "nothing there")
    assert "in failing" in failure["traceback"]


def test_a_sleep_ends_at_its_own_moment(driver: Driver, frozen_clock: Any) -> None:
    """`now()` behind a timer is never before its deadline, and a wake-up that comes late is the later."""
    workflow_id = driver.start(cases.sleeper, 3600)
    driver.turn()
    assert driver.turn().workflows == 0
    frozen_clock.move(timedelta(hours=2))
    driver.run()
    assert workflow(workflow_id).result == f'"{frozen_clock.now.isoformat()}"'


def test_signals_to_a_workflow_that_starts_later_wait_for_its_start(driver: Driver, frozen_clock: Any) -> None:
    """What came early is not lost, and does not begin the workflow."""
    begins = frozen_clock.now + timedelta(days=1)
    workflow_id = driver.start(cases.signalled, start_at=begins)
    signal.signal(workflow_id, "go", payload="7")
    assert driver.turn().closed == 0
    assert driver.turn().workflows == 0
    frozen_clock.move(timedelta(days=1))
    driver.run()
    assert workflow(workflow_id).result == "7"


def test_a_workflow_that_starts_later_is_cancelled_before_it(driver: Driver, frozen_clock: Any) -> None:
    """Its code never runs."""
    workflow_id = driver.start(cases.sequence, 1, start_at=frozen_clock.now + timedelta(days=1))
    cancel.cancel(workflow_id, reason="not needed")
    driver.run()
    assert workflow(workflow_id).status == "cancelled"
    assert history(workflow_id) == ["workflow_started", "workflow_cancelled"]


def test_a_workflow_over_its_time_ends_as_timed_out_and_its_rows_are_settled(driver: Driver, frozen_clock: Any) -> None:
    """Whatever its code waits for."""
    workflow_id = driver.start(cases.sequence, 1, timeout=timedelta(minutes=10))
    driver.turn()
    frozen_clock.move(timedelta(minutes=11))
    driver.run()
    assert workflow(workflow_id).status == "timed_out"
    assert row(workflow_id).status == "cancelled"


def test_what_a_closing_workflow_leaves_unread_is_listed_in_its_closing_event(driver: Driver) -> None:
    """Accepted is not delivered, and the history says so."""
    workflow_id = driver.start(cases.nothing)
    signal.signal(workflow_id, "late", payload="1")
    driver.run()
    closing = Event.objects.filter(workflow_id=workflow_id).order_by("-seq")[0]
    assert closing.data["unread"] == [{"kind": "signal", "name": "late"}]
    assert list(Message.objects.values_list("kind", "parked")) == [("signal", True)]


@pytest.mark.parametrize("number", [1, 20])
def test_a_turn_is_a_constant_number_of_statements(number: int, django_assert_num_queries: Any) -> None:
    """Whatever the number of workflows and of rows that they stage."""
    driver = Driver()
    for _ in range(number):
        driver.start(cases.fan_out, 3)
    with CaptureQueriesContext(connection) as captured:
        assert driver.turn().workflows == number
    counted = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE"))]
    assert len(counted) == {"postgresql": 10, "sqlite": 12}[connection.vendor], "\n".join(counted)
    assert OutboxRow.objects.count() == 3 * number


def test_a_batch_whose_time_is_up_leaves_the_rest_due_and_commits_what_it_has(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No long turn under locks. With no time at all each batch still brings one workflow further."""
    monkeypatch.setattr(turn, "_CODE_FOR", 0.0)  # how long a batch of turns may take is no setting
    started = [driver.start(cases.nothing) for _ in range(3)]
    reports = [driver.turn() for _ in started]
    assert [(report.workflows, report.deferred) for report in reports] == [(1, 2), (1, 1), (1, 0)]
    assert [workflow(workflow_id).status for workflow_id in started] == ["completed"] * 3
