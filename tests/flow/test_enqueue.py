"""Single activities: each its own small workflow that needs no turn."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from durable.flow.caller import enqueue
from durable.models import Event, Message, OutboxRow, Workflow
from durable.outcomes import KeyHeld, Started
from durable.store.runs.starts import NewActivity
from tests.flow import cases
from tests.flow.driver import Driver, history, row, workflow
from tests.flow.state import everything, undone
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


def new(key: str | None = None, **values: Any) -> NewActivity:
    return enqueue.new_activity(
        id=uuid.uuid4(),
        activity="cases.step",
        payload='{"n":1}',
        key=key,
        attempt_budget=5,
        delivery_budget=8,
        **values,
    )


def enqueue_one(key: str | None = None) -> Started | KeyHeld:
    (answer,) = enqueue.enqueue([new(key)])
    return answer


def test_an_enqueue_writes_a_workflow_its_event_and_a_row_that_is_claimable(driver: Driver) -> None:
    """No message: there is nothing to turn."""
    one = new("order-1", queue="slow", priority=3, options={"on_dead_letter": "deliver"})
    assert enqueue.enqueue([one]) == [Started(one.id)]
    owner, staged = workflow(one.id), row(one.id)
    assert (owner.single, owner.type, owner.key, owner.queue, owner.status) == (
        True,
        "cases.step",
        "order-1",
        "slow",
        "running",
    )
    assert (staged.run, staged.ordinal, staged.activity, staged.input) == (1, 1, "cases.step", '{"n":1}')
    assert (staged.status, staged.queue, staged.priority) == ("pending", "slow", 3)
    assert (staged.attempt_budget, staged.delivery_budget, staged.deliveries, staged.attempts) == (5, 8, 0, 0)
    assert staged.options == {"on_dead_letter": "deliver"}
    assert not Message.objects.exists()
    assert driver.turn().workflows == 0
    assert driver.claim_one().single is True


def test_the_acknowledgement_of_a_single_activity_ends_its_workflow(driver: Driver) -> None:
    """Start, claim, ack: no turn between them."""
    workflow_id = driver.enqueue(cases.step, 7)
    driver.complete(driver.claim_one(), payload="7")
    assert history(workflow_id) == ["workflow_started", "workflow_completed"]
    assert (workflow(workflow_id).status, workflow(workflow_id).result) == ("completed", "7")


def test_an_enqueue_for_later_is_not_claimable_before(driver: Driver, frozen_clock: Any) -> None:
    """`start_at` is the row's moment."""
    driver.enqueue(cases.step, 1, start_at=frozen_clock.now + timedelta(hours=1))
    assert driver.claim() == []
    frozen_clock.move(timedelta(hours=1))
    assert len(driver.claim()) == 1


def test_a_held_key_is_refused_with_the_holders_id_and_writes_nothing() -> None:
    """As for workflows."""
    first = enqueue_one("order-1")
    assert isinstance(first, Started)
    before = everything()
    assert enqueue_one("order-1") == KeyHeld("order-1", first.workflow_id)
    assert everything() == before


@pytest.mark.parametrize("number", [1, 500])
def test_a_bulk_enqueue_is_one_statement_or_one_per_table(number: int) -> None:
    """Whatever the number."""
    many = [new(f"key-{at:03}") for at in range(number)]
    with CaptureQueriesContext(connection) as captured:
        answers = enqueue.enqueue(many)
    assert answers == [Started(one.id) for one in many]
    statements = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE"))]
    assert len(statements) == {"postgresql": 1, "sqlite": 3}[connection.vendor]
    assert Workflow.objects.count() == Event.objects.count() == OutboxRow.objects.count() == number


@own_connections
def test_a_rollback_takes_it_with_it(driver: Driver) -> None:
    """Faults J3: nothing is claimable that its caller undid."""
    with undone():
        enqueue_one("order-1")
    assert driver.claim() == []
    assert not Workflow.objects.exists()


@own_connections
def test_two_connections_that_race_for_one_key_make_one_row(
    second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """The loser is told the winner's id."""
    meet = barrier(2)

    def race() -> list[Started | KeyHeld]:
        answers = []
        for at in range(10):
            meet.wait()
            answers.append(enqueue_one(f"order-{at}"))
        return answers

    other = second_connection(race)
    for mine, theirs in zip(race(), other.result(60), strict=True):
        winner, loser = (mine, theirs) if isinstance(mine, Started) else (theirs, mine)
        assert isinstance(winner, Started)
        assert isinstance(loser, KeyHeld)
        assert loser.holder == winner.workflow_id
    assert OutboxRow.objects.count() == 10
