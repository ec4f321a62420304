"""Signals: accepted for live workflows, read by the next turn."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from durable.errors import NobodyListens, WorkflowClosed, WorkflowNotFound
from durable.flow.caller import signal
from durable.flow.operator import pause, resume, terminate
from durable.models import Message
from tests.flow import cases
from tests.flow.driver import Driver, history, workflow
from tests.flow.state import everything, messages_of, undone
from tests.rounds import AT_LAST, FULL, rounds
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


def test_a_signal_waits_for_the_workflows_next_turn(driver: Driver) -> None:
    """Also one that comes before the workflow waits for it."""
    workflow_id = driver.start(cases.signalled)
    signal.signal(workflow_id, "go", payload='{"ok":true}')
    assert messages_of(workflow_id)[1:] == [("signal", None, {"name": "go", "payload": '{"ok":true}'})]
    driver.run()
    assert workflow(workflow_id).result == '{"ok":true}'


def test_a_signal_is_one_statement(driver: Driver) -> None:
    """The look at the status and the insert can not be pulled apart."""
    workflow_id = driver.start(cases.signalled)
    with CaptureQueriesContext(connection) as captured:
        signal.signal(workflow_id, "go", payload="1")
    counted = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE", "BEGIN"))]
    assert len(counted) == 1


def test_a_workflow_that_has_ended_refuses_it_by_name(driver: Driver) -> None:
    """Never a silent no-op; nothing is written."""
    workflow_id = driver.start(cases.nothing)
    driver.run()
    before = everything()
    with pytest.raises(WorkflowClosed, match=r"completed; a signal needs a live workflow") as caught:
        signal.signal(workflow_id, "go", payload="1")
    assert (caught.value.workflow_id, caught.value.status) == (workflow_id, "completed")
    assert everything() == before


def test_a_single_activity_refuses_it_by_name(driver: Driver) -> None:
    """It has no code that could wait: accepted, the signal would lie there unread, and the turn that meets it would
    block a workflow whose type no code has. Nothing is written, before and behind its end.
    """
    workflow_id = driver.enqueue(cases.step, 1)
    before = everything()
    with pytest.raises(NobodyListens, match="is a single activity") as caught:
        signal.signal(workflow_id, "go", payload="1")
    assert caught.value.workflow_id == workflow_id
    assert everything() == before
    driver.run()
    assert history(workflow_id) == ["workflow_started", "workflow_completed"]
    with pytest.raises(WorkflowClosed):
        signal.signal(workflow_id, "go", payload="1")


def test_an_unknown_workflow_is_not_found() -> None:
    """With the id in the message."""
    unknown = uuid.uuid4()
    with pytest.raises(WorkflowNotFound, match=str(unknown)):
        signal.signal(unknown, "go", payload="1")


def test_signals_are_read_in_the_order_in_which_they_came(driver: Driver) -> None:
    """The first one wins the wait."""
    workflow_id = driver.start(cases.signalled)
    for n in range(3):
        signal.signal(workflow_id, "go", payload=str(n))
    driver.run()
    assert workflow(workflow_id).result == "0"


@pytest.mark.parametrize("warm", [True, False])
def test_a_paused_workflow_reads_it_when_it_is_resumed(driver: Driver, warm: bool) -> None:
    """The turn that meets the paused workflow parks it, so that it is not due for ever."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    pause.pause(workflow_id)
    signal.signal(workflow_id, "go", payload="1")
    driver.turn()
    assert list(Message.objects.values_list("parked", flat=True)) == [True]
    assert driver.turn().workflows == 0
    resume.resume(workflow_id)
    (driver if warm else Driver(name="cold")).run()
    assert workflow(workflow_id).result == "1"


def test_a_second_one_of_the_same_dedup_changes_nothing_while_the_first_waits(driver: Driver) -> None:
    """Accepted, quietly; another dedup, and another workflow, have nothing to do with it."""
    workflow_id, other = driver.start(cases.signalled), driver.start(cases.signalled)
    for owner, payload, dedup in [
        (workflow_id, "1", "a"),
        (workflow_id, "2", "a"),
        (workflow_id, "3", "b"),
        (other, "4", "a"),
    ]:
        signal.signal(owner, "go", payload=payload, dedup=dedup)
    assert [told["payload"] for kind, _, told in messages_of(workflow_id) if kind == "signal"] == ["1", "3"]
    assert len(messages_of(other)) == 2


@own_connections
def test_a_signal_goes_with_its_callers_transaction(driver: Driver) -> None:
    """T12 joins."""
    workflow_id = driver.start(cases.signalled)
    with undone():
        signal.signal(workflow_id, "go", payload="1")
    assert [kind for kind, _, _ in messages_of(workflow_id)] == ["start"]


@own_connections
def test_a_refusal_leaves_the_callers_transaction_usable(driver: Driver) -> None:
    """An error of ours is none of the database's."""
    workflow_id = driver.start(cases.nothing)
    driver.run()
    with transaction.atomic():
        with pytest.raises(WorkflowClosed):
            signal.signal(workflow_id, "go", payload="1")
        second = driver.start(cases.nothing)
    assert workflow(second).status == "running"


@pytest.mark.races
@own_connections
def test_every_waiter_wakes_whatever_moment_its_signal_comes_at(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Faults D5: signals race the turns that begin to wait for them."""
    times, width, meet = rounds(3, asked=20), 128 if FULL else 32, barrier(2)
    ids: list[list[uuid.UUID]] = []

    def signal_all() -> None:
        for at in range(times):
            meet.wait()
            for id in ids[at]:
                signal.signal(id, "go", payload="1")

    other = second_connection(signal_all)
    for _ in range(times):
        ids.append([driver.start(cases.signalled) for _ in range(width)])
        meet.wait()
        while driver.turn(limit=10).workflows:
            pass
    other.result(AT_LAST)
    driver.run(rounds=10_000)
    assert {workflow(id).status for each in ids for id in each} == {"completed"}


@pytest.mark.races
@own_connections
def test_a_signal_racing_a_termination_is_read_listed_or_refused(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """And what slipped in after the end is parked by the turn that meets it: nothing is lost, and nothing stays due."""
    times, meet = rounds(15, asked=200), barrier(2)
    ids = [driver.start(cases.signalled) for _ in range(times)]
    while driver.turn().workflows:
        pass

    def terminate_all() -> None:
        for id in ids:
            meet.wait()
            terminate.terminate(id, reason="enough")

    other, refusals = second_connection(terminate_all), []
    for id in ids:
        meet.wait()
        try:
            signal.signal(id, "go", payload="1")
        except WorkflowClosed as refused:
            refusals.append(refused.status)
    assert set(refusals) <= {"cancelled"}
    other.result(AT_LAST)
    driver.run()
    assert set(Message.objects.values_list("kind", "parked")) <= {("signal", True)}
    assert Message.objects.count() == times - len(refusals)
    assert all(history(id)[-1] == "workflow_cancelled" for id in ids)
