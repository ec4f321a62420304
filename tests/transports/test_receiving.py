"""The receiving side: one delivery in this process, run as a worker would run it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from durable.flow.caller import cancel
from durable.flow.delivery import acknowledge, begin, claim
from durable.flow.operator import terminate
from durable.flow.transactions.commits import ClaimCommit
from durable.flow.upkeep import reconcile
from durable.models import FailedAttempt, OutboxRow, WorkItem
from durable.outcomes import Claim, WorkflowStatus
from durable.worker.process import receiving
from durable.worker.process.receiving import Received, Receiver, receive
from tests.flow.state import everything
from tests.transports import in_process
from tests.waiting import Gate, in_thread
from tests.worker.conftest import Plant
from tests.worker.hearing import listening
from tests.worker.plant import activities

LEASE = timedelta(minutes=1)


@pytest.fixture
def receiver(plant: Plant, settings: Any) -> Iterator[Receiver]:
    """This process receives; it renews three times a second."""
    settings.DURABLE = {**settings.DURABLE, "LEASE_FOR": timedelta(seconds=1)}
    with in_process.receiver() as made:
        yield made


def sent(plant: Plant, definition: Any, *args: Any, **options: Any) -> Claim:
    """Enqueue one and claim it as a sender does."""
    plant.enqueue(definition, *args, queue="reports", **options)
    return sent_again()


def sent_again() -> Claim:
    """Claim the one that is due."""
    OutboxRow.objects.update(visible_after="2020-01-01 00:00:00+00:00")
    commit = ClaimCommit("sender")
    (only,) = claim.claim_to_send("sender", limit=9, queue="reports", lease_for=LEASE, commit=commit)
    return only


def test_a_receiver_runs_the_handler_and_acknowledges(plant: Plant, receiver: Receiver) -> None:
    out = sent(plant, activities.note, "here")
    assert receive(out.row_id, out.token.hex) is Received.RAN
    found = plant.look(out.workflow_id)
    assert (found.status, found.result, plant.labels()) == (WorkflowStatus.COMPLETED, '"here"', ["here"])
    assert plant.row(out.workflow_id).worker == receiver.name


@pytest.mark.parametrize("definition", [activities.note_async, activities.write_once])
def test_async_and_transactional_handlers_run_and_are_acknowledged(
    plant: Plant, receiver: Receiver, definition: Any
) -> None:
    out = sent(plant, definition, "here")
    assert receive(out.row_id, out.token.hex) is Received.RAN
    assert plant.look(out.workflow_id).status is WorkflowStatus.COMPLETED
    assert plant.labels() == ["here"]


def test_a_second_message_runs_nothing(plant: Plant, receiver: Receiver) -> None:
    out = sent(plant, activities.note, "here")
    receive(out.row_id, out.token.hex)
    before = everything()
    assert receive(out.row_id, out.token.hex) is Received.STALE
    assert everything() == before


@pytest.mark.parametrize("token", ["", "no token", "0" * 32])
def test_a_message_that_names_no_delivery_changes_nothing_and_raises_nothing(
    plant: Plant, receiver: Receiver, token: str
) -> None:
    out = sent(plant, activities.note, "here")
    before = everything()
    assert receive(out.row_id, token) is Received.STALE
    assert receive(out.row_id + 1, out.token.hex) is Received.STALE
    assert everything() == before


def test_a_failed_attempt_goes_back_for_the_next_one(plant: Plant, receiver: Receiver) -> None:
    """With its heartbeat, which the next one reads."""
    out = sent(plant, activities.heartbeat)
    assert receive(out.row_id, out.token.hex) is Received.RAN
    assert [failed.cause for failed in plant.row(out.workflow_id).failed_attempts.all()] == ["application_error"]
    again = sent_again()
    receive(again.row_id, again.token.hex)
    assert plant.look(out.workflow_id).result == '{"page":7}'


def test_the_lease_is_renewed_while_the_handler_runs(
    plant: Plant, receiver: Receiver, door: Callable[[str], Gate]
) -> None:
    """Faults X1: the handler stands at a door for several leases of a second, by the database's clock."""
    gate = door("long")
    out = sent(plant, activities.pass_gate, "long")
    running = in_thread(receive, out.row_id, out.token.hex)
    gate.wait_for_arrival()
    seen: set[Any] = set()
    while len(seen) < 5:
        seen.add(WorkItem.objects.values_list("locked_until", flat=True).get())
        assert reconcile.reconcile().rearmed == 0
    gate.open()
    assert running.result(60) is Received.RAN
    assert plant.labels() == ["long"]


def test_a_handler_is_told_to_stop(plant: Plant, receiver: Receiver, door: Callable[[str], Gate]) -> None:
    gate = door("asked")
    out = sent(plant, activities.wait_for_cancel, "asked")
    running = in_thread(receive, out.row_id, out.token.hex)
    gate.wait_for_arrival()
    gate.open()
    cancel.cancel(out.workflow_id)
    assert running.result(60) is Received.RAN
    assert plant.look(out.workflow_id).status is WorkflowStatus.CANCELLED


def test_a_handler_whose_workflow_has_ended_is_waited_for(
    plant: Plant, receiver: Receiver, door: Callable[[str], Gate]
) -> None:
    """It is told to stop, and its process takes nothing else before it has."""
    gate = door("ended")
    out = sent(plant, activities.wait_for_cancel, "ended")
    running = in_thread(receive, out.row_id, out.token.hex)
    gate.wait_for_arrival()
    terminate.terminate(out.workflow_id, reason="enough")
    gate.open()
    assert running.result(60) is Received.RAN
    assert plant.labels() == ["ended"]


def test_a_handler_that_runs_too_long_is_acknowledged_at_once_and_its_process_should_end(
    plant: Plant, receiver: Receiver, door: Callable[[str], Gate]
) -> None:
    """It still stands at the door when its end is written, from another thread."""
    door("late")
    out = sent(plant, activities.overrun, "late")
    assert receive(out.row_id, out.token.hex) is Received.LEAVE
    assert [failed.cause for failed in plant.row(out.workflow_id).failed_attempts.all()] == ["timeout"]
    assert not WorkItem.objects.exists()


def test_an_interruption_of_the_waiting_thread_ends_neither_the_wait_nor_the_handler(
    plant: Plant, receiver: Receiver, door: Callable[[str], Gate]
) -> None:
    """The alarm of a cluster is a SystemExit in its main thread, which is the one that waits."""
    gate = door("alarm")
    out = sent(plant, activities.pass_gate, "alarm")
    rang = Gate("alarm rang")

    def ring(number: int, frame: object) -> None:
        rang.open()
        raise SystemExit("the time is up")

    def sound() -> None:
        gate.wait_for_arrival()
        os.kill(os.getpid(), signal.SIGUSR1)
        rang.wait()
        gate.open()

    before = signal.signal(signal.SIGUSR1, ring)
    try:
        with listening() as ear:
            sounded = in_thread(sound)
            assert receive(out.row_id, out.token.hex) is Received.RAN
            sounded.result(60)
            receiver.close()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert plant.look(out.workflow_id).result == '"through"'
    assert len(ear.of("wait_interrupted")) == 1


def test_the_acknowledgement_is_tried_again_and_the_handler_is_not(
    plant: Plant, receiver: Receiver, monkeypatch: Any
) -> None:
    real, tries = acknowledge.acknowledge, []

    def failing(endings: Any) -> Any:
        tries.append(endings)
        if len(tries) < 3:
            raise OperationalError("database is locked")
        return real(endings)

    monkeypatch.setattr(acknowledge, "acknowledge", failing)
    out = sent(plant, activities.note, "once")
    assert receive(out.row_id, out.token.hex) is Received.RAN
    assert (len(tries), plant.labels()) == (3, ["once"])
    assert plant.look(out.workflow_id).status is WorkflowStatus.COMPLETED


def test_while_the_database_is_away_the_message_waits(plant: Plant, receiver: Receiver, monkeypatch: Any) -> None:
    real, tries = begin.begin, []

    def failing(*args: Any, **kwargs: Any) -> Any:
        tries.append(kwargs["commit"].token)
        if len(tries) < 3:
            raise OperationalError("server closed the connection unexpectedly")
        return real(*args, **kwargs)

    monkeypatch.setattr(begin, "begin", failing)
    monkeypatch.setattr(receiving, "FIRST_WAIT", 0.0)
    out = sent(plant, activities.note, "once")
    assert receive(out.row_id, out.token.hex) is Received.RAN
    assert (len(tries), len(set(tries)), plant.labels()) == (3, 1, ["once"])


def test_a_message_is_given_up_after_a_lease_without_the_database(
    plant: Plant, receiver: Receiver, monkeypatch: Any
) -> None:
    """Nothing has begun, so the sender takes it back."""

    def failing(*args: Any, **kwargs: Any) -> Any:
        raise OperationalError("server closed the connection unexpectedly")

    # How long it tries: a lease of no time is refused.
    monkeypatch.setattr(receiver, "_lease_for", timedelta())
    monkeypatch.setattr(begin, "begin", failing)
    out = sent(plant, activities.note, "never")
    with listening() as ear:
        assert receive(out.row_id, out.token.hex) is Received.STALE
        receiver.close()
    assert len(ear.of("begin_failed")) == 1
    assert WorkItem.objects.get().begun_at is None


def test_a_begin_whose_commit_got_no_reply_is_recognised(plant: Plant, receiver: Receiver, monkeypatch: Any) -> None:
    real, tries = begin.begin, []

    def without_reply(*args: Any, **kwargs: Any) -> Any:
        tries.append(1)
        found = real(*args, **kwargs)
        if len(tries) == 1:
            kwargs["commit"].sent()
            raise OperationalError("server closed the connection unexpectedly")
        return found

    monkeypatch.setattr(begin, "begin", without_reply)
    monkeypatch.setattr(receiving, "FIRST_WAIT", 0.0)
    out = sent(plant, activities.note, "once")
    assert receive(out.row_id, out.token.hex) is Received.RAN
    assert (len(tries), plant.labels()) == (2, ["once"])


def test_an_activity_that_this_code_does_not_know_goes_back_uncounted(plant: Plant, receiver: Receiver) -> None:
    out = sent(plant, activities.note, "who")
    OutboxRow.objects.update(activity="plant.unknown")
    assert receive(out.row_id, out.token.hex) is Received.RAN
    row = plant.row(out.workflow_id)
    assert (row.status, row.deliveries, row.delivery_failures, row.suspect) == ("pending", 0, 0, False)
    assert FailedAttempt.objects.count() == 0


def test_a_process_that_was_forked_has_a_receiver_of_its_own(
    plant: Plant, receiver: Receiver, monkeypatch: Any
) -> None:
    """Threads do not live on in a child."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    # What `receive` finds in a process; its threads have to be ended here.
    made = receiving._of_this_process()
    try:
        assert made is not receiver
        assert receiving._of_this_process() is made
    finally:
        made.close()
