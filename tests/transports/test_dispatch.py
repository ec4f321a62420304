"""The dispatcher: what it claims, what it sends, and what becomes of what does not begin."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from durable.conf import settings as current
from durable.flow.caller import cancel
from durable.flow.delivery import begin
from durable.flow.delivery import claim as claiming
from durable.flow.operator import terminate
from durable.flow.transactions.commits import ClaimCommit
from durable.flow.upkeep import beat
from durable.models import FailedAttempt, OutboxRow, WorkItem
from durable.outcomes import OutboxStatus, WorkflowStatus
from durable.worker.loops import dispatch, sending
from durable.worker.loops.dispatch import Dispatcher
from durable.worker.loops.sending import Sender
from durable.worker.threads.wakeup import Pace
from tests.flow.state import expire, locked_elsewhere, only_postgresql
from tests.transports.doubles import Recorded
from tests.waiting import Gate
from tests.worker.conftest import Plant
from tests.worker.hearing import listening
from tests.worker.plant import activities

LEASE = timedelta(minutes=1)
OVERDUE_AT_ONCE = {"begin_for": timedelta(microseconds=1)}


@pytest.fixture
def made(recorded: type[Recorded], monkeypatch: Any) -> Iterator[Callable[..., Dispatcher]]:
    """`made()` makes a dispatcher of the queue `reports`, which is stepped by hand, and asks again at once after a
    refusal.
    """
    monkeypatch.setattr(dispatch, "FIRST_REST", 0.0)
    monkeypatch.setattr(dispatch, "LONGEST_REST", 0.0)
    all_made: list[Sender] = []

    def make(*, call_for: float | None = None) -> Dispatcher:
        ready = threading.Event()
        ready.set()
        queue = current.sent_queues["reports"]
        sender = Sender("reports", lambda: Recorded("default"), call_for=call_for)
        all_made.append(sender)
        pace = Pace(timedelta(milliseconds=8))
        return Dispatcher(queue, worker="sender", lease_for=LEASE, pace=pace, ready=ready, sender=sender)

    yield make
    for sender in all_made:
        sender.end()


def enqueue(plant: Plant, number: int = 1) -> list[uuid.UUID]:
    return [plant.enqueue(activities.add, n, 1, queue="reports") for n in range(number)]


def begun(row_id: int, token: str) -> None:
    """What the other process does first."""
    commit = ClaimCommit("cluster")
    assert begin.begin(row_id, uuid.UUID(token), worker="cluster", lease_for=LEASE, commit=commit) is not None


def counts() -> dict[str, int]:
    """How many rows have which status, and how often they were counted."""
    rows = OutboxRow.objects.all()
    statuses = [row.status for row in rows]
    return {status: statuses.count(status) for status in sorted(set(statuses))} | {
        "deliveries": sum(row.deliveries for row in rows),
        "failures": sum(row.delivery_failures for row in rows),
    }


def test_a_dispatcher_sends_row_and_token_of_what_it_has_claimed(plant: Plant, made: Callable[..., Dispatcher]) -> None:
    enqueue(plant, 3)
    made().step()
    items = WorkItem.objects.order_by("pk")
    assert Recorded.sent == [(item.outbox_row_id, item.lock_token.hex) for item in items]
    assert {(item.queue, item.begun_at, item.worker) for item in items} == {("reports", None, "sender")}


def test_a_dispatcher_claims_of_no_other_queue(plant: Plant, made: Callable[..., Dispatcher]) -> None:
    plant.enqueue(activities.add, 1, 1)
    made().step()
    assert (Recorded.sent, Recorded.pings) == ([], [])


def test_nothing_is_claimed_before_the_worker_is_ready(plant: Plant, made: Callable[..., Dispatcher]) -> None:
    enqueue(plant)
    dispatcher = made()
    # The event that its worker sets when it is ready.
    dispatcher._ready.clear()
    dispatcher.step()
    assert counts() == {"pending": 1, "deliveries": 0, "failures": 0}


def test_no_more_is_out_than_max_out_until_some_has_begun(
    plant: Plant, sent_to: Callable[..., None], made: Callable[..., Dispatcher]
) -> None:
    sent_to("tests.transports.doubles.Recorded", max_out=3)
    enqueue(plant, 8)
    dispatcher = made()
    for _ in range(3):
        dispatcher.step()
    assert counts() == {"claimed": 3, "pending": 5, "deliveries": 3, "failures": 0}
    begun(*Recorded.sent[0])
    begun(*Recorded.sent[1])
    dispatcher.step()
    assert (len(Recorded.sent), len(dispatcher.held)) == (5, 3)


def test_while_the_transport_refuses_nothing_is_claimed_or_counted(
    plant: Plant, made: Callable[..., Dispatcher]
) -> None:
    """Faults O9: hours of it make no dead letter."""
    enqueue(plant, 2)
    Recorded.refuses = True
    dispatcher = made()
    for _ in range(50):
        dispatcher.step()
    assert len(Recorded.pings) == 50
    assert counts() == {"pending": 2, "deliveries": 0, "failures": 0}
    Recorded.refuses = False
    dispatcher.step()
    assert (len(Recorded.sent), counts()) == (2, {"claimed": 2, "deliveries": 2, "failures": 0})


def test_a_refusal_is_asked_about_more_and_more_rarely_and_logged_once(
    plant: Plant, made: Callable[..., Dispatcher], monkeypatch: Any
) -> None:
    now = 1000.0
    monkeypatch.setattr(dispatch, "FIRST_REST", 1.0)
    monkeypatch.setattr(dispatch, "LONGEST_REST", 30.0)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    enqueue(plant)
    Recorded.refuses = True
    dispatcher = made()
    asked = []
    with listening() as ear:
        for second in range(120):
            now = 1000.0 + second
            before = len(Recorded.pings)
            dispatcher.step()
            asked += [second] * (len(Recorded.pings) - before)
    assert asked == [0, 1, 3, 7, 15, 31, 61, 91]
    assert [event for _, event in ear.said()] == ["transport_refuses"]


def test_a_send_that_fails_is_counted_and_no_other_is_tried_with_it(
    plant: Plant, made: Callable[..., Dispatcher]
) -> None:
    """The row tells why. The rest of what was claimed goes back uncounted once the ping is refused as well."""
    enqueue(plant, 5)
    dispatcher = made()
    Recorded.fails = True
    dispatcher.step()
    assert counts() == {"claimed": 4, "pending": 1, "deliveries": 5, "failures": 1}
    failed = FailedAttempt.objects.get()
    assert (failed.cause, failed.error["message"]) == ("transport_down", "the pipe broke")
    Recorded.refuses = True
    dispatcher.step()
    assert counts() == {"pending": 5, "deliveries": 1, "failures": 1}
    assert dispatcher.held == []


def test_what_was_claimed_is_sent_once_the_transport_sends_again(plant: Plant, made: Callable[..., Dispatcher]) -> None:
    enqueue(plant, 3)
    dispatcher = made()
    Recorded.fails = True
    dispatcher.step()
    Recorded.fails = False
    dispatcher.step()
    assert len(Recorded.sent) == 2
    assert counts()["failures"] == 1


def test_a_send_that_fails_too_often_is_a_dead_letter_by_its_cause(
    plant: Plant, made: Callable[..., Dispatcher]
) -> None:
    enqueue(plant)
    OutboxRow.objects.update(delivery_budget=1)
    Recorded.fails = True
    made().step()
    dead = OutboxRow.objects.get()
    assert (dead.status, dead.cause) == (OutboxStatus.DEAD, "transport_down")


def test_a_send_that_hangs_has_failed_and_holds_up_nobody(
    plant: Plant, made: Callable[..., Dispatcher], gate: Gate
) -> None:
    """Its thread is left to it. The next call has a new one, until too many hang."""
    enqueue(plant, 5)
    Recorded.hangs_at = gate
    dispatcher = made(call_for=0.05)
    for _ in range(sending.MOST_HANGING):
        dispatcher.step()
    assert counts()["failures"] == sending.MOST_HANGING
    dispatcher.step()
    assert counts() == {"pending": 5, "deliveries": 3, "failures": 3}
    assert FailedAttempt.objects.latest("pk").error["type"].endswith("CallHangs")
    before = len(Recorded.pings)
    dispatcher.step()
    assert len(Recorded.pings) == before
    Recorded.hangs_at = None
    gate.open()


def test_a_message_of_a_send_that_hung_begins_nothing_when_it_comes_after_all(
    plant: Plant, made: Callable[..., Dispatcher], gate: Gate
) -> None:
    enqueue(plant)
    Recorded.hangs_at = gate
    dispatcher = made(call_for=0.05)
    dispatcher.step()
    # The calls that hang: their end is waited for.
    hung = list(dispatcher._sender._hanging)
    gate.open()
    for call in hung:
        call.result(30)
    [(row_id, token)] = Recorded.sent
    commit = ClaimCommit("cluster")
    assert begin.begin(row_id, uuid.UUID(token), worker="cluster", lease_for=LEASE, commit=commit) is None


def test_what_has_not_begun_in_time_is_sent_anew_uncounted_while_its_cluster_lives(
    plant: Plant, sent_to: Callable[..., None], made: Callable[..., Dispatcher]
) -> None:
    """However often: a message can be lost, and a long line takes its time."""
    sent_to("tests.transports.doubles.Recorded", **OVERDUE_AT_ONCE)
    beat.beat(name="process", queues=["reports"], version="1", cluster="default")
    enqueue(plant)
    OutboxRow.objects.update(delivery_budget=1)
    dispatcher = made()
    for _ in range(10):
        dispatcher.step()
    tokens = {token for _, token in Recorded.sent}
    assert len(tokens) == len(Recorded.sent) >= 5
    assert (counts()["failures"], FailedAttempt.objects.count()) == (0, 0)
    assert counts()["deliveries"] <= 1


@pytest.mark.parametrize("silent", [False, True])
def test_what_was_sent_is_counted_as_lost_if_its_cluster_does_not_live(
    plant: Plant, sent_to: Callable[..., None], made: Callable[..., Dispatcher], silent: bool
) -> None:
    """There is none, or its processes have been silent for longer than a lease."""
    sent_to("tests.transports.doubles.Recorded", **OVERDUE_AT_ONCE)
    if silent:
        from durable.models import Worker

        beat.beat(name="process", queues=["reports"], version="1", cluster="default")
        row = Worker.objects.get()
        Worker.objects.update(beat_at=row.beat_at - timedelta(minutes=2))
    enqueue(plant)
    made().step()
    failed = FailedAttempt.objects.get()
    assert (failed.cause, failed.error["type"]) == ("transport_lost", "TransportLost")
    assert "'default'" in failed.error["message"]
    assert OutboxRow.objects.get().suspect is False


def test_a_worker_of_ours_is_no_sign_of_life_of_a_cluster(
    plant: Plant, sent_to: Callable[..., None], made: Callable[..., Dispatcher]
) -> None:
    sent_to("tests.transports.doubles.Recorded", **OVERDUE_AT_ONCE)
    beat.beat(name="default", queues=["reports"], version="1")
    enqueue(plant)
    made().step()
    assert FailedAttempt.objects.get().cause == "transport_lost"


def test_what_has_begun_is_left_to_its_process(plant: Plant, made: Callable[..., Dispatcher]) -> None:
    """Also if it is overdue before the sender knows."""
    enqueue(plant)
    dispatcher = made()
    dispatcher.step()
    begun(*Recorded.sent[0])
    # Time has passed for what is out, and for nothing else.
    for out in dispatcher._all():
        out.overdue_at = 0.0
    # Between the moment at which it is overdue and the look that finds it begun.
    dispatcher._give_back()
    dispatcher.close()
    assert dispatcher.held == []
    assert counts() == {"claimed": 1, "deliveries": 1, "failures": 0}


def test_a_dispatcher_renews_what_has_not_begun_and_nothing_else(
    plant: Plant, made: Callable[..., Dispatcher], frozen_clock: Any
) -> None:
    enqueue(plant, 2)
    dispatcher = made()
    dispatcher.step()
    begun(*Recorded.sent[0])
    until = dict(WorkItem.objects.values_list("pk", "locked_until"))
    frozen_clock.move(timedelta(seconds=20))
    dispatcher.beat()
    first, second = (row_id for row_id, _ in Recorded.sent)
    after = dict(WorkItem.objects.values_list("pk", "locked_until"))
    assert (after[first], after[second]) == (until[first], frozen_clock.now + LEASE)
    assert [delivery.claim.row_id for delivery in dispatcher.held] == [second]


def test_a_request_to_stop_is_heeded_before_the_begin(plant: Plant, made: Callable[..., Dispatcher]) -> None:
    [workflow_id] = enqueue(plant)
    dispatcher = made()
    dispatcher.step()
    cancel.cancel(workflow_id)
    dispatcher.beat()
    dispatcher.step()
    assert plant.look(workflow_id).status is WorkflowStatus.CANCELLED
    assert dispatcher.held == []


def test_a_workflow_that_has_ended_takes_its_delivery_along(plant: Plant, made: Callable[..., Dispatcher]) -> None:
    [workflow_id] = enqueue(plant)
    dispatcher = made()
    dispatcher.step()
    terminate.terminate(workflow_id, reason="enough")
    dispatcher.step()
    assert (dispatcher.held, len(Recorded.sent)) == ([], 1)


def test_at_its_end_it_gives_back_uncounted_what_has_not_begun(plant: Plant, made: Callable[..., Dispatcher]) -> None:
    enqueue(plant, 3)
    dispatcher = made()
    dispatcher.step()
    begun(*Recorded.sent[0])
    dispatcher.close()
    assert counts() == {"claimed": 1, "pending": 2, "deliveries": 1, "failures": 0}
    assert not OutboxRow.objects.filter(suspect=True).exists()


def test_after_a_stop_it_sends_nothing_more(plant: Plant, made: Callable[..., Dispatcher]) -> None:
    enqueue(plant, 2)
    dispatcher = made()
    dispatcher.stop()
    dispatcher.step()
    dispatcher.close()
    assert (Recorded.sent, counts()) == ([], {"pending": 2, "deliveries": 0, "failures": 0})


@pytest.mark.skipif(not only_postgresql(), reason="SQLite has one lock for all")
def test_what_another_session_has_locked_stays_out_and_is_taken_back_later(
    plant: Plant, made: Callable[..., Dispatcher]
) -> None:
    beat.beat(name="process", queues=["reports"], version="1", cluster="default")
    enqueue(plant)
    dispatcher = made()
    dispatcher.step()
    row_id = Recorded.sent[0][0]
    for out in dispatcher._all():
        out.overdue_at = 0.0
    with locked_elsewhere("durable_workitem", "outbox_row_id", row_id):
        dispatcher.step()
        assert [delivery.claim.row_id for delivery in dispatcher.held] == [row_id]
    dispatcher.step()
    assert len({token for _, token in Recorded.sent}) == 2


def test_a_claim_whose_commit_got_no_reply_is_found_and_sent(
    plant: Plant, made: Callable[..., Dispatcher], monkeypatch: Any
) -> None:
    enqueue(plant, 2)
    real = claiming.claim_to_send

    def without_reply(*args: Any, **kwargs: Any) -> Any:
        real(*args, **kwargs)
        kwargs["commit"].sent()
        raise OperationalError("server closed the connection unexpectedly")

    dispatcher = made()
    monkeypatch.setattr(claiming, "claim_to_send", without_reply)
    with pytest.raises(OperationalError):
        dispatcher.step()
    monkeypatch.setattr(claiming, "claim_to_send", real)
    dispatcher.step()
    assert len(Recorded.sent) == 2
    assert counts() == {"claimed": 2, "deliveries": 2, "failures": 0}


def test_a_dispatcher_that_dies_costs_nothing(plant: Plant, made: Callable[..., Dispatcher]) -> None:
    from durable.flow.upkeep import reconcile

    enqueue(plant, 3)
    dispatcher = made()
    dispatcher.step()
    expire(*[delivery.claim for delivery in dispatcher.held])
    reconcile.reconcile()
    assert counts() == {"pending": 3, "deliveries": 0, "failures": 0}
    assert FailedAttempt.objects.count() == 0
