"""Child workflows: started and ended, with what their parents are told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from durable import testing
from durable.flow.caller import cancel
from durable.flow.operator import pause, resume, terminate, unblock
from durable.kernel.definitions.registry import registry
from durable.models import Message, Workflow
from tests.conftest import FrozenClock
from tests.flow import families
from tests.flow.driver import Driver, history, workflow
from tests.flow.kin import children, event, only_child, result, send, statements

pytestmark = pytest.mark.django_db


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(cached=request.param)


def test_a_childs_result_reaches_its_parent(driver: Driver) -> None:
    parent = driver.start(families.parent, 4)
    driver.run()
    assert result(parent) == 5
    child = only_child(parent)
    assert (child.parent_run, child.parent_ordinal, child.parent_close) == (1, 1, "cancel")
    assert history(parent) == [
        "workflow_started", "child_started 1", "child_completed 1", "workflow_completed",
    ]  # fmt: skip
    started = event(parent, "child_started").data
    assert started["child"] == str(child.id)
    assert started["type"] == child.type == "families.adds_one"
    assert workflow(parent).children == 1
    assert not Message.objects.exists()


def test_many_children_are_awaited_at_once(driver: Driver) -> None:
    parent = driver.start(families.many, 30)
    driver.run()
    assert result(parent) == sum(range(30))
    assert workflow(parent).children == 30
    assert [child.parent_ordinal for child in children(parent)] == list(range(1, 31))


@pytest.mark.parametrize(
    ("child", "told"),
    [
        ("fails", {"error": "ChildFailed", "type": "ValueError", "message": "no money"}),
        ("waits", {"error": "ChildCancelled", "reason": "too expensive"}),
        ("limited", {"error": "ChildTimedOut"}),
    ],
)
def test_each_end_of_a_child_is_an_error_of_its_own(
    driver: Driver, frozen_clock: FrozenClock, child: str, told: dict[str, Any]
) -> None:
    parent = driver.start(families.catches, child)
    driver.run()
    if child == "waits":
        cancel.cancel(only_child(parent).pk, reason="too expensive")
    elif child == "limited":
        frozen_clock.move(timedelta(seconds=31))
    driver.run()
    nothing = dict.fromkeys(("key", "type", "message", "reason"))
    assert result(parent) == {**nothing, "workflow_type": f"families.{child}", **told}
    failed = event(parent, "child_failed")
    assert (failed.ordinal, failed.data["child"]) == (1, str(only_child(parent).pk))
    assert failed.data["status"] == only_child(parent).status


def test_a_terminated_child_counts_as_cancelled(driver: Driver) -> None:
    parent = driver.start(families.catches, "waits")
    driver.run()
    terminate.terminate(only_child(parent).pk, reason="by staff")
    driver.run()
    assert result(parent)["error"] == "ChildCancelled"
    assert result(parent)["reason"] == "by staff"


def test_an_uncaught_error_of_a_child_fails_its_parent_and_says_which_call_caused_it(driver: Driver) -> None:
    parent = driver.start(families.holds, "tidies_up", "cancel", "await")
    driver.run()
    cancel.cancel(only_child(parent).pk)
    driver.run()
    row = workflow(parent)
    assert (row.status, row.blocked_reason) == ("failed", "")
    assert row.failure["type"] == "durable.errors.ChildCancelled"
    assert event(parent, "workflow_failed").data["cause"] == [1]


def test_a_child_begun_with_start_is_abandoned_and_its_end_is_told_to_nobody(driver: Driver) -> None:
    parent = driver.start(families.detaches, 4)
    driver.run()
    child = only_child(parent)
    assert result(parent) == str(child.pk)
    assert (child.key, child.priority, child.parent_close) == ("detached", 3, "detached")
    assert result(child.pk) == 5
    assert "child_completed" not in " ".join(history(parent))
    assert not Message.objects.exists()


def test_a_taken_key_is_raised_where_the_child_is_awaited_and_leaves_no_row(driver: Driver) -> None:
    holder = driver.start(families.waits, key="taken")
    driver.run()
    parent = driver.start(families.keyed)
    driver.run()
    assert result(parent) == ["families.waits", "taken", str(holder)]
    assert children(parent) == []
    assert workflow(parent).children == 0
    assert event(parent, "child_started").data["refused"] == {"holder": str(holder)}
    assert event(parent, "child_failed").data["status"] == "refused"
    failing = driver.start(families.fails_by_key)
    driver.run()
    assert workflow(failing).failure["type"] == "durable.errors.KeyTaken"
    assert event(failing, "workflow_failed").data["cause"] == [1]


def test_a_free_key_is_held_by_the_child(driver: Driver) -> None:
    parent = driver.start(families.keyed)
    driver.run()
    child = only_child(parent)
    assert child.key == "taken"
    send(child.pk, "go", "mine")
    driver.run()
    assert result(parent) == "mine"


def test_wait_for_gives_its_child_up_when_the_time_is_over(driver: Driver, frozen_clock: FrozenClock) -> None:
    parent = driver.start(families.waits_for, 5)
    driver.run()
    frozen_clock.move(timedelta(seconds=6))
    driver.run()
    assert only_child(parent).status == "cancelled"
    send(parent, "end")
    driver.run()
    assert result(parent) == "True"


def test_a_shielded_child_outlasts_the_time_limit_and_is_waited_for(driver: Driver, frozen_clock: FrozenClock) -> None:
    parent = driver.start(families.shields, 5)
    driver.run()
    frozen_clock.move(timedelta(seconds=6))
    driver.run()
    send(only_child(parent).pk, "go", "late")
    driver.run()
    assert result(parent) == ["late"]


def test_a_child_that_ends_while_its_parent_is_paused_or_blocked_is_told_afterwards(driver: Driver) -> None:
    paused, blocked = (driver.start(families.holds, "waits", "cancel", "await") for _ in range(2))
    driver.run()
    pause.pause(paused)
    Workflow.objects.filter(id=blocked).update(blocked_reason="by a test", blocked_version=registry.version())
    for parent in (paused, blocked):
        send(only_child(parent).pk, "go", "told")
    driver.run()
    assert {workflow(parent).status for parent in (paused, blocked)} == {"paused", "running"}
    resume.resume(paused)
    unblock.unblock(blocked)
    driver.run()
    assert result(paused) == result(blocked) == "told"


def test_a_workflow_and_its_child_know_one_another(driver: Driver) -> None:
    parent = driver.start(families.asks_its_child)
    driver.run()
    child, own, key, type, before, after, told = result(parent)
    assert (child, own, key, type) == (str(only_child(parent).pk), str(parent), "mine", "families.describes")
    assert (before, after) == ([True], [])
    assert told == [str(parent), "mine", "families.describes"]


def test_a_thousand_children_cost_as_many_statements_as_one_and_their_ends_twenty_turns_at_most() -> None:
    driver = Driver()
    counts = []
    for width in (0, 1, 1_000):
        parent = driver.start(families.many, width)
        counts.append(statements(lambda: driver.turn(1)))
        assert workflow(parent).children == width
        if width < 1_000:
            driver.run()
    without, one, thousand = counts
    assert thousand == one
    assert one <= without + (1 if connection.vendor == "postgresql" else 3)
    turns = 0
    while Workflow.objects.filter(type="families.many", status="running").exists():
        before = workflow(parent).last_seq
        driver.turn(100)
        turns += workflow(parent).last_seq > before
    assert result(parent) == sum(range(1_000))
    assert turns <= 20, turns


def test_the_ends_of_many_workflows_are_told_in_one_statement_and_those_without_relatives_in_none() -> None:
    driver = Driver()
    alone = [driver.start(families.echo, n) for n in range(5)]
    of_those_alone = statements(driver.turn)
    assert {workflow(one).status for one in alone} == {"completed"}
    counts = []
    for width in (1, 10):
        driver.start(families.many, width)
        driver.turn()
        counts.append(statements(lambda width=width: driver.turn(width)))
        driver.run()
    assert counts[0] == counts[1]
    assert counts[0] == of_those_alone + 1


@pytest.mark.parametrize("_", range(5))
def test_of_several_calls_with_one_key_the_first_gets_it(driver: Driver, _: int) -> None:
    parent = driver.start(families.twins)
    driver.run()
    assert result(parent) == ["0", *["KeyTaken"] * 4]
    assert workflow(parent).children == 1


def test_a_childs_history_alone_says_who_its_parent_is(driver: Driver) -> None:
    parent = driver.start(families.of_a_teller)
    driver.run()
    child = only_child(parent).pk
    assert event(child, "workflow_started").data["parent"] == str(parent)
    assert testing.replay_here(testing.export_history(child)).drift == 0


def test_a_child_that_is_cancelled_before_its_first_turn_is_started_first(driver: Driver) -> None:
    parent = driver.start(families.holds, "tidies_up", "cancel", "await")
    driver.turn(1)
    child = only_child(parent).pk
    assert history(child) == ["workflow_started"]
    cancel.cancel(child)
    driver.run()
    assert history(child)[1:4] == ["workflow_begun", "cancel_requested", "activity_scheduled 1"]
    assert workflow(child).status == "cancelled"
