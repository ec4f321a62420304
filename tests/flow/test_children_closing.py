"""What the end of a parent does to its children, in whatever way it ends."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta

import pytest
from django.db import connection

from durable.flow.caller import cancel
from durable.flow.operator import pause, resume, terminate
from durable.models import Message, Workflow
from durable.store.runs import family, messages
from durable.store.runs.family import ChildEnd
from tests.conftest import FrozenClock
from tests.flow import families
from tests.flow.driver import Driver, history, workflow
from tests.flow.kin import children, event, only_child, result, send

pytestmark = pytest.mark.django_db


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(cached=request.param)


ENDS = ["return", "fail", "timeout", "terminate"]


def ended(driver: Driver, frozen_clock: FrozenClock, parent: uuid.UUID, how: str) -> None:
    if how == "timeout":
        frozen_clock.move(timedelta(hours=2))
    elif how == "terminate":
        terminate.terminate(parent, reason="enough")
    else:
        send(parent, "end")
    driver.run()


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize(
    ("policy", "events", "status"),
    [
        ("cancel", ["cancel_requested", "activity_scheduled 1", "activity_completed 1"], "cancelled"),
        ("terminate", [], "cancelled"),
        ("abandon", [], "running"),
    ],
)
def test_what_the_end_of_a_parent_does_to_its_child_is_said_by_its_policy(
    driver: Driver, frozen_clock: FrozenClock, how: str, policy: str, events: list[str], status: str
) -> None:
    then = "fail" if how == "fail" else "end"
    parent = driver.start(families.holds, "tidies_up", policy, then, timeout=timedelta(hours=1))
    driver.run()
    ended(driver, frozen_clock, parent, how)
    ends = {"return": "completed", "fail": "failed", "timeout": "timed_out", "terminate": "cancelled"}
    assert workflow(parent).status == ends[how]
    child = only_child(parent)
    assert child.status == status
    begun = ["workflow_started", "workflow_begun"]
    closed = [] if status == "running" else ["workflow_cancelled"]
    assert history(child.pk) == [*begun, *events, *closed]
    if status == "cancelled":
        closing = event(child.pk, "workflow_cancelled").data
        assert str(parent) in closing["reason"]
        assert ends[how].replace("_", " ") in closing["reason"]
        assert bool(closing.get("terminated")) is (policy == "terminate")
        assert not closing.get("unread")
    assert not Message.objects.filter(parked=False).exists(), "nobody is told the end of an orphan"


@pytest.mark.parametrize(("policy", "runs"), [("abandon", True), ("cancel", False), ("terminate", False)])
def test_a_child_of_the_last_line_runs_if_it_was_abandoned_and_never_existed_otherwise(
    driver: Driver, policy: str, runs: bool
) -> None:
    parent = driver.start(families.last_line, policy)
    driver.run()
    assert [(str(child.pk), child.status) for child in children(parent)] == [(result(parent), "running")] * runs
    assert workflow(parent).children == int(runs)
    dropped = event(parent, "workflow_completed").data.get("dropped_commands", [])
    assert dropped == ([] if runs else ["families.waits"])
    for child in children(parent):
        send(child.pk, "go", "on")
        driver.run()
        assert result(child.pk) == "on"
    assert not Message.objects.exists()


def test_a_cancelled_parent_cancels_a_tree_each_level_in_a_turn_of_its_own(driver: Driver) -> None:
    root = driver.start(families.tree, 3)
    driver.run()
    family = [root]
    while below := children(family[-1]):
        family += [child.pk for child in below]
    assert len(family) == 5
    cancel.cancel(root, reason="all of it")
    for level, member in enumerate(family):
        assert workflow(member).status == "running"
        driver.turn()
        assert [workflow(one).status for one in family[: level + 1]] == ["cancelled"] * (level + 1)
        assert [workflow(one).status for one in family[level + 1 :]] == ["running"] * (4 - level)
    driver.run()
    assert not Message.objects.exists()


def test_an_order_to_terminate_goes_down_a_tree(driver: Driver) -> None:
    root = driver.start(families.order, "tree_of_orders")
    driver.run()
    below = Workflow.objects.exclude(pk=root)
    assert below.count() == 4
    terminate.terminate(root, reason="enough")
    driver.run()
    assert set(Workflow.objects.values_list("status", flat=True)) == {"cancelled"}
    last = Workflow.objects.get(type="families.waits")
    assert event(last.pk, "workflow_cancelled").data.get("terminated") is None, "the last one's policy is to cancel"
    for one in below.exclude(pk=last.pk):
        assert event(one.pk, "workflow_cancelled").data["terminated"] is True
    assert not Message.objects.exists()


@pytest.mark.parametrize("state", ["paused", "blocked", "unknown", "unbegun"])
def test_terminating_a_parent_ends_a_child_that_nobody_can_turn(
    driver: Driver, frozen_clock: FrozenClock, state: str
) -> None:
    parent = driver.start(families.order, "buggy" if state == "blocked" else "waits")
    if state == "unbegun":
        driver.turn()
    else:
        driver.run()
    child = only_child(parent).pk
    if state == "paused":
        pause.pause(child)
        driver.run()
    elif state == "unknown":
        Workflow.objects.filter(id=child).update(type="gone.away")
        driver = Driver(cached=0)
    else:
        assert bool(workflow(child).blocked_reason) is (state == "blocked")
    terminate.terminate(parent, reason="enough")
    driver.run()
    assert workflow(child).status == "cancelled"
    assert event(child, "workflow_cancelled").data["terminated"] is True
    assert not Message.objects.exists()


def test_a_request_to_cancel_waits_for_a_paused_child(driver: Driver) -> None:
    parent = driver.start(families.holds, "tidies_up", "cancel", "end")
    driver.run()
    child = only_child(parent).pk
    pause.pause(child)
    send(parent, "end")
    driver.run()
    assert workflow(child).status == "paused"
    resume.resume(child)
    driver.run()
    assert workflow(child).status == "cancelled"


def test_an_order_that_comes_while_its_turn_parks_messages_is_carried_out_by_the_next(driver: Driver) -> None:
    parent = driver.start(families.order, "waits")
    driver.run()
    child = only_child(parent).pk
    pause.pause(child)
    terminate.terminate(parent, reason="enough")
    messages.park(connection, [child])
    driver.run()
    assert workflow(child).status == "cancelled"


def test_a_child_that_ends_after_its_parent_leaves_nothing_due(driver: Driver) -> None:
    parent = driver.start(families.holds, "waits", "abandon", "end")
    driver.run()
    child = only_child(parent)
    late = ChildEnd(parent, 1, 1, json.dumps({"child": str(child.pk), "status": "completed", "result": "1"}))
    family.tell_parents(connection, [late])  # by a transaction that saw the parent live, and commits after its end
    Message.objects.update(parked=True)
    send(parent, "end")
    Message.objects.filter(kind="child").update(workflow_id=child.pk)
    driver.run()
    Message.objects.filter(kind="child").update(workflow_id=parent, parked=False)
    driver.run()
    assert not Message.objects.exists()
