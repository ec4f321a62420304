"""However much somebody else has locked, and however much has ended or is paused: nothing else waits for it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction

from durable import clock
from durable.flow.caller import cancel, signal
from durable.flow.turns import choosing, turn
from durable.flow.turns.passed_over import PassedOver
from durable.models import Message, OutboxRow, Workflow
from durable.outcomes import TurnReport
from tests.flow import cases
from tests.flow.driver import Driver, history, workflow
from tests.flow.state import locked_elsewhere
from tests.waiting import PATIENCE, Gate, in_thread

pytestmark = pytest.mark.django_db(transaction=True)
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no row locks.")

LIMIT = 10


@contextmanager
def all_locked_elsewhere(table: str, ids: Sequence[Any]) -> Iterator[None]:
    """Another connection holds the locks of many rows for the length of the block."""
    gate = Gate(f"locks on {table}")

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {table} WHERE id = ANY(%s) FOR UPDATE", [list(ids)])
            assert len(cursor.fetchall()) == len(ids)
            gate.pass_through()

    held = in_thread(hold)
    gate.wait_for_arrival()
    try:
        yield
    finally:
        gate.open()
        held.result(PATIENCE)


def let_pass(monkeypatch: pytest.MonkeyPatch, *, seconds: float) -> None:
    """For what is put aside."""
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + seconds)
    monkeypatch.setattr("durable.flow.turns.passed_over.time", later)


class Turner:
    """A worker's turns, with what they remember from one to the next."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.aside, self.hints = PassedOver(), choosing.Hints()

    def step(self, limit: int = LIMIT) -> TurnReport:
        return turn.turn(
            cache=self.driver.cache, queues=None, limit=limit, note=self.driver.noted.append, hints=self.hints,
            aside=self.aside,
        )  # fmt: skip

    def until_nothing_is_done(self) -> int:
        """Go on as a worker does, which rests after an empty report; returns how many workflows had their turn."""
        turned = 0
        for _ in range(1000):
            report = self.step()
            if report == TurnReport():
                return turned
            turned += report.workflows
        raise AssertionError("A worker would never rest: a hot loop.")


def _signalled(driver: Driver) -> list[uuid.UUID]:
    ids = [driver.start(cases.signals, 9) for _ in range(5 * LIMIT)]
    driver.turn(limit=len(ids))
    for owner in ids:
        signal.signal(owner, "go", payload="1")
    return ids


def _flooded(driver: Driver) -> list[uuid.UUID]:
    """One workflow, with more messages than any look meets."""
    (owner,) = ids = [driver.start(cases.signals, 9)]
    driver.turn()
    now = clock.database_now(connection)
    one = Message(workflow_id=owner, run=1, kind="signal", payload='{"name": "go", "payload": "1"}')
    one.visible_at = one.created_at = now
    Message.objects.bulk_create(
        Message(workflow_id=owner, run=1, kind=one.kind, payload=one.payload, visible_at=now, created_at=now)
        for _ in range(4 * LIMIT * choosing.DEEPER[-1] + 1)
    )
    return ids


def _woken(driver: Driver) -> list[uuid.UUID]:
    ids = [driver.start(cases.sleeper, 3600) for _ in range(5 * LIMIT)]
    driver.turn(limit=len(ids))
    Workflow.objects.filter(id__in=ids).update(wake_at=clock.database_now(connection) - timedelta(minutes=1))
    return ids


def _started(driver: Driver) -> list[uuid.UUID]:
    return [driver.start(cases.signals, 9) for _ in range(5 * LIMIT)]


@on_postgresql
@pytest.mark.parametrize("what", [_signalled, _flooded, _woken, _started])
def test_workflows_that_somebody_else_has_locked_hide_no_other_however_many_they_are(
    driver: Driver, what: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a look meets is locked: a migration of the host, a long report with FOR UPDATE."""
    locked, turner = what(driver), Turner(driver)
    sleeping = driver.start(cases.signalled)
    with all_locked_elsewhere("durable_workflow", locked):
        free = [driver.start(cases.nothing) for _ in range(3)]
        turner.until_nothing_is_done()
        signal.signal(sleeping, "go", payload="1")
        turner.until_nothing_is_done()
        assert {workflow(owner).status for owner in [*free, sleeping]} == {"completed"}
        assert turner.aside.left_out() <= set(locked)
    let_pass(monkeypatch, seconds=6.0)
    assert turner.until_nothing_is_done() >= len(locked)
    assert not Message.objects.filter(parked=False).exists()


@on_postgresql
def test_what_is_locked_is_not_put_aside_where_it_hides_nothing(driver: Driver) -> None:
    """It goes on in the moment in which the lock ends, as before."""
    owner, turner = driver.start(cases.signalled), Turner(driver)
    with locked_elsewhere("durable_workflow", "id", owner):
        assert turner.step() == TurnReport()
    assert turner.step().workflows == 1


@on_postgresql
def test_many_that_meet_a_locked_row_keep_no_other_from_its_turn_for_long(driver: Driver) -> None:
    """Each costs a wait: they come back rarely, together, and after all others."""
    held = [driver.start(cases.limited, 60) for _ in range(2 * LIMIT)]
    driver.turn(limit=len(held))
    for owner in held:
        cancel.cancel(owner)
    turner = Turner(driver)
    with all_locked_elsewhere("durable_outboxrow", list(OutboxRow.objects.values_list("id", flat=True))):
        turner.until_nothing_is_done()
        assert turner.aside.left_out() == set(held)
        free = [driver.start(cases.nothing) for _ in range(3)]
        assert turner.step().closed == 3
        assert {workflow(owner).status for owner in free} == {"completed"}
    assert turner.aside.last([held[0], free[0], held[1], free[1]]) == [free[0], free[1], held[0], held[1]]


def test_what_meets_a_lock_again_and_again_is_passed_over_for_longer_and_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And is forgotten after its last time, so that nothing grows."""
    now = 1000.25
    monkeypatch.setattr("durable.flow.turns.passed_over.time", SimpleNamespace(monotonic=lambda: now))
    aside, owner, spans = PassedOver(), uuid.uuid4(), []
    for _ in range(8):
        aside.put(owner)
        until = aside._places[owner].until  # how long it is put aside shows nowhere else
        spans.append(until - now)
        assert aside.left_out() == {owner}
        now = until
        assert aside.left_out() == set()
    assert spans[0] <= 10.0 < spans[3] <= spans[-1] <= 160.0
    now += 60.0
    aside.left_out()
    assert not aside._places


@on_postgresql
def test_an_overrun_that_cannot_be_counted_now_waits_for_no_lock_and_is_counted_later(
    driver: Driver,
    overrunning: uuid.UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody has locked the workflow in the moment after its turn."""
    keep, turner = turn._keep, Turner(driver)  # the moment after the commit, before it is kept in memory
    with ExitStack() as locks:

        def keep_and_lose(*args: Any) -> None:
            keep(*args)
            locks.enter_context(locked_elsewhere("durable_workflow", "id", overrunning))

        monkeypatch.setattr(turn, "_keep", keep_and_lose)
        turner.step()
        monkeypatch.undo()
        assert turner.aside.left_out() == {overrunning}
    assert workflow(overrunning).poison_turns == 0
    let_pass(monkeypatch, seconds=6.0)
    turner.step()
    assert workflow(overrunning).poison_turns == 1


# --- what has ended, or is paused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["paused", "completed"])
def test_messages_of_paused_and_ended_workflows_make_no_worker_rest_before_the_others_have_their_turns(
    driver: Driver, status: str
) -> None:
    """They came in transactions that were open meanwhile; they are parked at the pace of work, and once."""
    ids, turner = [driver.start(cases.signals, 9) for _ in range(5 * LIMIT)], Turner(driver)
    driver.turn(limit=len(ids))
    for owner in ids:
        signal.signal(owner, "go", payload="1")
    closed_at = None if status == "paused" else clock.database_now(connection)
    Workflow.objects.filter(id__in=ids).update(status=status, closed_at=closed_at)
    free = driver.start(cases.nothing)
    assert turner.until_nothing_is_done() == 1
    assert history(free)[-1] == "workflow_completed"
    assert Message.objects.filter(parked=True).count() == len(ids)
    assert turner.step() == TurnReport()


def test_an_ended_workflow_with_a_moment_to_wake_at_is_looked_at_once(driver: Driver) -> None:
    """Somebody has set its status by hand."""
    owner, turner = driver.start(cases.sleeper, 3600), Turner(driver)
    driver.turn()
    past = clock.database_now(connection) - timedelta(minutes=1)
    Workflow.objects.filter(id=owner).update(status="completed", wake_at=past, closed_at=past)
    assert turner.until_nothing_is_done() == 0
    assert workflow(owner).wake_at is None
