"""Turns that claim what they stage: as good as staged and claimed, in one transaction."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

import durable
from durable.decorators.workflows import workflow
from durable.flow.transactions import transaction as own
from durable.flow.turns import turn
from durable.flow.turns.room import Room
from durable.flow.turns.staged_claims import StagedClaims
from durable.models import Event, OutboxRow, WorkItem
from durable.outcomes import Claim, TurnReport
from tests.flow import cases
from tests.flow.driver import LEASE, Driver, history, row
from tests.flow.driver import workflow as workflow_row

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


@workflow(name="cases.hasty")
async def hasty() -> str:
    """Ends in the turn that staged its activity."""
    task = asyncio.ensure_future(cases.step.execute(1))
    await asyncio.sleep(0)
    task.cancel()
    return "done"


@workflow(name="cases.choosy")
async def choosy() -> None:
    await asyncio.gather(
        cases.step.options(priority=1).execute(1),
        cases.step.options(priority=5).execute(2),
        cases.step.options(queue="mail").execute(3),
    )


@workflow(name="cases.fickle")
async def fickle() -> None:
    """Calls off, in the turn that staged it, what it has called."""
    call = asyncio.ensure_future(cases.step.execute(1))
    await asyncio.sleep(0)
    call.cancel()
    await durable.sleep(3600)


def claiming(room: int, *, queues: tuple[str, ...] | None = None, lease_for: timedelta = LEASE) -> StagedClaims:
    offered = Room()
    offered.open(room)
    return StagedClaims(worker="driver", queues=queues, lease_for=lease_for, room=offered)


def turned(driver: Driver, staged_claims: StagedClaims) -> TurnReport:
    return turn.turn(cache=driver.cache, queues=None, limit=50, note=driver.noted.append, staged_claims=staged_claims)


def test_what_is_taken_is_a_delivery_like_any_other(driver: Driver, frozen_clock: Any) -> None:
    """Counted, leased, under a token, with the same facts in the claim; the acknowledgement tells no difference."""
    workflow_id = driver.start(cases.sequence, 1)
    (taken,) = turned(driver, claiming(10)).claimed
    staged = row(workflow_id)
    assert (staged.status, staged.deliveries, staged.claimed_at) == ("claimed", 1, frozen_clock.now)
    item = WorkItem.objects.get()
    assert (item.outbox_row_id, item.workflow_id, item.lock_token) == (staged.id, workflow_id, taken.token)
    assert (item.locked_until, item.worker) == (frozen_clock.now + LEASE, "driver")
    facts = (item.attempts, item.attempt_budget, item.delivery_failures, item.delivery_budget, item.single)
    assert facts == (0, staged.attempt_budget, 0, staged.delivery_budget, False)
    assert driver.claim() == []
    assert driver.complete(taken, payload="0") == ["acknowledged"]
    driver.turn()
    assert workflow_row(workflow_id).status == "completed"


def test_a_taken_claim_says_what_a_claimed_one_says(driver: Driver, frozen_clock: Any) -> None:
    """Field for field, but for what names the delivery."""
    driver.start(cases.sequence, 1)
    (taken,) = turned(driver, claiming(1)).claimed
    driver.start(cases.sequence, 1)
    driver.turn()
    claimed = driver.claim_one()
    names = {"row_id", "token", "workflow_id"}
    differ = [f for f in Claim.__slots__ if f not in names and getattr(taken, f) != getattr(claimed, f)]
    assert differ == []


def test_the_rest_is_pending(driver: Driver) -> None:
    """There is room for two of five: the others are for whoever comes first."""
    workflow_id = driver.start(cases.fan_out, 5)
    report = turned(driver, claiming(2))
    assert (len(report.claimed), report.staged) == (2, 5)
    assert [c.ordinal for c in report.claimed] == [1, 2]
    assert [c.ordinal for c in driver.claim()] == [3, 4, 5]
    assert history(workflow_id)[1:] == [f"activity_scheduled {n}" for n in range(1, 6)]


def test_higher_priority_first_and_own_queues_only(driver: Driver) -> None:
    """As a claim would have done it."""
    driver.start(choosy)
    assert [c.ordinal for c in turned(driver, claiming(1, queues=("default",))).claimed] == [2]
    driver.start(choosy)
    assert [c.ordinal for c in turned(driver, claiming(9, queues=("mail",))).claimed] == [3]


@pytest.mark.parametrize("definition", [hasty, fickle])
def test_what_the_same_turn_calls_off_is_not_taken(driver: Driver, definition: Any) -> None:
    """Its handler would run for nothing."""
    workflow_id = driver.start(definition)
    report = turned(driver, claiming(10))
    assert report.claimed == ()
    assert WorkItem.objects.count() == 0
    assert [r.status for r in OutboxRow.objects.filter(workflow_id=workflow_id)] in ([], ["cancelled"])


def test_room_is_reserved_only_when_there_is_something_to_take(driver: Driver) -> None:
    staged_claims = claiming(1)
    driver.start(cases.nothing)
    driver.start(cases.sleeper, 60)
    assert turned(driver, staged_claims).workflows == 2
    assert turned(driver, staged_claims) == TurnReport()
    assert staged_claims.room.reserved == 0
    driver.start(cases.sequence, 1)
    assert len(turned(driver, staged_claims).claimed) == 1
    assert staged_claims.room.reserved == 1


def test_room_that_is_withdrawn_while_the_code_runs_is_not_taken(driver: Driver) -> None:
    """Suspects have come meanwhile, or what is due again: the number is looked at when the rows are staged."""
    staged_claims = claiming(1)
    withdraw: Any = lambda _: staged_claims.room.close()  # noqa: E731
    driver.start(cases.sequence, 1)
    report = turn.turn(cache=driver.cache, queues=None, limit=50, note=withdraw, staged_claims=staged_claims)
    assert (report.staged, report.claimed) == (1, ())
    assert OutboxRow.objects.get().status == "pending"


@own_connections
def test_a_turn_that_committed_without_saying_so_finds_what_it_took(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it waits for its lease to run out, and nothing is staged, delivered or counted twice."""
    workflow_id = driver.start(cases.fan_out, 3)
    monkeypatch.setattr(own, "_FIRST_WAIT", 0)  # no waits between the tries of a transaction
    commit, lost = connection.commit, ["the connection"]

    def committed_and_lost() -> None:
        commit()
        if lost:
            raise OperationalError(f"{lost.pop()} went away")

    monkeypatch.setattr(connection, "commit", committed_and_lost)
    taken = turned(driver, claiming(10)).claimed
    assert lost == []
    assert {c.token for c in taken} == set(WorkItem.objects.values_list("lock_token", flat=True))
    assert len(taken) == OutboxRow.objects.filter(status="claimed", deliveries=1).count() == 3
    assert Event.objects.filter(workflow_id=workflow_id).count() == 4


@own_connections
def test_a_turn_whose_every_try_was_lost_is_found_by_the_next(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store goes away with the commit, for longer than the tries last."""
    driver.start(cases.fan_out, 3)
    monkeypatch.setattr(own, "_FIRST_WAIT", 0)
    staged_claims = claiming(10)
    commit = connection.commit

    def committed_and_lost() -> None:
        commit()
        away.setattr(connection, "cursor", unreachable)
        raise OperationalError("the connection went away")

    def unreachable() -> None:
        raise OperationalError("no connection")

    with pytest.MonkeyPatch.context() as away:
        away.setattr(connection, "commit", committed_and_lost)
        with pytest.raises(OperationalError):
            turned(driver, staged_claims)
    assert len(turned(driver, staged_claims).claimed) == 3
    assert turned(driver, staged_claims).claimed == ()


def test_a_turn_that_was_undone_has_taken_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows, items and events went together; the next turn takes them under another name or its own."""
    workflow_id = driver.start(cases.sequence, 1)
    staged_claims = claiming(1)

    def broken(*args: Any) -> None:
        raise OperationalError("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("durable.store.deliveries.together.record", broken)
        with pytest.raises(OperationalError):
            turned(driver, staged_claims)
    assert (OutboxRow.objects.count(), WorkItem.objects.count()) == (0, 0)
    (taken,) = turned(driver, staged_claims).claimed
    assert taken.row_id == row(workflow_id).id


@pytest.mark.parametrize("number", [1, 20])
def test_taking_is_a_constant_number_of_statements(driver: Driver, number: int) -> None:
    """One insert of both on PostgreSQL, one more for the items on SQLite."""
    for _ in range(number):
        driver.start(cases.fan_out, 3)
    with CaptureQueriesContext(connection) as captured:
        assert len(turned(driver, claiming(1000)).claimed) == 3 * number
    counted = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE"))]
    assert len(counted) == {"postgresql": 8, "sqlite": 11}[connection.vendor], "\n".join(counted)
