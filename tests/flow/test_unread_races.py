"""What was accepted is read by its workflow, or kept with it, also when its sender commits after the end.

Faults K13.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path

from durable.errors import WorkflowClosed
from durable.flow.caller import cancel, signal
from durable.flow.endings import closing
from durable.flow.looks import look
from durable.flow.operator import terminate
from durable.models import Event, Message
from durable.outcomes import CancelAnswer
from durable.store.deliveries import together
from durable.store.runs import due
from tests.flow import cases
from tests.flow.driver import Driver, history, workflow
from tests.flow.state import kept, listed, only_postgresql
from tests.rounds import AT_LAST, rounds
from tests.waiting import PATIENCE, Barrier, Gate, in_thread

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time.")
on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has many writers at a time.")


def send(kind: str, workflow_id: uuid.UUID) -> None:
    """Send a signal or a request to cancel, and see it accepted."""
    if kind == "signal":
        signal.signal(workflow_id, "news", payload="42")
    else:
        assert cancel.cancel(workflow_id, reason="news").answer is CancelAnswer.ASKED


# --- sent in a transaction that is open while the workflow ends ----------------------------------------------------

ENDERS: dict[str, Callable[[Driver, uuid.UUID], Any]] = {
    "completed": lambda driver, workflow_id: driver.run(),
    "cancelled": lambda driver, workflow_id: terminate.terminate(workflow_id, reason="enough"),
}


def _about_to_end(driver: Driver) -> uuid.UUID:
    workflow_id = driver.start(cases.sequence, 1)
    driver.turn()
    return workflow_id


def _sender(gate: Gate, kind: str, workflow_id: uuid.UUID, *, inside: str) -> Callable[[], None]:
    def sending() -> None:
        with transaction.atomic():
            if inside == "savepoint":
                with transaction.atomic():
                    send(kind, workflow_id)
            else:
                send(kind, workflow_id)
            gate.pass_through()

    return sending


@on_postgresql
@own_connections
@pytest.mark.parametrize("inside", ["transaction", "savepoint"])
@pytest.mark.parametrize("kind", ["signal", "cancel"])
@pytest.mark.parametrize("status", ENDERS)
def test_what_was_sent_before_the_end_and_committed_after_it_is_kept(
    driver: Driver, gate: Gate, kind: str, status: str, inside: str
) -> None:
    """The closing turn could not see it. The turn that meets it parks it."""
    workflow_id = _about_to_end(driver)
    sending = in_thread(_sender(gate, kind, workflow_id, inside=inside))
    gate.wait_for_arrival()
    ENDERS[status](driver, workflow_id)
    assert workflow(workflow_id).status == status
    gate.open()
    sending.result(PATIENCE)
    assert [parked for _, _, parked in kept(workflow_id)] == [False]
    ended = history(workflow_id)
    driver.run()
    assert [(found, parked) for found, _, parked in kept(workflow_id)] == [(kind, True)]
    assert [m.kind for m in look.unread(workflow_id)] == [kind]
    assert history(workflow_id) == ended
    assert listed(workflow_id) == []
    assert due.owners(connection, messages=10, timers=10, starts=10, queues=None) == []


@on_sqlite
@own_connections
@pytest.mark.parametrize("kind", ["signal", "cancel"])
def test_on_sqlite_the_end_waits_for_the_senders_transaction(driver: Driver, gate: Gate, kind: str) -> None:
    """There is one write lock, and the sender has it: the end finds what was sent."""
    workflow_id = _about_to_end(driver)
    sending = in_thread(_sender(gate, kind, workflow_id, inside="transaction"))
    gate.wait_for_arrival()
    ending = in_thread(terminate.terminate, workflow_id, reason="enough")
    gate.open()
    sending.result(PATIENCE)
    ending.result(PATIENCE)
    assert [said["kind"] for said in listed(workflow_id)] == [kind]
    assert [(found, parked) for found, _, parked in kept(workflow_id)] == [(kind, True)]


@on_postgresql
@own_connections
@pytest.mark.parametrize("kind", ["signal", "cancel"])
def test_what_is_committed_while_the_closing_turn_writes_is_listed_and_kept(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """After the turn has read its messages, before it takes what was left."""
    workflow_id = driver.start(cases.nothing)
    take = closing.consume_messages

    def late(connection: Any, workflow_ids: Any, **named: Any) -> Any:
        if workflow_ids:
            in_thread(send, kind, workflow_id).result(PATIENCE)
        return take(connection, workflow_ids, **named)

    monkeypatch.setattr(closing, "consume_messages", late)
    driver.turn()
    assert [said["kind"] for said in listed(workflow_id)] == [kind]
    assert [(found, parked) for found, _, parked in kept(workflow_id)] == [(kind, True)]


@on_postgresql
@own_connections
@pytest.mark.parametrize("kind", ["signal", "cancel"])
def test_what_is_committed_after_the_closing_turn_took_its_messages_is_kept(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """And before it commits: too late for its closing event."""
    workflow_id = driver.start(cases.nothing)
    record = together.record

    def late(*args: Any) -> None:
        in_thread(send, kind, workflow_id).result(PATIENCE)
        record(*args)

    monkeypatch.setattr(together, "record", late)
    driver.turn()
    monkeypatch.undo()
    assert listed(workflow_id) == []
    driver.turn()
    assert [(found, parked) for found, _, parked in kept(workflow_id)] == [(kind, True)]


@on_postgresql
@own_connections
def test_a_sender_that_rolls_back_after_the_end_has_sent_nothing(driver: Driver, gate: Gate) -> None:
    """T12 joins."""
    workflow_id = _about_to_end(driver)

    def sending() -> None:
        with transaction.atomic():
            send("signal", workflow_id)
            gate.pass_through()
            transaction.set_rollback(True)

    other = in_thread(sending)
    gate.wait_for_arrival()
    driver.run()
    gate.open()
    other.result(PATIENCE)
    driver.run()
    assert not Message.objects.exists()


# --- requests, and the race ----------------------------------------------------------------------------------------

_at_the_end_of_the_view: list[Gate] = []


def tell_news(request: HttpRequest, workflow_id: uuid.UUID) -> HttpResponse:
    """A host's view: it signals, and has more to do before its transaction commits."""
    signal.signal(workflow_id, "news", payload="42")
    for gate in _at_the_end_of_the_view:
        gate.pass_through()
    return HttpResponse(f"told in a transaction: {connection.in_atomic_block}")


urlpatterns = [path("news/<uuid:workflow_id>/", tell_news)]


@pytest.fixture
def atomic_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A site that wraps each of its requests in a transaction."""
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    with override_settings(ROOT_URLCONF=__name__):
        yield


@own_connections
def test_a_signal_of_a_view_under_atomic_requests_is_kept_when_the_workflow_ends_before_the_response(
    driver: Driver, gate: Gate, monkeypatch: pytest.MonkeyPatch, atomic_requests: None
) -> None:
    """The response says that it was told."""
    workflow_id = _about_to_end(driver)
    monkeypatch.setattr("tests.flow.test_unread_races._at_the_end_of_the_view", [gate])

    def request() -> bytes:
        monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
        return bytes(Client().post(f"/news/{workflow_id}/").content)

    asked = in_thread(request)
    gate.wait_for_arrival()
    if only_postgresql():
        driver.run()
        gate.open()
    else:
        ending = in_thread(driver.run)
        gate.open()
        ending.result(PATIENCE)
    assert asked.result(PATIENCE) == b"told in a transaction: True"
    driver.run()
    assert workflow(workflow_id).status == "completed"
    # On SQLite the view has the write lock, and the turn that ends the workflow reads the signal first.
    assert kept(workflow_id) == ([("signal", "news", True)] if only_postgresql() else [])
    assert ("signal_received" in history(workflow_id)) is not only_postgresql()


@pytest.mark.races
@own_connections
def test_a_signal_sent_in_a_transaction_while_its_workflow_ends_is_read_kept_or_refused(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Each one that was accepted is there afterwards, exactly once, and nothing stays due."""
    times, meet = rounds(30, asked=300), barrier(2)
    ids = [_about_to_end(driver) for _ in range(times)]
    accepted: list[uuid.UUID] = []

    def send_all() -> None:
        for id in ids:
            meet.wait()
            try:
                with transaction.atomic():
                    signal.signal(id, "news", payload="42")
                    Message.objects.count()  # the caller's own work
            except WorkflowClosed:
                continue
            accepted.append(id)

    claims = {c.workflow_id: c for c in driver.claim(limit=times)}
    sending = second_connection(send_all)
    for id in ids:
        driver.complete(claims[id], payload="1")
        meet.wait()
        driver.turn()
    sending.result(AT_LAST)
    driver.run()
    found = sorted(Message.objects.values_list("workflow_id", flat=True))
    received = Event.objects.filter(type="signal_received").values_list("workflow_id", flat=True)
    assert sorted([*found, *received]) == sorted(accepted)
    assert set(Message.objects.values_list("parked", flat=True)) <= {True}
    assert {workflow(id).status for id in ids} == {"completed"}
