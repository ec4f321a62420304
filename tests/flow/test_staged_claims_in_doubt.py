"""What turns have taken when a try went wrong, and what taken claims carry."""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

import durable
from durable.decorators.workflows import workflow
from durable.flow.transactions import transaction as own
from durable.flow.turns import turn
from durable.flow.turns.room import Room
from durable.flow.turns.staged_claims import StagedClaims
from durable.models import OutboxRow, WorkItem
from durable.outcomes import Claim, TurnReport
from tests.flow import cases
from tests.flow.driver import LEASE, Driver, row

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


class Level(int, enum.Enum):
    """Whole numbers whose text is their name."""

    HIGH = 7


@workflow(name="cases.particular")
async def particular() -> None:
    called = cases.step.options(
        priority=Level.HIGH,
        start_to_close=timedelta(seconds=1.5),
        retry=durable.Retry(max_attempts=3, no_retry=(KeyError,)),
        on_exhausted="hold",
    )
    await called.execute(1)


def claiming(room: int) -> StagedClaims:
    offered = Room()
    offered.open(room)
    return StagedClaims(worker="driver", queues=None, lease_for=LEASE, room=offered)


def turned(driver: Driver, staged_claims: StagedClaims) -> TurnReport:
    return turn.turn(cache=driver.cache, queues=None, limit=50, note=driver.noted.append, staged_claims=staged_claims)


def test_a_taken_claim_carries_the_options_that_the_row_carries(driver: Driver, frozen_clock: Any) -> None:
    """Field for field, and as it comes out of the database."""
    driver.start(particular)
    (taken,) = turned(driver, claiming(1)).claimed
    driver.start(particular)
    driver.turn()
    claimed = driver.claim_one()
    names = {"row_id", "token", "workflow_id"}
    assert [f for f in Claim.__slots__ if f not in names and getattr(taken, f) != getattr(claimed, f)] == []
    assert claimed.options["retry"]["max_attempts"] == 3


@pytest.mark.parametrize("room", [0, 1])
def test_a_priority_may_be_of_an_enumeration(driver: Driver, room: int) -> None:
    """Its number counts, not its text: that one would end every batch of turns it is in."""
    workflow_id = driver.start(particular)
    assert turned(driver, claiming(room)).staged == 1
    assert row(workflow_id).priority == 7


def test_an_error_before_the_commit_leaves_no_doubt(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a turn that fails again and again keeps no room from the claims."""
    driver.start(cases.fan_out, 3)
    staged_claims = claiming(10)

    def broken(*args: Any) -> None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr("durable.store.deliveries.together.record", broken)
    with pytest.raises(OperationalError):
        turned(driver, staged_claims)
    assert not staged_claims.in_doubt


@own_connections
def test_an_error_behind_the_commit_loses_nothing_that_was_taken(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong before the answer is given: the next call has it, and only that one."""
    driver.start(cases.fan_out, 3)
    staged_claims = claiming(10)

    def broken(*args: Any) -> None:
        raise RuntimeError("a fault of ours")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turn, "_keep", broken)  # the moment after the commit, before it is kept in memory
        with pytest.raises(RuntimeError):
            turned(driver, staged_claims)
    assert staged_claims.in_doubt
    assert OutboxRow.objects.filter(status="claimed").count() == WorkItem.objects.count() == 3
    assert {claim.row_id for claim in turned(driver, staged_claims).claimed} == set(
        OutboxRow.objects.values_list("id", flat=True)
    )
    assert not staged_claims.in_doubt
    assert turned(driver, staged_claims) == TurnReport()


@own_connections
def test_what_was_undone_at_the_commit_is_taken_by_the_next_try(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In doubt like one that went through, and found not to have been."""
    driver.start(cases.fan_out, 3)
    monkeypatch.setattr(own, "_FIRST_WAIT", 0)  # no waits between the tries of a transaction
    commit, refused = connection.commit, ["the connection"]

    def undone() -> None:
        if refused:
            connection.rollback()
            raise OperationalError(f"{refused.pop()} went away")
        commit()

    monkeypatch.setattr(connection, "commit", undone)
    assert len(turned(driver, claiming(10)).claimed) == 3
    assert refused == []
    assert OutboxRow.objects.filter(status="claimed", deliveries=1).count() == WorkItem.objects.count() == 3
