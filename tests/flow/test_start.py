"""Starting workflows: in the caller's transaction, once per business key."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.core.handlers.base import BaseHandler
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test.utils import CaptureQueriesContext

from durable.flow.caller import start
from durable.flow.delivery import claim
from durable.flow.looks import look
from durable.flow.operator import terminate
from durable.models import Event, Message, OutboxRow, Workflow
from durable.outcomes import KeyHeld, Started, WorkflowStatus
from durable.store.runs.starts import NewWorkflow
from tests.flow import cases
from tests.flow.driver import LEASE, Driver, history, workflow
from tests.flow.state import everything, expire, undone
from tests.ledger.models import Entry
from tests.waiting import PATIENCE, Barrier, Gate

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)

SecondConnection = Callable[..., Future[Any]]
NOTHING: dict[str, list[Any]] = {
    name: [] for name in ("Workflow", "Event", "OutboxRow", "WorkItem", "Message", "FailedAttempt", "StaffAction")
}


class Undone(Exception):
    """What a caller's code raises to roll back."""


def new(key: str | None = None, **values: Any) -> NewWorkflow:
    return start.new_workflow(id=uuid.uuid4(), type="cases.nothing", payload="{}", key=key, **values)


def start_one(key: str | None = None) -> Started | KeyHeld:
    (answer,) = start.start([new(key)])
    return answer


def test_a_start_writes_the_workflow_its_first_event_and_its_start_message() -> None:
    """All three or nothing; the event explains the status."""
    one = new("order-1", queue="slow", priority=7)
    assert start.start([one]) == [Started(one.id)]
    row = workflow(one.id)
    assert (row.type, row.key, row.status, row.queue, row.priority) == (
        "cases.nothing",
        "order-1",
        "running",
        "slow",
        7,
    )
    assert (row.run, row.run_seq, row.last_seq, row.single, row.input) == (1, 1, 1, False, "{}")
    event = Event.objects.get(workflow_id=one.id)
    assert (event.seq, event.type, event.data["input"]) == (1, "workflow_started", "{}")
    assert [(m.kind, m.run, m.parked) for m in Message.objects.all()] == [("start", 1, False)]


def test_a_start_for_later_counts_its_time_limit_from_its_own_moment(frozen_clock: Any) -> None:
    """The start message is due at `start_at`, and the deadline is behind it."""
    at = frozen_clock.now + timedelta(days=1)
    one = new(start_at=at, timeout=timedelta(hours=1))
    start.start([one])
    assert workflow(one.id).deadline_at == at + timedelta(hours=1)
    assert Message.objects.get().visible_at == at
    assert Event.objects.get().recorded_at == at


def test_a_start_for_a_moment_that_has_passed_is_due_now(frozen_clock: Any) -> None:
    """Not in the past: its time limit would be shorter than asked."""
    one = new(start_at=frozen_clock.now - timedelta(days=1), timeout=timedelta(hours=1))
    start.start([one])
    assert workflow(one.id).deadline_at == frozen_clock.now + timedelta(hours=1)


def test_a_key_that_a_live_workflow_holds_is_refused_with_the_holders_id() -> None:
    """The second start writes nothing."""
    first = start_one("order-1")
    before = everything()
    assert isinstance(first, Started)
    assert start_one("order-1") == KeyHeld("order-1", first.workflow_id)
    assert everything() == before


def test_a_refused_key_leaves_the_callers_transaction_usable() -> None:
    """Never an integrity error in somebody else's transaction."""
    start_one("order-1")
    with transaction.atomic():
        assert isinstance(start_one("order-1"), KeyHeld)
        Entry.objects.create(label="the caller goes on")
    assert Entry.objects.count() == 1


def test_a_key_is_free_again_when_its_holder_has_ended() -> None:
    """Unique among the live ones only."""
    first = start_one("order-1")
    assert isinstance(first, Started)
    terminate.terminate(first.workflow_id, reason="enough")
    second = start_one("order-1")
    assert isinstance(second, Started)
    assert look.by_key("cases.nothing", "order-1").id == second.workflow_id


def test_a_key_belongs_to_one_type(driver: Driver) -> None:
    """Another type may use the same."""
    driver.start(cases.signalled, key="order-1")
    assert isinstance(start_one("order-1"), Started)


@pytest.mark.parametrize("expired", ["dead letter", "expired lease"])
def test_a_key_that_stuck_work_holds_is_refused_with_the_holders_id(driver: Driver, expired: str) -> None:
    """Faults S11: the caller learns who holds it, and decides."""
    holder = driver.start(cases.sequence, 1, key="order-1")
    driver.turn()
    out = driver.claim_one()
    if expired == "dead letter":
        OutboxRow.objects.update(status="dead", dead_lettered_at=out.created_at)
    else:
        expire(out)
    answer = start.start([start.new_workflow(id=uuid.uuid4(), type="cases.sequence", payload="{}", key="order-1")])
    assert answer == [KeyHeld("order-1", holder)]


def test_a_key_that_is_asked_for_twice_in_one_call_is_given_once() -> None:
    """The outcomes stand in the order of the call."""
    twins = [new("same"), new("other"), new("same")]
    answers = start.start(twins)
    assert sorted(type(answer).__name__ for answer in answers) == ["KeyHeld", "Started", "Started"]
    assert answers[1] == Started(twins[1].id)
    (holder,) = Workflow.objects.filter(key="same").values_list("id", flat=True)
    assert KeyHeld("same", holder) in answers
    assert Started(holder) in answers


@pytest.mark.parametrize("number", [1, 500])
def test_a_bulk_start_is_one_statement_or_one_per_table(number: int) -> None:
    """One on PostgreSQL, one per table on SQLite, whatever the number."""
    many = [new(f"key-{at:03}") for at in range(number)]
    with CaptureQueriesContext(connection) as captured:
        answers = start.start(many)
    assert answers == [Started(one.id) for one in many]
    statements = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE"))]
    assert len(statements) == {"postgresql": 1, "sqlite": 3}[connection.vendor]
    assert Workflow.objects.count() == Event.objects.count() == Message.objects.count() == number


def test_nothing_is_left_for_after_the_commit() -> None:
    """Faults J4: a start is an insert in the same transaction; no hook could fail when the data is saved."""
    with transaction.atomic():
        start_one()
        assert connection.run_on_commit == []


@own_connections
def test_before_the_commit_nobody_sees_it_but_the_caller_who_has_the_id(second_connection: SecondConnection) -> None:
    """Faults J3 and J13: the id is there at once; nothing is claimable, and no turn is found, before the commit."""
    single = Driver()
    with transaction.atomic():
        answer = start_one("order-1")
        assert isinstance(answer, Started)
        activity_id = single.enqueue(cases.step, 1)
        assert look.snapshot(answer.workflow_id).status is WorkflowStatus.RUNNING
        assert second_connection(_work_of_another_process).result(PATIENCE) == (0, 0)
    assert second_connection(_work_of_another_process).result(PATIENCE) == (1, 1)
    assert {answer.workflow_id, activity_id} == set(Workflow.objects.values_list("id", flat=True))


def _work_of_another_process() -> tuple[int, int]:
    """Turns and claims that another process gets. On SQLite a claim would wait for the open transaction: rows are
    looked at instead.
    """
    driver = Driver(name="other")
    turned = driver.turn().workflows
    if connection.vendor == "sqlite":
        return turned, OutboxRow.objects.count()
    return turned, len(claim.claim(worker="other", limit=5, queues=None, lease_for=LEASE))


@own_connections
def test_a_savepoint_that_is_rolled_back_leaves_nothing_of_the_start() -> None:
    """Faults J3, J5: the start is on the caller's connection, in the caller's savepoint."""
    with transaction.atomic():
        Entry.objects.create(label="outer")
        with undone():
            start_one("order-1")
        assert everything() == NOTHING
    assert everything() == NOTHING
    assert Entry.objects.count() == 1


@own_connections
def test_an_outer_rollback_takes_the_start_of_a_committed_savepoint_with_it() -> None:
    """Nested blocks: what an inner one kept, the outer one may still undo."""
    with undone():
        with transaction.atomic(), transaction.atomic():
            start_one("order-1")
        assert Workflow.objects.count() == 1
    assert everything() == NOTHING


@own_connections
def test_a_request_that_fails_under_atomic_requests_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults J3: and one that succeeds leaves both, the caller's row and the workflow."""
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    fails: list[Exception] = [Undone()]

    def view(request: HttpRequest) -> HttpResponse:
        Entry.objects.create(label="order")
        answer = start_one("order-1")
        assert isinstance(answer, Started)
        for error in fails:
            raise error
        return HttpResponse(str(answer.workflow_id))

    handler = BaseHandler().make_view_atomic(view)
    with pytest.raises(Undone):
        handler(HttpRequest())
    assert (Entry.objects.count(), everything()) == (0, NOTHING)
    fails.clear()
    response = handler(HttpRequest())
    assert isinstance(response, HttpResponse)
    assert str(Workflow.objects.get().id) == response.content.decode()
    assert Entry.objects.count() == 1


@own_connections
def test_two_connections_that_race_for_one_key_make_one_workflow(
    second_connection: SecondConnection, barrier: Callable[[int], Barrier]
) -> None:
    """The loser is told the winner's id."""
    meet = barrier(2)

    def race(rounds: int) -> list[Started | KeyHeld]:
        answers = []
        for at in range(rounds):
            meet.wait()
            answers.append(start_one(f"order-{at}"))
        return answers

    other = second_connection(race, 20)
    for mine, theirs in zip(race(20), other.result(60), strict=True):
        winner, loser = (mine, theirs) if isinstance(mine, Started) else (theirs, mine)
        assert isinstance(winner, Started)
        assert isinstance(loser, KeyHeld)
        assert loser.holder == winner.workflow_id
    assert Workflow.objects.count() == 20


@own_connections
def test_bulk_starts_with_the_same_keys_in_other_orders_do_not_deadlock(
    second_connection: SecondConnection, barrier: Callable[[int], Barrier]
) -> None:
    """Keys are taken in sorted order."""
    meet = barrier(2)

    def race(step: int) -> int:
        started = 0
        for turn in range(10):
            meet.wait()
            answers = start.start([new(f"{turn}-{at}") for at in range(10)[::step]])
            started += sum(isinstance(answer, Started) for answer in answers)
        return started

    other = second_connection(race, -1)
    assert race(1) + other.result(60) == 100


@own_connections
def test_a_start_that_waited_for_a_key_gets_it_when_the_first_rolls_back(
    second_connection: SecondConnection, gate: Gate
) -> None:
    """The key was held by somebody who never was."""

    def first() -> None:
        with undone():
            assert isinstance(start_one("order-1"), Started)
            gate.pass_through()

    holding = second_connection(first)
    gate.wait_for_arrival()
    waiting = second_connection(start_one, "order-1")
    gate.open()
    holding.result(PATIENCE)
    answer = waiting.result(PATIENCE)
    assert isinstance(answer, Started)
    assert history(answer.workflow_id) == ["workflow_started"]
