"""Signals without end to one workflow: refused in time, read in pieces, and in nobody's way."""

from __future__ import annotations

import json
import sqlite3
import uuid
from contextlib import closing as closing_of
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from durable import get_workflow
from durable.errors import MailboxFull
from durable.flow.caller import cancel, signal
from durable.flow.endings import closing
from durable.flow.looks import look, prove
from durable.flow.operator import terminate
from durable.models import Event, Message, Workflow
from durable.store.runs import inbox
from tests.conftest import FrozenClock
from tests.flow import cases
from tests.flow.driver import Driver, history, workflow
from tests.flow.state import kept, listed

pytestmark = pytest.mark.django_db


def send(workflow_id: uuid.UUID, count: int, *, size: int = 1, name: str = "news") -> None:
    """Signals that nobody waits for."""
    for _ in range(count):
        signal.signal(workflow_id, name, payload=json.dumps("x" * size))


def read_at_once(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> tuple[list[list[int]], Any]:
    """The sizes of the payloads of each batch."""
    batches: list[list[int]] = []
    real = inbox.read

    def read(connection: Any, found: Any) -> Any:
        inboxes = real(connection, found)
        batches.append([len(m.payload) for one in inboxes.values() for m in one.messages])
        return inboxes

    monkeypatch.setattr(inbox, "read", read)
    return batches, real


# --- who sends -------------------------------------------------------------------------------------------------------


def test_a_signal_beyond_the_number_that_may_wait_is_refused(driver: Driver, settings: Any) -> None:
    """Nothing is written; once some were read, there is room again. A request to cancel is no signal."""
    settings.DURABLE = {"MAX_UNREAD_SIGNALS": 3}
    workflow_id = driver.start(cases.signalled)
    send(workflow_id, 3)
    with pytest.raises(MailboxFull, match=r"3 signals of \d+ bytes are waiting to be read") as caught:
        send(workflow_id, 1)
    assert (caught.value.workflow_id, caught.value.signals) == (workflow_id, 3)
    assert Message.objects.filter(kind="signal").count() == 3
    driver.turn()
    send(workflow_id, 3)
    with pytest.raises(MailboxFull):
        get_workflow(workflow_id).signal("news", 1)
    assert cancel.cancel(workflow_id).status == "running"
    driver.run()
    assert workflow(workflow_id).status == "cancelled"


def test_a_signal_beyond_the_bytes_that_may_wait_is_refused(driver: Driver, settings: Any) -> None:
    """The first one is always taken, however long it is; other workflows are not concerned."""
    settings.DURABLE = {"MAX_UNREAD_BYTES": 1_000}
    workflow_id, other = driver.start(cases.signalled), driver.start(cases.signalled)
    send(workflow_id, 1, size=2_000)
    with pytest.raises(MailboxFull, match=r"1 signals of 2,\d\d\d bytes"):
        send(workflow_id, 1)
    send(other, 1)


@pytest.mark.parametrize(("spare", "accepted"), [(0, 1), (1, 2)])
def test_a_signal_is_accepted_until_the_bytes_that_wait_have_reached_the_limit(
    driver: Driver, settings: Any, spare: int, accepted: int
) -> None:
    """To the byte."""
    send(driver.start(cases.signalled), 1)
    [payload] = Message.objects.filter(kind="signal").values_list("payload", flat=True)
    settings.DURABLE = {"MAX_UNREAD_BYTES": len(payload) + spare}
    workflow_id = driver.start(cases.signalled)
    send(workflow_id, accepted)
    with pytest.raises(MailboxFull):
        send(workflow_id, 1)


def test_the_same_signal_sent_twice_is_accepted_while_the_first_waits_in_a_full_mailbox(
    driver: Driver, settings: Any
) -> None:
    """It changes nothing, as ever."""
    settings.DURABLE = {"MAX_UNREAD_SIGNALS": 1}
    workflow_id = driver.start(cases.signalled)
    signal.signal(workflow_id, "news", payload="1", dedup="one")
    signal.signal(workflow_id, "news", payload="1", dedup="one")
    with pytest.raises(MailboxFull):
        signal.signal(workflow_id, "news", payload="1", dedup="other")
    assert Message.objects.filter(kind="signal").count() == 1


def test_a_history_without_room_for_signals_refuses_them_at_the_sender(driver: Driver, settings: Any) -> None:
    """In events and in bytes."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    for limit in ({"MAX_HISTORY_EVENTS": 2}, {"MAX_HISTORY_BYTES": 50}):
        settings.DURABLE = limit
        with pytest.raises(MailboxFull, match="its history has no room") as caught:
            send(workflow_id, 1)
        assert caught.value.history_is_full
    settings.DURABLE = {}
    send(workflow_id, 1)


@pytest.mark.skipif(connection.vendor == "postgresql", reason="SQLite has one lock for all who write")
@pytest.mark.django_db(transaction=True)
def test_what_waits_is_counted_before_the_lock_of_all_who_write_is_taken(driver: Driver, settings: Any) -> None:
    """Counting fifty megabytes takes a third of a second: a few refused signals a second would leave nobody a turn."""
    settings.DURABLE = {"MAX_UNREAD_SIGNALS": 2}
    workflow_id = driver.start(cases.signalled)
    send(workflow_id, 1)
    with CaptureQueriesContext(connection) as asked:
        send(workflow_id, 1)
    statements = [query["sql"] for query in asked.captured_queries]
    begun = next(at for at, text in enumerate(statements) if text.startswith("BEGIN"))
    assert [at < begun for at, text in enumerate(statements) if "count(*)" in text] == [True]
    with closing_of(sqlite3.connect(connection.settings_dict["NAME"])) as neighbour:
        neighbour.execute("BEGIN IMMEDIATE")
        with pytest.raises(MailboxFull):
            send(workflow_id, 1)


# --- who reads -------------------------------------------------------------------------------------------------------


def test_a_batch_reads_no_more_than_its_budget(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, without a gap, and to the last one."""
    monkeypatch.setattr(inbox, "BUDGET", 100_000)
    batches, _ = read_at_once(driver, monkeypatch)
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    for n in range(30):
        signal.signal(workflow_id, f"news {n}", payload=json.dumps("x" * 20_000))
    driver.run()
    assert max(map(sum, batches)) < 100_000 + 21_000
    assert Message.objects.count() == 0
    events = Event.objects.filter(workflow_id=workflow_id, type="signal_received").order_by("seq")
    assert [event.data["name"] for event in events] == [f"news {n}" for n in range(30)]


def test_no_more_than_so_many_messages_of_one_workflow_are_looked_at(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "HEADS", 4)
    batches, _ = read_at_once(driver, monkeypatch)
    workflow_id = driver.start(cases.signalled)
    send(workflow_id, 10)
    driver.turn()
    assert [len(batch) for batch in batches] == [5], "the start is read beside them"
    assert history(workflow_id).count("signal_received") == 4
    driver.run()
    assert history(workflow_id).count("signal_received") == 10


def test_a_flooded_workflow_keeps_no_other_of_the_batch_from_its_message(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody's first message comes before anybody's second, and a short one before the long ones."""
    monkeypatch.setattr(inbox, "BUDGET", 100_000)
    flooded = [driver.start(cases.signalled) for _ in range(3)]
    other = driver.start(cases.signalled)
    driver.turn()
    for one in flooded:
        send(one, 5, size=90_000)
    signal.signal(other, "go", payload="1")
    driver.turn()
    assert workflow(other).status == "completed"
    driver.run()
    assert [history(one).count("signal_received") for one in flooded] == [5] * 3


def test_who_sends_before_the_start_keeps_nobody_from_starting(
    driver: Driver, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start is found behind however much is there, before and when it is due; so is a request to cancel."""
    monkeypatch.setattr(inbox, "HEADS", 2)
    later, cancelled = (driver.start(cases.signalled, start_at=frozen_clock.now + timedelta(hours=1)) for _ in range(2))
    send(later, 5)
    send(cancelled, 5)
    cancel.cancel(cancelled)
    for _ in range(10):
        driver.turn()
    assert history(later) == ["workflow_started"]
    assert history(cancelled) == ["workflow_started", "workflow_cancelled"]
    frozen_clock.move(timedelta(hours=2))
    driver.run()
    assert history(later)[1] == "workflow_begun"
    assert history(later).count("signal_received") == 5


def test_timers_wait_for_messages_that_came_before_them_and_were_not_read_yet(
    driver: Driver, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fits into a batch never changes the order."""
    monkeypatch.setattr(inbox, "HEADS", 2)
    workflow_id = driver.start(cases.signalled, timeout=timedelta(hours=1))
    driver.turn()
    send(workflow_id, 5)
    frozen_clock.move(timedelta(hours=2))
    driver.run()
    assert history(workflow_id)[-6:] == ["signal_received"] * 5 + ["workflow_timed_out"]


def test_the_note_names_the_heaviest_before_anything_long_is_read(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies of what it reads is charged to that workflow."""
    from durable.flow.turns import turn

    workflow_id, other = driver.start(cases.signalled), driver.start(cases.signalled)
    driver.turn()
    send(workflow_id, 2, size=10_000)
    send(other, 1, size=11_000)
    noted: list[Any] = []
    with CaptureQueriesContext(connection) as captured:

        def reads(owner: uuid.UUID | None) -> None:
            noted.append((owner, [q["sql"] for q in captured if "SELECT id, payload FROM durable_message" in q["sql"]]))

        turn.turn(cache=driver.cache, queues=None, limit=50, note=driver.noted.append, reads=reads)
    assert [(owner, len(done)) for owner, done in noted] == [(workflow_id, 0), (None, 1)]


def test_the_note_names_whose_history_is_longest_before_histories_are_read(driver: Driver) -> None:
    from durable.flow.turns import turn

    short, long = driver.start(cases.signalled), driver.start(cases.signalled)
    driver.turn()
    send(long, 1, size=2_000)
    driver.turn()
    driver.cache.drop_all()
    send(short, 1)
    send(long, 1)
    noted: list[Any] = []
    turn.turn(cache=driver.cache, queues=None, limit=50, note=driver.noted.append, reads=noted.append)
    assert noted == [long, None]


def test_long_histories_are_read_one_by_one(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """One alone may be longer than what a batch reads of several. Of before they were counted, they are measured."""
    from durable.flow.turns import preparing
    from durable.store.runs import history as histories

    owners = [driver.start(cases.signalled) for _ in range(3)]
    driver.turn()
    for owner in owners:
        send(owner, 1, size=5_000)
    driver.turn()
    Workflow.objects.filter(id=owners[0]).update(history_bytes=0)
    driver.cache.drop_all()
    for owner in owners:
        signal.signal(owner, "go", payload="1")
    monkeypatch.setattr(preparing, "_COLD_BYTES", 6_000)  # no setting: few small histories are much
    together: list[int] = []
    real = histories.read_runs

    def read_runs(connection: Any, ids: list[uuid.UUID]) -> Any:
        together.append(len(ids))
        return real(connection, ids)

    monkeypatch.setattr(histories, "read_runs", read_runs)
    driver.run()
    assert together == [1, 1, 1]
    assert {workflow(owner).status for owner in owners} == {"completed"}


# --- what is left unread ---------------------------------------------------------------------------------------------


def test_whoever_ends_a_flooded_workflow_reads_names_only(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the signals carry: the closing event lists some, counts the rest, and all of them are kept."""
    monkeypatch.setattr(closing, "UNREAD_LISTED", 3)
    workflow_id = driver.start(cases.signalled)
    send(workflow_id, 5, size=50_000, name='a "näme" \x01')
    cancel.cancel(workflow_id, reason="später")
    terminate.terminate(workflow_id, reason="flooded")
    assert listed(workflow_id) == [{"kind": "signal", "name": 'a "näme" \x01'}] * 3
    closing_event = Event.objects.filter(workflow_id=workflow_id).latest("seq")
    assert closing_event.data["unread_more"] == 3
    assert workflow(workflow_id).history_bytes < 1_000
    assert len(kept(workflow_id)) == 6
    assert len(json.loads(look.unread(workflow_id)[0].payload or "")["payload"]) > 50_000
    assert list(prove.contradictions()) == []
