"""At the boundary of two runs: what belongs to the workflow goes over, what belongs to a run does not.

Nothing of durable begins a second run of a live workflow yet. The tests do, in a transaction of their own, as
continue-as-new will.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

import durable
from durable import testing
from durable.decorators.workflows import workflow
from durable.errors import MailboxFull
from durable.flow.caller import cancel, signal
from durable.flow.delivery import acknowledge
from durable.flow.looks import prove
from durable.models import Event, Message, OutboxRow, Workflow
from durable.outcomes import CancelAnswer, Completed
from tests.flow import cases
from tests.flow import driver as rows_of
from tests.flow.driver import Driver, history
from tests.waiting import Gate, in_thread

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time.")


@workflow(name="boundaries.draws")
async def draws(count: int) -> list[str]:
    drawn = []
    for n in range(count):
        drawn.append(str(durable.uuid4()))
        await cases.step.execute(n)
    return drawn


@workflow(name="boundaries.collects")
async def collects() -> list[Any]:
    """All signals until the last one, and whether it was asked to cancel meanwhile."""
    collected: list[Any] = []
    try:
        while not collected or collected[-1] != "last":
            collected.append(await durable.wait_for_signal("news"))
    except asyncio.CancelledError:
        return [*collected, "asked"]
    return collected


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(cached=request.param)


def stored(workflow_id: uuid.UUID) -> Workflow:
    return rows_of.workflow(workflow_id)


def begin_a_run(workflow_id: uuid.UUID) -> None:
    """A new run of a live workflow with the same arguments: its start in the history, its row, and its start message.
    Messages that wait are not touched.
    """
    with transaction.atomic():
        row = Workflow.objects.select_for_update().get(id=workflow_id)
        seq, run = row.last_seq + 1, row.run + 1
        former = Event.objects.get(workflow_id=workflow_id, seq=row.history_seq)
        Event.objects.create(
            workflow_id=workflow_id, seq=seq, type="workflow_started", data=former.data, recorded_at=former.recorded_at
        )
        Workflow.objects.filter(id=workflow_id).update(
            run=run, run_seq=seq, history_seq=seq, last_seq=seq, history_bytes=0, timers=[], wake_at=None
        )
        Message.objects.create(
            workflow_id=workflow_id, run=run, kind="start", payload="",
            visible_at=former.recorded_at, created_at=former.recorded_at,
        )  # fmt: skip


def send(workflow_id: uuid.UUID, payload: Any) -> None:
    signal.signal(workflow_id, "news", payload=json.dumps(payload))


def ask(workflow_id: uuid.UUID) -> None:
    assert cancel.cancel(workflow_id, reason="news").answer is CancelAnswer.ASKED


def open_sender(gate: Gate, says: Callable[[uuid.UUID], None], workflow_id: uuid.UUID) -> Future[None]:
    """Another session, which has sent and commits only when the gate opens."""

    def sending() -> None:
        with transaction.atomic():
            says(workflow_id)
            gate.pass_through()

    return in_thread(sending)


# --- signals and requests to cancel ---------------------------------------------------------------------------------


@own_connections
def test_signals_that_wait_at_the_boundary_are_read_by_the_next_run_in_their_order(driver: Driver) -> None:
    """Sent from other sessions, before and behind it."""
    workflow_id = driver.start(collects)
    driver.turn()
    for number in range(3):
        in_thread(send, workflow_id, number).result()
    begin_a_run(workflow_id)
    for number in range(3, 6):
        in_thread(send, workflow_id, number).result()
    in_thread(send, workflow_id, "last").result()
    driver.run()
    assert json.loads(stored(workflow_id).result or "") == [0, 1, 2, 3, 4, 5, "last"]
    assert list(Message.objects.values_list("run", flat=True)) == [], "each was read once, and none is left"


@own_connections
def test_a_request_to_cancel_that_waits_at_the_boundary_reaches_the_next_run(driver: Driver) -> None:
    workflow_id = driver.start(collects)
    driver.turn()
    in_thread(ask, workflow_id).result()
    assert set(Message.objects.values_list("run", flat=True)) == {1}
    begin_a_run(workflow_id)
    driver.run()
    assert json.loads(stored(workflow_id).result or "") == ["asked"]
    assert stored(workflow_id).run == 2


@own_connections
@on_postgresql
@pytest.mark.parametrize("kind", ["signal", "cancel"])
def test_what_was_sent_before_the_boundary_and_commits_behind_it_is_read(driver: Driver, kind: str) -> None:
    """It carries the number of the run that its sender saw."""
    workflow_id = driver.start(collects)
    driver.turn()
    gate = Gate()
    sender = open_sender(gate, ask if kind == "cancel" else lambda owner: send(owner, "last"), workflow_id)
    gate.wait_for_arrival()
    begin_a_run(workflow_id)
    driver.run()
    assert stored(workflow_id).status == "running"
    gate.open()
    sender.result()
    assert list(Message.objects.values_list("run", flat=True)) == [1]
    driver.run()
    assert json.loads(stored(workflow_id).result or "") == (["asked"] if kind == "cancel" else ["last"])


@own_connections
@on_postgresql
@pytest.mark.parametrize("kind", ["signal", "cancel"])
def test_what_is_sent_while_the_boundary_is_not_committed_is_read(driver: Driver, kind: str) -> None:
    """Its sender sees the run that is about to end."""
    workflow_id = driver.start(collects)
    driver.turn()
    gate = Gate()

    def boundary() -> None:
        with transaction.atomic():
            begin_a_run(workflow_id)
            gate.pass_through()

    ending = in_thread(boundary)
    gate.wait_for_arrival()
    (ask if kind == "cancel" else lambda owner: send(owner, "last"))(workflow_id)
    gate.open()
    ending.result()
    assert set(Message.objects.exclude(kind="start").values_list("run", flat=True)) == {1}
    driver.run()
    assert json.loads(stored(workflow_id).result or "") == (["asked"] if kind == "cancel" else ["last"])


def test_a_result_of_an_earlier_run_is_not_taken_for_that_of_the_same_ordinal(driver: Driver) -> None:
    """The run decides for results."""
    workflow_id = driver.start(cases.sequence, 1)
    driver.turn()
    (of_the_first,) = driver.claim()
    begin_a_run(workflow_id)
    driver.turn()
    acknowledge.acknowledge([Completed(of_the_first, "41")])
    driver.turn()
    assert stored(workflow_id).status == "running"
    driver.run(lambda claim: "42")
    assert stored(workflow_id).result == "42"
    assert set(OutboxRow.objects.values_list("run", "ordinal", "status")) == {(1, 1, "done"), (2, 1, "done")}


# --- the history that counts ----------------------------------------------------------------------------------------


def test_every_reader_takes_the_current_history_for_the_same(driver: Driver) -> None:
    """The turn, a replay of the export, and what is checked."""
    workflow_id = driver.start(draws, 3)
    driver.run(rounds=200)
    first = json.loads(stored(workflow_id).result or "")
    workflow_id = driver.start(draws, 3)
    for _ in range(2):
        driver.turn()
        driver.complete(*driver.claim(), payload="1")
        driver.turn()
        OutboxRow.objects.filter(workflow_id=workflow_id).exclude(status="done").update(status="cancelled")
        begin_a_run(workflow_id)
    driver.run()
    last = json.loads(stored(workflow_id).result or "")
    assert len({*first, *last}) == 6
    scheduled = list(
        Event.objects.filter(workflow_id=workflow_id, type="activity_scheduled").order_by("seq").values_list("ordinal")
    )
    assert scheduled == [(1,), (2,), (1,), (2,), (1,), (2,), (3,)]
    exported = testing.export_history(workflow_id)
    assert exported["run"] == 3
    assert testing.replay_here(exported, draws).drift == 0
    assert prove.contradictions() == []


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"history_seq": 2}, ["its history begins with event 2, which is workflow_begun.",
                              "its run begins with event 1, before its history does, with event 2."]),
        ({"run_seq": 2}, ["its run begins with event 2, which is workflow_begun."]),
        ({"run_seq": 7}, ["its run begins with event 7, which is not there."]),
    ],
)  # fmt: skip
def test_a_boundary_that_is_not_in_the_history_is_a_contradiction(columns: dict[str, int], words: list[str]) -> None:
    workflow_id = Driver().start(cases.signalled)
    Driver().turn()
    assert prove.contradictions() == []
    Workflow.objects.update(**columns)
    assert [(it.subject, it.text) for it in prove.contradictions()] == [(f"Workflow {workflow_id}", it) for it in words]


# --- limits ---------------------------------------------------------------------------------------------------------


def test_limits_count_the_current_history_only(driver: Driver, settings: Any) -> None:
    """Ten runs of 40 events each, where one history may have 60."""
    settings.DURABLE = {"MAX_HISTORY_EVENTS": 60, "MAX_HISTORY_BYTES": 20_000}
    workflow_id = driver.start(cases.signals, 100, timeout=timedelta(days=1))
    for _ in range(10):
        for _ in range(40):
            signal.signal(workflow_id, "go", payload='"' + "x" * 300 + '"')
        driver.run()
        assert stored(workflow_id).blocked_reason == ""
        begin_a_run(workflow_id)
    assert len(history(workflow_id)) > 400
    driver.run()
    for _ in range(52):
        signal.signal(workflow_id, "go", payload="1")
    driver.run()
    assert Event.objects.filter(workflow_id=workflow_id, seq__gte=stored(workflow_id).history_seq).count() == 54
    with pytest.raises(MailboxFull):
        signal.signal(workflow_id, "go", payload="1")
    begin_a_run(workflow_id)
    signal.signal(workflow_id, "go", payload="1")
    driver.run()
    assert history(workflow_id)[-1] == "signal_received"


def test_bytes_are_counted_from_where_the_current_history_begins(driver: Driver) -> None:
    workflow_id = driver.start(cases.signals, 100)
    driver.turn()
    for _ in range(3):
        signal.signal(workflow_id, "go", payload='"' + "x" * 1_000 + '"')
    driver.run()
    assert stored(workflow_id).history_bytes > 3_000
    begin_a_run(workflow_id)
    signal.signal(workflow_id, "go", payload='"' + "x" * 1_000 + '"')
    driver.run()
    assert 1_000 < stored(workflow_id).history_bytes < 2_000
