"""What a worker says, by lines and by signals, and what listeners can do to it: nothing (faults K10, K13)."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from durable import outbound, signals
from durable.flow.transactions import transaction as own
from durable.models import OutboxRow
from durable.worker.process import speaking
from tests.ledger.models import Entry
from tests.waiting import PATIENCE, Gate, in_thread
from tests.worker.conftest import Plant
from tests.worker.hearing import blocking, fields, listening, raising, writing
from tests.worker.plant import activities, workflows


def test_two_retries_and_a_failure_are_two_warnings_and_one_error(plant: Plant) -> None:
    """Of a single activity, whose workflow has ended by it."""
    with listening() as ear:
        workflow_id = plant.enqueue(activities.fail, "one")
        plant.burst(name="w")
    assert ear.said() == [
        ("WARNING", "activity.attempt_failed"),
        ("WARNING", "activity.attempt_failed"),
        ("ERROR", "activity.failed"),
    ]
    [first, second, last] = [record for record in ear.records if record.levelno >= logging.WARNING]
    common = ("workflow", "activity", "ordinal", "worker", "error_type", "error", "of")
    for record in (first, second, last):
        assert fields(record, *common) == (
            str(workflow_id), "plant.fail", 1, "w", "RuntimeError", "no one", 3,
        )  # fmt: skip
    assert [vars(record)["attempt"] for record in (first, second, last)] == [1, 2, 3]
    assert vars(last)["why"] == "its attempts are spent"
    assert first.exc_info is None
    assert vars(first)["next_try_in_seconds"] == 0.001
    assert last.exc_info is not None
    assert repr(last.exc_info[1]) == "RuntimeError('no one')"
    assert "raise RuntimeError" in logging.Formatter().format(last)


@pytest.mark.parametrize("definition", [workflows.lean, workflows.wrap])
def test_a_workflow_that_dies_of_its_activity_adds_no_error(plant: Plant, definition: Any) -> None:
    with listening() as ear:
        plant.start(definition, "one")
        plant.burst()
    assert ear.said() == [
        ("WARNING", "activity.attempt_failed"),
        ("WARNING", "activity.attempt_failed"),
        ("ERROR", "activity.failed"),
        ("WARNING", "workflow.failed"),
    ]


def test_a_workflow_that_dies_of_a_group_of_activities_adds_no_error(plant: Plant) -> None:
    with listening() as ear:
        plant.start(workflows.lean_on_group, "one")
        plant.burst()
    assert {event for _, event in ear.said(logging.ERROR)} == {"activity.failed"}  # of one or both, as they ended
    assert ("WARNING", "workflow.failed") in ear.said()


def test_a_workflow_that_fails_by_its_own_code_is_an_error_with_its_traceback(plant: Plant) -> None:
    with listening() as ear:
        workflow_id = plant.start(workflows.fall_over, "one")
        plant.burst()
    [record] = ear.of("workflow.failed")
    assert (record.levelname, *fields(record, "workflow", "type", "error_type", "error")) == (
        "ERROR", str(workflow_id), "plant.raise", "ValueError", "one",
    )  # fmt: skip
    assert record.exc_info is not None
    assert "raise ValueError(label)" in logging.Formatter().format(record)


def test_an_activity_that_its_workflow_got_over_is_an_error_all_the_same(plant: Plant) -> None:
    with listening() as ear:
        plant.start(workflows.mend, "one")
        plant.burst()
    assert ear.said(logging.ERROR) == [("ERROR", "activity.failed")]


def test_a_dead_letter_is_an_error_with_what_it_died_of(plant: Plant, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "DELIVERY_ATTEMPTS": 3}
    workflow_id = plant.enqueue(activities.add, 1, 2)
    OutboxRow.objects.filter(workflow_id=workflow_id).update(input='{"args": ["x", []], "kwargs": {}}')
    with listening() as ear:
        plant.burst()
    assert ear.said() == [
        ("WARNING", "activity.delivery_failed"),
        ("WARNING", "activity.delivery_failed"),
        ("ERROR", "activity.dead_lettered"),
    ]
    [first] = ear.of("activity.delivery_failed")[:1]
    assert fields(first, "cause", "failures", "of") == ("undecodable_input", 1, 3)
    [dead] = ear.of("activity.dead_lettered")
    assert fields(dead, "cause", "delivered", "deliveries") == ("undecodable_input", False, 3)
    assert dead.exc_info is not None
    assert dead.exc_info[0] is not None
    assert dead.exc_info[0].__name__ == "PayloadError"


def test_lines_leave_through_a_thread_of_their_own_and_all_are_out_at_the_end(plant: Plant) -> None:
    ran: set[str] = set()
    with listening(lambda record: ran.add(threading.current_thread().name)) as ear:
        plant.start(workflows.talk, "one")
        plant.burst()
    assert ran == {"durable-outbound"}
    assert [record.getMessage() for record in ear.records if record.name == "durable.workflow"] == [
        "before one",
        "after one",
    ]
    assert str(ear.records[-1].msg) == "worker_stopped"


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3), KeyboardInterrupt(), MemoryError()])
def test_a_handler_that_raises_loses_no_result_and_ends_no_loop(plant: Plant, error: BaseException) -> None:
    """The root logger at DEBUG, and each line raises: those of workflow code, of failures, of a dead letter."""
    ids = [plant.start(workflows.talk, f"talk {at}") for at in range(3)]
    failing = [plant.enqueue(activities.fail, "x"), plant.start(workflows.fall_over, "y")]
    good = [plant.enqueue(activities.note_async, "z"), plant.enqueue(activities.write_once, "t")]
    with listening(raising(error), name="", level=logging.DEBUG):
        plant.burst()
    assert [str(plant.look(one).status) for one in [*ids, *good]] == ["completed"] * 5
    assert [str(plant.look(one).status) for one in failing] == ["failed"] * 2


def test_a_handler_that_writes_into_the_database_decides_no_workflow_and_joins_no_transaction(plant: Plant) -> None:
    inside: list[bool] = []

    def write(record: logging.LogRecord) -> None:
        inside.append(connection.in_atomic_block)
        writing(record)

    ids = [
        plant.start(workflows.talk, "talk"),
        plant.start(workflows.fall_over, "fall"),
        plant.enqueue(activities.fail, "x"),
    ]
    with listening(write) as ear:
        plant.burst()
    assert [str(plant.look(one).status) for one in ids] == ["completed", "failed", "failed"]
    assert set(inside) == {False}
    kept = list(Entry.objects.filter(label="log").order_by("id").values_list("note", flat=True))
    assert kept == [str(record.msg)[:200] for record in ear.records]
    assert {"before %s", "workflow.failed", "activity.failed"} <= set(kept)


def test_a_handler_that_blocks_holds_up_no_work(plant: Plant, gate: Gate) -> None:
    ids = [plant.start(workflows.talk, f"talk {at}") for at in range(3)]
    ids += [plant.enqueue(activities.fail, "x"), plant.start(workflows.fall_over, "y")]
    with listening(blocking(gate)):
        worker = in_thread(plant.burst)
        gate.wait_for_arrival()
        door = threading.Event()
        while not all(plant.look(one).status.is_terminal for one in ids):
            assert not door.wait(0.01)
            assert not worker.done()
        gate.open()
        worker.result(PATIENCE)


def test_lines_of_a_transaction_that_was_rolled_back_are_never_said(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit of each first turn fails: its activation, the lines of the code among it, is done again."""
    begin = own.begin
    commits: list[str] = []

    @contextmanager
    def failing(connection: Any) -> Iterator[None]:
        with begin(connection):
            yield
            if threading.current_thread().name == "durable-turn":
                commits.append("turn")
                if len(commits) == 1:
                    raise _passing()

    monkeypatch.setattr(own, "begin", failing)
    with listening(name="durable.workflow") as ear:
        plant.start(workflows.fall_over, "one")
        plant.burst()
    assert len(commits) > 1
    assert [record.getMessage() for record in ear.records] == ["about to fall: one"]


def _passing() -> Exception:
    """An error of the store that is worth another try."""
    error = OperationalError("database is locked")
    if connection.vendor == "postgresql":
        import psycopg

        error.__cause__ = psycopg.errors.SerializationFailure("could not serialize access")
    return error


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def heard() -> Iterator[Callable[..., list[tuple[str, dict[str, Any]]]]]:
    """`heard("workflow_closed", ...)` connects a receiver that keeps what comes, until the test ends."""
    connected: list[tuple[Any, Any]] = []

    def connect(*names: str, also: Callable[..., object] = lambda **values: None) -> list[tuple[str, dict[str, Any]]]:
        found: list[tuple[str, dict[str, Any]]] = []
        for name in names:
            signal = getattr(signals, name)

            def receive(sender: Any, name: str = name, **values: Any) -> None:
                values.pop("signal")
                found.append((name, {"sender": sender, **values}))
                also(**values)

            signal.connect(receive, weak=False)
            connected.append((signal, receive))
        return found

    yield connect
    for signal, receive in connected:
        signal.disconnect(receive)


EVERY = (
    "workflow_started",
    "workflow_closed",
    "workflow_blocked",
    "activity_failed",
    "activity_dead_lettered",
    "dead_letter_redriven",
    "dead_letter_discarded",
)


def test_a_single_activity_sends_what_it_became_once_each(plant: Plant, heard: Any) -> None:
    found = heard(*EVERY)
    workflow_id = plant.enqueue(activities.fail, "one")
    plant.burst()
    assert found == [
        ("workflow_started", {
            "sender": activities.fail, "workflow_id": workflow_id, "type": "plant.fail", "key": None, "single": True,
            "queue": "default",
        }),
        ("activity_failed", {
            "sender": activities.fail, "workflow_id": workflow_id, "run": 1, "ordinal": 1, "activity": "plant.fail",
            "single": True, "attempt": 3, "attempts": 3, "cause": "application_error", "error_type": "RuntimeError",
            "error_message": "no one",
        }),
        ("workflow_closed", {
            "sender": activities.fail, "workflow_id": workflow_id, "type": "plant.fail", "key": None, "single": True,
            "status": "failed", "error_type": "RuntimeError", "error_message": "no one", "reason": "",
        }),
    ]  # fmt: skip


def test_a_workflow_sends_its_start_and_its_end_once_each(plant: Plant, heard: Any) -> None:
    found = heard(*EVERY)
    workflow_id = plant.start(workflows.three, "one")
    plant.burst()
    assert [(name, values["workflow_id"], values["sender"]) for name, values in found] == [
        ("workflow_started", workflow_id, workflows.three),
        ("workflow_closed", workflow_id, workflows.three),
    ]
    assert found[1][1]["status"] == "completed"


def test_a_receiver_connected_with_a_definition_hears_of_that_alone(plant: Plant) -> None:
    found: list[str] = []

    def receive(sender: Any, *, type: str, **rest: Any) -> None:
        found.append(type)

    signals.workflow_closed.connect(receive, sender=workflows.three)
    try:
        plant.start(workflows.three, "one")
        plant.start(workflows.fan, "two", 2)
        plant.burst()
    finally:
        signals.workflow_closed.disconnect(receive, sender=workflows.three)
    assert found == ["plant.three"]


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3), KeyboardInterrupt()])
def test_a_receiver_that_raises_is_logged_and_stops_neither_the_next_nor_the_worker(
    plant: Plant, heard: Any, error: BaseException
) -> None:
    def fall(**values: Any) -> None:
        raise error

    heard("workflow_closed", also=fall)
    second = heard("workflow_closed")
    with listening(name="durable.signals") as ear:
        ids = [plant.start(workflows.three, f"{at}") for at in range(3)]
        plant.burst()
    assert [str(plant.look(one).status) for one in ids] == ["completed"] * 3
    assert len(second) == 3
    assert [str(record.msg) for record in ear.records] == ["signal.receiver_raised"] * 3
    assert fields(ear.records[0], "signal")[0] == "workflow_closed"
    assert ear.records[0].exc_info is not None
    assert ear.records[0].exc_info[1] is error


def test_an_async_receiver_is_called_as_well(plant: Plant) -> None:
    found: list[str] = []

    async def receive(sender: Any, *, status: str, **rest: Any) -> None:
        await Entry.objects.acreate(label="async")
        found.append(status)

    signals.workflow_closed.connect(receive)
    try:
        plant.start(workflows.three, "one")
        plant.burst()
    finally:
        signals.workflow_closed.disconnect(receive)
    assert found == ["completed"]
    assert plant.labels().count("async") == 1


def test_a_receiver_may_use_the_orm_and_start_a_workflow(plant: Plant, heard: Any) -> None:
    def follow(*, type: str, **values: Any) -> None:
        assert not connection.in_atomic_block
        if type == "plant.three":
            with transaction.atomic():
                Entry.objects.create(label="followed")
                plant.enqueue(activities.note, "next")

    found = heard("workflow_closed", also=follow)
    plant.start(workflows.three, "one")
    plant.burst()
    plant.burst()
    assert [values["type"] for _, values in found] == ["plant.three", "plant.note_down"]
    assert {"followed", "next"} <= set(plant.labels())


def test_a_receiver_that_leaves_a_transaction_open_loses_it_and_the_next_one_writes_its_own(
    plant: Plant, heard: Any
) -> None:
    def leave(**values: Any) -> None:
        transaction.atomic().__enter__()
        Entry.objects.create(label="lost")

    def write(**values: Any) -> None:
        assert not connection.in_atomic_block
        Entry.objects.create(label="kept")

    heard("workflow_started", also=leave)
    heard("workflow_closed", also=write)
    with listening() as ear:
        worker = in_thread(plant.burst)
        worker.result(PATIENCE)
        speaking.start()
        plant.enqueue(activities.note, "one")
        assert outbound.stop(PATIENCE)
        plant.burst()
    assert "kept" in plant.labels()
    assert "lost" not in plant.labels()
    assert len(ear.of("signal.transaction_left_open")) == 1


def test_the_connections_of_the_thread_are_closed_at_its_end_and_by_conn_max_age(plant: Plant, heard: Any) -> None:
    open_then: list[Any] = []

    def use(**values: Any) -> None:
        connection.ensure_connection()
        open_then.append(connection.connection)

    heard("workflow_closed", also=use)
    plant.enqueue(activities.note, "one")
    plant.burst()
    [driver] = open_then
    if connection.vendor == "postgresql":
        assert driver.closed
    else:
        with pytest.raises(Exception, match="closed"):
            driver.execute("SELECT 1")


def test_at_its_end_a_worker_lets_sentry_send_what_it_was_given(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child of the supervisor ends without Python's own farewell."""
    asked: list[float] = []
    monkeypatch.setitem(sys.modules, "sentry_sdk", SimpleNamespace(flush=lambda timeout: asked.append(timeout)))
    plant.burst()
    assert asked == [2.0]
