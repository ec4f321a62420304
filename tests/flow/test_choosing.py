"""Several processes turn what is due: each keeps to what it has in memory, and nobody waits long for that."""

from __future__ import annotations

import sqlite3
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import F

from durable.conf import settings
from durable.flow.caller import signal
from durable.flow.transactions import transaction
from durable.flow.transactions.faults import Fault
from durable.flow.turns import choosing, preparing, turn
from durable.flow.upkeep import beat
from durable.models import Message, Worker, Workflow
from durable.outcomes import Company, TurnReport
from durable.store.runs import history as history_rows
from durable.worker.loops.claims import Claims
from durable.worker.loops.turns import Turns
from durable.worker.threads.wakeup import Pace
from tests.flow import cases
from tests.flow.driver import Driver, history, workflow

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def mine() -> Driver:
    return Driver(name="mine", company=Company.OTHERS)


@pytest.fixture
def other() -> Driver:
    return Driver(name="other", company=Company.OTHERS)


@pytest.fixture(autouse=True)
def moments_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is: what a test has just written is young until the test lets time pass."""
    monkeypatch.setattr(choosing, "LEFT_FOR", 1000.0)
    monkeypatch.setattr(choosing, "LEFT_BESIDE_OTHERS_FOR", 10_000.0)
    monkeypatch.setattr(choosing, "OVERTAKEN_FOR", 50_000.0)


def let_pass(seconds: float, *owners: uuid.UUID) -> None:
    """What waits for these workflows has waited so much longer."""
    span = timedelta(seconds=seconds)
    Message.objects.filter(workflow_id__in=owners).update(visible_at=F("visible_at") - span)
    Workflow.objects.filter(id__in=owners, wake_at__isnull=False).update(wake_at=F("wake_at") - span)


def waiting(driver: Driver, count: int = 1) -> list[uuid.UUID]:
    """Workflows that this driver has in memory, each with a signal to read."""
    owners = [driver.start(cases.signalled) for _ in range(count)]
    assert driver.turn().workflows == count
    for owner in owners:
        signal.signal(owner, "go", payload='"home"')
    return owners


def count_replays(monkeypatch: pytest.MonkeyPatch) -> list[uuid.UUID]:
    replayed: list[uuid.UUID] = []
    real = preparing._replay  # how often code is replayed shows in no result

    def replay(workflow: Any, *rest: Any) -> None:
        replayed.append(workflow.id)
        real(workflow, *rest)

    monkeypatch.setattr(preparing, "_replay", replay)
    return replayed


def test_what_another_process_has_in_memory_is_left_to_it(
    mine: Driver, other: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    [owner] = waiting(other)
    replayed = count_replays(monkeypatch)
    assert mine.turn() == TurnReport(left=1)
    assert other.turn().closed == 1
    assert replayed == []
    assert history(owner)[-1] == "workflow_completed"


def test_what_another_process_has_in_memory_is_turned_when_that_process_does_not_come(
    mine: Driver, other: Driver
) -> None:
    [owner] = waiting(other)
    let_pass(2000, owner)
    assert mine.turn().closed == 1
    assert workflow(owner).status == "completed"


def test_beside_other_work_it_is_left_for_longer_and_not_for_ever(mine: Driver, other: Driver) -> None:
    [owner] = waiting(other)
    let_pass(2000, owner)
    mine.start(cases.nothing)
    assert mine.turn().closed == 1
    assert workflow(owner).status == "running"
    let_pass(20_000, owner)
    mine.start(cases.nothing)
    assert mine.turn().closed == 2


def test_a_timer_is_left_and_taken_likewise(mine: Driver, other: Driver) -> None:
    owner = other.start(cases.sleeper, 3000)
    assert other.turn().workflows == 1
    let_pass(3500, owner)
    assert mine.turn() == TurnReport(left=1)
    let_pass(1000, owner)
    assert mine.turn().workflows == 1


def test_what_has_not_begun_is_nobodys_and_taken_at_once(mine: Driver) -> None:
    mine.start(cases.signalled)
    assert mine.turn().workflows == 1


def test_a_process_that_keeps_nothing_leaves_nothing(other: Driver) -> None:
    waiting(other)
    assert Driver(cached=0, company=Company.OTHERS).turn().closed == 1


def test_one_that_is_not_told_of_others_leaves_nothing(other: Driver) -> None:
    waiting(other)
    assert Driver().turn().closed == 1


def test_while_the_clock_is_frozen_nothing_is_left(mine: Driver, other: Driver, frozen_clock: Any) -> None:
    """Nobody would ever have waited long enough."""
    waiting(other)
    assert mine.turn().closed == 1


def test_what_is_stale_here_belongs_to_whoever_has_gone_on_with_it(mine: Driver, other: Driver) -> None:
    owner = mine.start(cases.sequence, 3)
    mine.turn()
    mine.complete(mine.claim_one(), payload="1")
    let_pass(2000, owner)
    assert other.turn().staged == 1
    other.complete(other.claim_one(), payload="2")
    assert mine.turn() == TurnReport(left=1)
    assert other.turn().staged == 1


@pytest.mark.parametrize(("seconds", "ours", "theirs"), [(30_000, 2, 0), (60_000, 1, 1)])
def test_what_is_in_memory_comes_first_and_overtakes_what_has_waited_for_long_with_half_of_a_batch(
    mine: Driver, other: Driver, seconds: int, ours: int, theirs: int
) -> None:
    owners = {"theirs": waiting(other, 2), "ours": waiting(mine, 2)}
    let_pass(seconds, *owners["theirs"])
    assert mine.turn(limit=2).closed == 2
    ended = {whose: sum(workflow(owner).status == "completed" for owner in ids) for whose, ids in owners.items()}
    assert ended == {"ours": ours, "theirs": theirs}


def test_what_is_left_hides_nothing_behind_it(mine: Driver, other: Driver) -> None:
    """The second half of the candidates is looked at when all of the first is left."""
    theirs = waiting(other, 2)
    let_pass(500, *theirs)
    fresh = mine.start(cases.nothing)
    assert mine.turn(limit=2).closed == 1
    assert workflow(fresh).status == "completed"


def test_what_is_left_takes_no_place_in_the_batch(mine: Driver, other: Driver) -> None:
    theirs = waiting(other, 9)
    let_pass(500, *theirs)
    for _ in range(11):
        mine.start(cases.nothing)
    assert [mine.turn(limit=10).closed for _ in range(2)] == [10, 1]


def test_a_suspect_that_is_left_hides_nothing_either(mine: Driver, other: Driver) -> None:
    """It would be turned alone; while it is left to somebody, there is no reason to wait for it."""
    [suspect] = waiting(other)
    Workflow.objects.filter(id=suspect).update(poison_turns=1)
    let_pass(500, suspect)
    for _ in range(5):
        mine.start(cases.nothing)
    assert mine.turn().closed == 5


def test_what_an_error_has_dropped_from_memory_is_turned_in_the_second_try(
    mine: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cold by then, and in nobody else's memory."""
    waiting(mine)
    write, calls = turn._write, []  # the moment between the locks and the commit

    def locked_once(*args: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise OperationalError("database is locked") from sqlite3.OperationalError("database is locked")
        return write(*args, **named)

    monkeypatch.setattr(turn, "_write", locked_once)
    monkeypatch.setattr(transaction, "classify", lambda error: Fault.RETRYABLE)
    assert mine.turn().closed == 1
    assert len(calls) == 2


def test_a_connection_that_ends_behind_a_look_that_leaves_all_costs_nothing(
    mine: Driver, other: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked of the database for what is not replayed."""
    waiting(other, 2)
    monkeypatch.setattr(history_rows, "read_runs", None)
    assert mine.turn() == TurnReport(left=2)


@pytest.mark.parametrize(
    ("mine", "theirs", "answer"),
    [
        ([], [], Company.OTHERS),
        ([], ["mail"], Company.OTHERS),
        (["mail", "fast"], ["mail"], Company.OTHERS),
        (["fast"], ["mail"], Company.ALONE),
    ],
)
def test_a_sign_of_life_answers_whether_others_serve_the_same(
    mine: list[str], theirs: list[str], answer: Company
) -> None:
    assert beat.beat(name="mine", queues=mine, version="1") is Company.ALONE
    beat.beat(name="other", queues=theirs, version="1")
    assert beat.beat(name="mine", queues=mine, version="1") is answer
    Worker.objects.filter(name="other").update(beat_at=F("beat_at") - 3 * settings.lease_for)
    assert beat.beat(name="mine", queues=mine, version="1") is Company.ALONE


@pytest.mark.parametrize("report", [TurnReport(left=3), TurnReport(without_room=3)])
def test_a_worker_looks_again_when_what_it_left_has_waited(
    monkeypatch: pytest.MonkeyPatch, mine: Driver, report: TurnReport
) -> None:
    """However long it would have rested by then."""
    claims: Any = _NoClaims()
    turns = _turns(mine, Pace(timedelta(hours=1)), claims)
    monkeypatch.setattr(turn, "turn", lambda **given: report)
    for _ in range(10):
        assert 0 < turns.step() <= 0.1
    monkeypatch.setattr(turn, "turn", lambda **given: TurnReport())
    assert turns.step() > 0.1


class _NoStagedClaims:
    in_doubt = False


class _NoClaims:
    idle: int | None = 0

    def staged_claims(self) -> _NoStagedClaims:
        return _NoStagedClaims()

    def offer(self) -> None:
        pass

    def receive(self, taken: Any) -> bool:
        return False


def _turns(driver: Driver, pace: Pace, claims: Claims) -> Turns:
    note: Any = lambda: None  # noqa: E731
    return Turns(
        queues=None,
        cache=driver.cache,
        note=note,
        staged=lambda: None,
        claims=claims,
        pace=pace,
        ready=lambda: True,
    )
