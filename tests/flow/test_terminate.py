"""Terminating: the workflow ends now, without its code being asked."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from durable.errors import OptionInvalid, WorkflowClosed, WorkflowNotFound
from durable.flow.caller import signal
from durable.flow.operator import terminate
from durable.models import Event, Message, OutboxRow
from durable.outcomes import AckOutcome, WorkflowState
from tests.flow import cases
from tests.flow.driver import Driver, history, items, row, rows, workflow
from tests.flow.state import everything, pause
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


def test_everything_that_a_workflow_has_open_ends_with_it(driver: Driver, frozen_clock: Any) -> None:
    """Event, status, settled rows, deleted items, in one commit; its workers' tokens are gone."""
    workflow_id = driver.start(cases.fan_out, 3)
    driver.turn()
    (out,) = driver.claim(limit=1)
    OutboxRow.objects.filter(ordinal=3).update(status="dead", dead_lettered_at=frozen_clock.now)
    assert terminate.terminate(workflow_id, reason="fraud", actor="ann") is WorkflowState.TERMINATED
    ended = workflow(workflow_id)
    assert (ended.status, ended.closed_at, ended.wake_at) == ("cancelled", frozen_clock.now, None)
    closing = Event.objects.get(workflow_id=workflow_id, seq=ended.last_seq)
    assert closing.type == "workflow_cancelled"
    assert closing.data["reason"] == "fraud"
    assert closing.data["actor"] == "ann"
    assert closing.data["terminated"] is True
    assert [r.status for r in rows(workflow_id)] == ["cancelled"] * 3
    assert items() == []
    assert driver.complete(out) == [AckOutcome.TOKEN_MISSING]


def test_what_was_left_unread_is_listed(driver: Driver) -> None:
    """Accepted is not delivered, and the history says so; the signal itself is kept, parked."""
    workflow_id = driver.start(cases.sequence, 1)
    signal.signal(workflow_id, "go", payload="1")
    terminate.terminate(workflow_id, reason="fraud")
    closing = Event.objects.get(workflow_id=workflow_id, type="workflow_cancelled")
    assert closing.data["unread"] == [{"kind": "signal", "name": "go"}]
    assert list(Message.objects.values_list("kind", "parked", "payload")) == [
        ("signal", True, '{"name":"go","payload":"1"}')
    ]


def test_the_code_of_a_terminated_workflow_does_not_run_again(driver: Driver) -> None:
    """Also not to clean up; a warm copy of it is dropped."""
    workflow_id = driver.start(cases.cleaner)
    driver.turn()
    terminate.terminate(workflow_id, reason="fraud")
    driver.run()
    assert history(workflow_id) == ["workflow_started", "activity_scheduled 1", "workflow_cancelled"]


@pytest.mark.parametrize("kind", ["paused", "blocked", "single"])
def test_every_live_workflow_can_be_terminated(driver: Driver, kind: str) -> None:
    """Whatever holds it."""
    workflow_id = driver.enqueue(cases.step, 1) if kind == "single" else driver.start(cases.sequence, 1)
    driver.turn()
    if kind == "paused":
        pause(workflow_id)
    elif kind == "blocked":
        type(workflow(workflow_id)).objects.update(blocked_reason="no", blocked_version="1")
    terminate.terminate(workflow_id, reason="fraud")
    assert (workflow(workflow_id).status, row(workflow_id).status) == ("cancelled", "cancelled")


def test_terminating_twice_is_refused_with_the_status(driver: Driver) -> None:
    """Another call is another request."""
    workflow_id = driver.start(cases.sequence, 1)
    terminate.terminate(workflow_id, reason="fraud")
    before = everything()
    with pytest.raises(WorkflowClosed) as caught:
        terminate.terminate(workflow_id, reason="again")
    assert (caught.value.status, caught.value.verb) == ("cancelled", "terminate")
    assert everything() == before


def test_an_unknown_workflow_is_not_found() -> None:
    """Typed, with the id."""
    unknown = uuid.uuid4()
    with pytest.raises(WorkflowNotFound, match=str(unknown)):
        terminate.terminate(unknown, reason="fraud")


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_a_reason_is_needed(driver: Driver, reason: str) -> None:
    """It becomes part of the history."""
    workflow_id = driver.start(cases.sequence, 1)
    before = everything()
    with pytest.raises(ValueError, match="reason"):
        terminate.terminate(workflow_id, reason=reason)
    assert everything() == before


@own_connections
@pytest.mark.parametrize("kind", ["single", "turn"])
def test_of_a_termination_and_a_completion_at_once_one_ends_it(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier], kind: str
) -> None:
    """Two connections: one closing event, and the status is its projection."""
    rounds, meet = 15, barrier(2)
    if kind == "single":
        ids = [driver.enqueue(cases.step, n) for n in range(rounds)]
    else:
        ids = [driver.start(cases.sequence, 1) for _ in range(rounds)]
        driver.turn()
    claims = {c.workflow_id: c for c in driver.claim(limit=rounds)}

    def terminate_all() -> list[str]:
        answers = []
        for id in ids:
            meet.wait()
            try:
                answers.append(terminate.terminate(id, reason="enough").value)
            except WorkflowClosed as refused:
                answers.append(refused.status)
        return answers

    other = second_connection(terminate_all)
    for id in ids:
        if kind == "turn":
            driver.complete(claims[id], payload="1")
        meet.wait()
        if kind == "turn":
            driver.turn()
        else:
            driver.complete(claims[id], payload="1")
    driver.run()
    for id, answer in zip(ids, other.result(60), strict=True):
        ended = "cancelled" if answer == "terminated" else "completed"
        assert workflow(id).status == ended
        closings = [name for name in history(id) if name in ("workflow_completed", "workflow_cancelled")]
        assert closings == [f"workflow_{ended}"]
    assert items() == []


@pytest.mark.parametrize("reason", ["", "  ", "nul \0", "half \ud800"])
def test_a_reason_that_is_empty_or_can_not_be_stored_is_refused_before_anything_is_written(reason: str) -> None:
    """The error names the value; the workflow goes on."""
    driver = Driver()
    workflow_id = driver.start(cases.sequence, 1)
    with pytest.raises(OptionInvalid, match="reason"):
        terminate.terminate(workflow_id, reason=reason)
    assert workflow(workflow_id).status == "running"
