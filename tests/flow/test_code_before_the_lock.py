"""Code and decoding keep nobody from writing: on SQLite they run before the turn's transaction, and what has changed
until its lock is taken is not written over. On PostgreSQL the other party waits for the workflow's row, or comes first.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

import durable
from durable import signals
from durable.decorators.workflows import workflow
from durable.errors import ActivityError
from durable.flow.caller import signal
from durable.flow.delivery import abandon
from durable.flow.operator import pause, redrive, resume, terminate
from durable.flow.turns import deciding, feeding
from durable.models import Event, Message, OutboxRow
from durable.outcomes import Cause, Failure, RedriveMode, TurnReport
from durable.store.runs import inbox
from tests.flow import cases
from tests.flow import driver as rows_of
from tests.flow.driver import Driver, history
from tests.ledger.models import Entry
from tests.waiting import PATIENCE, Gate, in_thread

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)
on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="Rows are locked before the code runs.")
DECODING: list[Gate] = []


@dataclass
class Order:
    """Takes its time."""

    number: int

    def __post_init__(self) -> None:
        for door in DECODING:
            door.pass_through()


@workflow(name="before_the_lock.orders")
async def orders() -> int:
    order = await durable.wait_for_signal("order", as_type=Order)
    return order.number


@workflow(name="before_the_lock.careful")
async def careful() -> int:
    try:
        await cases.step.execute(1)
    except ActivityError:
        await cases.other.execute(2)
    return 1


@pytest.fixture
def decoding(gate: Gate) -> Iterator[Gate]:
    """Whoever decodes an order waits there."""
    DECODING.append(gate)
    yield gate
    DECODING.clear()


@own_connections
def test_others_write_and_commit_while_a_turn_decodes(driver: Driver, decoding: Gate) -> None:
    """The host project on a connection of its own, and the sender of the next signal."""
    workflow_id = driver.start(orders)
    driver.turn()
    signal.signal(workflow_id, "order", payload='{"number":7}')
    turning = in_thread(driver.turn)
    decoding.wait_for_arrival()
    with transaction.atomic():
        Entry.objects.create(label="while it decodes")
    signal.signal(workflow_id, "order", payload='{"number":8}')
    assert rows_of.workflow(workflow_id).status == "running"
    decoding.open()
    report = turning.result(PATIENCE)
    assert (report.workflows, report.closed) == (1, 1)
    assert json.loads(rows_of.workflow(workflow_id).result or "") == 7
    closing = Event.objects.filter(workflow_id=workflow_id).order_by("-seq")[0]
    assert closing.data["unread"] == [{"kind": "signal", "name": "order"}]


# --- what comes between the run of the code and its write -------------------------------------------------------------


@contextmanager
def decided(driver: Driver, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Iterator[Future[TurnReport]]:
    """The block runs when a turn of the driver's has run the code, and has written nothing yet."""
    real = deciding.decide

    def decide(*args: Any, **values: Any) -> Any:
        plans = real(*args, **values)
        monkeypatch.setattr(deciding, "decide", real)
        gate.pass_through()
        return plans

    monkeypatch.setattr(deciding, "decide", decide)
    turning = in_thread(driver.turn)
    gate.wait_for_arrival()
    yield turning
    gate.open()
    turning.result(PATIENCE)


def _failure_waits(driver: Driver) -> uuid.UUID:
    """A workflow with a dead letter whose failure it has not read, and a signal."""
    workflow_id = driver.start(careful)
    driver.turn()
    OutboxRow.objects.update(delivery_budget=1, options={"on_dead_letter": "deliver"})
    abandon.abandon(driver.claim_one(), cause=Cause.ACK_ABANDONED, failure=Failure("OSError", "no"))
    signal.signal(workflow_id, "news", payload="1")
    return workflow_id


Act = Callable[[uuid.UUID], object]
TURNED = ["activity_failed 1", "activity_scheduled 2", "signal_received"]
ACTS: dict[str, tuple[Act, list[str], list[str]]] = {
    # What is done between, and the events behind "activity_scheduled 1": where it came first, and where it waited.
    "terminate": (
        partial(terminate.terminate, reason="enough"),
        ["workflow_cancelled"],
        [*TURNED, "workflow_cancelled"],
    ),
    "pause": (
        partial(pause.pause, reason="later"),
        ["workflow_paused", "workflow_resumed", *TURNED],
        [*TURNED, "workflow_paused", "workflow_resumed"],
    ),
    "redrive": (
        lambda workflow_id: redrive.redrive(workflow_id, 1, mode=RedriveMode.FORCED, reason="the bank says so"),
        ["activity_redriven 1", *TURNED],
        [*TURNED, "activity_redriven 1"],
    ),
}


@own_connections
@pytest.mark.parametrize("name", ACTS)
def test_what_operators_do_between_the_run_of_the_code_and_its_write_stands_and_nothing_is_lost(
    driver: Driver, gate: Gate, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """On SQLite the plan is dropped, with what is in memory; what is left to do is done by the next turn."""
    act, came_first, waited = ACTS[name]
    workflow_id = _failure_waits(driver)
    with decided(driver, gate, monkeypatch) as turning:
        acting = in_thread(act, workflow_id)
        if connection.vendor == "sqlite":
            acting.result(PATIENCE)
            before = history(workflow_id)
    acting.result(PATIENCE)
    report = turning.result(PATIENCE)
    if connection.vendor == "sqlite":
        assert (report.workflows, report.messages, report.staged) == (0, 0, 0)
        assert report.deferred + report.parked == 1
        assert history(workflow_id) == before
        assert OutboxRow.objects.count() == 1
        assert workflow_id not in driver.cache
    else:
        assert (report.workflows, report.messages) == (1, 2)
    if name == "pause":
        driver.turn()
        resume.resume(workflow_id)
    driver.turn()
    told = [event for event in history(workflow_id)[2:] if event != "activity_scheduled 1"]
    assert told == (came_first if connection.vendor == "sqlite" else waited)
    # The signal of one that was ended is kept for whoever looks; all else was read.
    left = list(Message.objects.values_list("kind", "parked"))
    assert left == ([("signal", True)] if told == ["workflow_cancelled"] else [])
    moments = list(Event.objects.filter(workflow_id=workflow_id).order_by("seq").values_list("recorded_at", flat=True))
    assert moments == sorted(moments)


@own_connections
def test_a_workflow_that_two_workers_have_run_is_written_once(
    driver: Driver, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite by who is first; on PostgreSQL the second passes over what the first has locked."""
    workflow_id, other = driver.start(cases.fan_out, 3), Driver(name="other")
    with decided(driver, gate, monkeypatch) as turning:
        second = other.turn()
    first = turning.result(PATIENCE)
    late, won = (first, second) if connection.vendor == "sqlite" else (second, first)
    assert (late.workflows, won.workflows, won.staged) == (0, 1, 3)
    assert history(workflow_id) == ["workflow_started", *(f"activity_scheduled {n}" for n in (1, 2, 3))]
    assert [row.ordinal for row in rows_of.rows(workflow_id)] == [1, 2, 3]
    driver.run()
    assert rows_of.workflow(workflow_id).status == "completed"


@on_sqlite
@own_connections
def test_a_message_that_was_encrypted_anew_meanwhile_is_read_again(
    driver: Driver, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workflow's row says nothing of it. Written from memory, the event would need the old key for ever."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    signal.signal(workflow_id, "go", payload='"old"')
    with decided(driver, gate, monkeypatch) as turning:
        message = Message.objects.get()
        message.payload = message.payload.replace("old", "new")
        Message.objects.update(payload=message.payload)
    assert (turning.result(PATIENCE).workflows, turning.result().deferred) == (0, 1)
    driver.turn()
    assert json.loads(rows_of.workflow(workflow_id).result or "") == "new"


@on_sqlite
@own_connections
def test_nothing_is_said_of_what_was_not_written(
    driver: Driver, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The code could not go on; but staff have ended the workflow before that was written."""
    said: list[Any] = []
    told = lambda **values: said.append(values["workflow_id"])  # noqa: E731
    signals.workflow_blocked.connect(told)
    try:
        workflow_id, beside = driver.start(cases.signalled), driver.start(cases.signalled)
        driver.turn()
        for owner in (workflow_id, beside):
            signal.signal(owner, "go", payload="1")
        monkeypatch.setattr(feeding, "feed", _broken)
        with decided(driver, gate, monkeypatch) as turning:
            terminate.terminate(workflow_id, reason="enough")
    finally:
        signals.workflow_blocked.disconnect(told)
    assert (turning.result(PATIENCE).workflows, turning.result().parked) == (1, 1)
    assert workflow_id not in driver.cache
    assert said == [beside]
    lines = [line for line in caplog.messages if "workflow.blocked" in line]
    assert [str(beside) in line for line in lines] == [True]


def _broken(*args: Any, **values: Any) -> None:
    raise RuntimeError("its message is damaged")


def test_what_was_taken_between_the_look_and_the_read_leaves_its_workflow_for_a_later_turn(driver: Driver) -> None:
    """Without a lock another turn may have taken one of its messages: half of them would be no order."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    for size in (1, 5_000, 1):
        signal.signal(workflow_id, "news", payload=json.dumps("x" * size))
    found = inbox.look(connection, [workflow_id], unbegun=[], full=[])
    Message.objects.filter(id=Message.objects.order_by("id")[1].id).delete()
    assert inbox.read(connection, found)[workflow_id].waits
