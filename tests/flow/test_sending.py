"""Signals and requests to cancel that workflows send to others."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from durable.flow.operator import pause, terminate
from durable.models import Message
from tests.flow import cases, families
from tests.flow.driver import Driver, history, workflow
from tests.flow.kin import children, event, only_child, result, send

pytestmark = pytest.mark.django_db


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(cached=request.param)


@pytest.mark.parametrize("policy", ["cancel", "terminate", "abandon"])
@pytest.mark.parametrize("when", ["before", "in", "behind"])
def test_a_child_that_is_no_longer_awaited_is_asked_to_cancel_unless_it_was_abandoned(
    driver: Driver, when: str, policy: str
) -> None:
    parent = driver.start(families.gives_up, when, policy)
    driver.run()
    if when == "behind":
        child = only_child(parent).pk
        send(parent, "give up")
        driver.run()
        assert workflow(child).status == ("running" if policy == "abandon" else "cancelled")
        assert event(parent, "child_cancelled").data == {"child": str(child)}
        if policy == "abandon":
            send(child, "go", "late")
            driver.run()
            assert result(child) == "late"
    else:
        assert children(parent) == []
        assert history(parent) == ["workflow_started", "workflow_begun"]
    send(parent, "end")
    driver.run()
    assert result(parent) == [True, []]
    assert not any(one.startswith(("child_completed", "child_failed")) for one in history(parent))
    assert not Message.objects.exists()


def test_talking_to_a_child(driver: Driver) -> None:
    signalled, cancelled = driver.start(families.talks, "signal"), driver.start(families.talks, "cancel")
    driver.run()
    assert result(signalled) == "unreached"
    assert result(cancelled) == "too late"
    assert event(signalled, "signal_sent").data["name"] == "go"
    assert event(cancelled, "signal_sent").data == {"to": str(only_child(cancelled).pk), "cancel": True}


@pytest.mark.parametrize("what", ["id", "key"])
def test_another_workflow_is_signalled_by_id_or_key(driver: Driver, what: str) -> None:
    other = driver.start(families.waits, key="order-1")
    sender = driver.start(families.sends, other, what)
    driver.run()
    assert result(sender) == "accepted"
    assert result(other) == f"by {what}"
    assert history(sender) == ["workflow_started", "signal_sent 1", "signal_answered 1", "workflow_completed"]


@pytest.mark.parametrize("what", ["cancel", "cancel key"])
def test_another_workflow_is_asked_to_cancel_by_id_or_key(driver: Driver, what: str) -> None:
    other = driver.start(families.waits, key="order-1")
    driver.run()
    sender = driver.start(families.sends, other, what)
    driver.run()
    assert result(sender) == "accepted"
    assert workflow(other).status == "cancelled"
    assert event(other, "workflow_cancelled").data["reason"] == ("why not" if what == "cancel" else "")


@pytest.mark.parametrize("what", ["id", "key", "cancel", "cancel key"])
def test_what_was_not_accepted_is_recorded_and_raised_where_it_is_awaited(driver: Driver, what: str) -> None:
    nobody = driver.start(families.sends, uuid.uuid4(), what)
    driver.run()
    assert result(nobody) == "WorkflowNotFound"
    assert event(nobody, "signal_sent").data["refused"] == "not_found"
    other = driver.start(families.waits, key="order-1")
    terminate.terminate(other, reason="gone")
    sender = driver.start(families.sends, other, what)
    driver.run()
    assert result(sender) == "WorkflowClosed"
    sent = event(sender, "signal_sent").data
    assert (sent["refused"], sent["status"]) == ("closed", "cancelled")
    assert event(sender, "signal_answered").data == {"refused": "closed", "status": "cancelled"}


def test_a_signal_that_nobody_awaits_costs_no_turn_whatever_becomes_of_it(driver: Driver) -> None:
    senders = [driver.start(families.sends_last, uuid.uuid4())]
    other = driver.start(families.waits)
    senders.append(driver.start(families.sends_last, other))
    driver.run()
    for sender in senders:
        assert history(sender) == ["workflow_started", "signal_sent 1", "workflow_completed"]
    assert event(senders[0], "signal_sent").data["refused"] == "not_found"
    assert result(other) == "the last"


def test_a_single_activity_takes_no_signal_of_a_workflow(driver: Driver) -> None:
    single = driver.enqueue(cases.step, 1)
    sender = driver.start(families.sends_last, single)
    driver.turn()
    assert event(sender, "signal_sent").data["refused"] == "single"


def test_a_workflow_that_has_no_room_for_a_signal_refuses_it(driver: Driver, settings: Any) -> None:
    settings.DURABLE = {"MAX_UNREAD_SIGNALS": 1}
    other = driver.start(families.waits)
    driver.run()
    pause.pause(other)
    send(other, "before")
    sender = driver.start(families.sends, other, "id")
    driver.run()
    assert result(sender) == "MailboxFull"
    assert Message.objects.filter(workflow_id=other).count() == 1
