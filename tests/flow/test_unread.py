"""What was accepted is read by its workflow, or kept with it: whatever ends it, and whenever the sender commits."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from durable import clock
from durable.flow.caller import cancel, signal
from durable.flow.delivery import acknowledge
from durable.flow.looks import look, prove
from durable.flow.operator import pause, terminate
from durable.models import Message
from durable.store.operators import reads
from durable.store.runs import due
from tests.conftest import FrozenClock
from tests.flow import cases
from tests.flow.driver import Driver, failed, history, workflow
from tests.flow.state import kept, listed

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time.")
on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has many writers at a time.")

NEWS = {"kind": "signal", "name": "news"}


# --- every way to end ----------------------------------------------------------------------------------------------


def _completes(driver: Driver, clock: FrozenClock) -> uuid.UUID:
    workflow_id = driver.start(cases.nothing)
    signal.signal(workflow_id, "news", payload="42")
    driver.run()
    return workflow_id


def _fails(driver: Driver, clock: FrozenClock) -> uuid.UUID:
    workflow_id = driver.start(cases.sequence, 1)
    driver.turn()
    acknowledge.acknowledge([failed(driver.claim_one())])
    clock.move(timedelta(seconds=1))
    signal.signal(workflow_id, "news", payload="42")
    driver.turn()
    return workflow_id


def _is_terminated(driver: Driver, clock: FrozenClock) -> uuid.UUID:
    workflow_id = driver.start(cases.sequence, 1)
    signal.signal(workflow_id, "news", payload="42")
    terminate.terminate(workflow_id, reason="enough")
    return workflow_id


def _is_terminated_while_it_is_paused(driver: Driver, clock: FrozenClock) -> uuid.UUID:
    workflow_id = driver.start(cases.sequence, 1)
    driver.turn()
    pause.pause(workflow_id)
    signal.signal(workflow_id, "news", payload="42")
    driver.turn()
    terminate.terminate(workflow_id, reason="enough")
    return workflow_id


def _times_out(driver: Driver, clock: FrozenClock) -> uuid.UUID:
    workflow_id = driver.start(cases.signalled, timeout=timedelta(minutes=1))
    driver.turn()
    clock.move(timedelta(minutes=2))
    signal.signal(workflow_id, "news", payload="42")
    driver.turn()
    return workflow_id


def _is_cancelled_before_it_began(driver: Driver, clock: FrozenClock) -> uuid.UUID:
    workflow_id = driver.start(cases.signalled, start_at=clock.now + timedelta(days=1))
    signal.signal(workflow_id, "news", payload="42")
    driver.turn()
    cancel.cancel(workflow_id, reason="")
    driver.turn()
    return workflow_id


ENDS = [
    (_completes, "completed"),
    (_fails, "failed"),
    (_is_terminated, "cancelled"),
    (_is_terminated_while_it_is_paused, "cancelled"),
    (_times_out, "timed_out"),
    (_is_cancelled_before_it_began, "cancelled"),
]


@pytest.mark.parametrize(("end", "status"), ENDS, ids=[end.__name__.strip("_") for end, _ in ENDS])
def test_a_signal_that_an_ending_workflow_has_not_read_is_listed_and_kept(
    driver: Driver, frozen_clock: FrozenClock, end: Callable[[Driver, FrozenClock], uuid.UUID], status: str
) -> None:
    """Parked, never due, and by itself: what else waited (a start, results) is nobody's news any more."""
    workflow_id = end(driver, frozen_clock)
    assert workflow(workflow_id).status == status
    assert listed(workflow_id) == [NEWS]
    assert kept(workflow_id) == [("signal", "news", True)]
    assert [(m.kind, json.loads(m.payload or "")["name"]) for m in look.unread(workflow_id)] == [("signal", "news")]
    assert due.owners(connection, messages=10, timers=10, starts=10, queues=None) == []
    assert reads.earliest(connection, None) == []
    assert list(prove.contradictions()) == []


def test_what_is_kept_is_listed_in_the_order_in_which_it_would_have_been_read(driver: Driver) -> None:
    """Reopening will give it again in this order."""
    workflow_id = driver.start(cases.signalled)
    for name in ("go", "b", "a", "c"):
        signal.signal(workflow_id, name, payload="1")
    cancel.cancel(workflow_id, reason="late")
    driver.run()
    assert history(workflow_id) == ["workflow_started", "workflow_begun", "signal_received", "workflow_completed"]
    assert [said.get("name", said["kind"]) for said in listed(workflow_id)] == ["b", "a", "c", "cancel"]
    assert [name or kind for kind, name, _ in kept(workflow_id)] == ["b", "a", "c", "cancel"]
    assert [m.kind for m in look.unread(workflow_id, limit=3)] == ["signal"] * 3


def test_a_message_that_was_damaged_is_kept_too_and_does_not_keep_its_workflow_from_ending(driver: Driver) -> None:
    """It has blocked the workflow; terminating is what is left to staff."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    signal.signal(workflow_id, "go", payload="1")
    Message.objects.update(payload="{no")
    driver.turn()
    assert workflow(workflow_id).blocked_reason
    terminate.terminate(workflow_id, reason="damaged")
    assert listed(workflow_id) == [{"kind": "signal", "unreadable": True}]
    assert list(Message.objects.values_list("payload", "parked")) == [("{no", True)]


def test_a_signal_is_read_whatever_run_of_the_history_its_sender_saw(driver: Driver) -> None:
    """Only results belong to a run."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    signal.signal(workflow_id, "go", payload="1")
    Message.objects.update(run=7)
    driver.run()
    assert workflow(workflow_id).result == "1"


def test_a_request_to_cancel_is_read_whatever_run_of_the_history_its_sender_saw(driver: Driver) -> None:
    """The same."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    cancel.cancel(workflow_id, reason="enough")
    Message.objects.update(run=7)
    driver.run()
    assert workflow(workflow_id).status == "cancelled"


def test_a_live_workflow_has_nothing_unread(driver: Driver) -> None:
    """What waits for it will be read."""
    workflow_id = driver.start(cases.signalled)
    signal.signal(workflow_id, "go", payload="1")
    assert look.unread(workflow_id) == []


@own_connections
def test_what_comes_after_the_end_leaves_what_was_kept_before_as_it_is(driver: Driver) -> None:
    """A turn that meets an ended workflow neither reads nor writes its older messages."""
    workflow_id = driver.start(cases.nothing)
    for n in range(3):
        signal.signal(workflow_id, f"early {n}", payload="1")
    driver.run()
    before = list(Message.objects.order_by("id").values())
    Message.objects.create(**{**before[0], "id": None, "parked": False})
    driver.run()
    after = list(Message.objects.order_by("id").values())
    assert after[:3] == before
    assert [m["parked"] for m in after] == [True] * 4


@own_connections
def test_after_a_deploy_only_live_workflows_have_their_messages_back(driver: Driver) -> None:
    """One that was blocked and is terminated keeps what it has not read, parked."""
    from durable.flow.operator import unblock

    workflow_id = driver.start(cases.signalled)
    driver.turn()
    signal.signal(workflow_id, "news", payload="42")
    terminate.terminate(workflow_id, reason="enough")
    unblock._offer([workflow_id], "next", connection)  # the moment between choosing the workflows and locking them
    assert kept(workflow_id) == [("signal", "news", True)]


# --- what the proof says -------------------------------------------------------------------------------------------


def test_the_proof_finds_messages_that_stay_due_for_an_ended_workflow(driver: Driver) -> None:
    """Parked ones are right. One that came just now waits for the turn that will park it."""
    workflow_id = driver.start(cases.nothing)
    signal.signal(workflow_id, "news", payload="42")
    driver.run()
    assert list(prove.contradictions()) == []
    Message.objects.update(parked=False)
    assert list(prove.contradictions()) == []
    Message.objects.update(visible_at=clock.database_now(connection) - timedelta(minutes=2))
    (found,) = prove.contradictions()
    assert found.subject == f"Workflow {workflow_id}"
    assert "messages to it are still due: 1" in found.text
    driver.run()
    assert list(prove.contradictions()) == []
