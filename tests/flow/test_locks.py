"""One lock order: verbs that meet on one workflow wait for each other, and no deadlock reaches a caller."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from durable.errors import WorkflowClosed
from durable.flow.caller import cancel, signal
from durable.flow.delivery import abandon, acknowledge
from durable.flow.operator import terminate
from durable.flow.upkeep import reconcile
from durable.models import Event, OutboxRow, Workflow, WorkItem
from durable.outcomes import AckOutcome, Cause, Claim, Completed
from tests.flow import cases
from tests.flow.driver import Driver, failed
from tests.flow.state import expire
from tests.rounds import AT_LAST, rounds
from tests.waiting import Barrier

pytestmark = pytest.mark.django_db(transaction=True)

CLOSING = ("workflow_completed", "workflow_failed", "workflow_cancelled", "workflow_timed_out")


@dataclass
class Arena:
    """One workflow a round, five activities of it out, and five parties that set upon it at the same moment."""

    begin: Barrier
    over: Barrier
    workflow_id: uuid.UUID = field(default_factory=uuid.uuid4)
    claims: list[Claim] = field(default_factory=list)
    finished: threading.Event = field(default_factory=threading.Event)

    def party(self, act: Callable[[Arena], object]) -> int:
        """Act once a round until the rounds are over; whatever a verb raises that is no answer fails the test."""
        acted = 0
        while True:
            self.begin.wait()
            if self.finished.is_set():
                return acted
            try:
                act(self)
                acted += 1
            except WorkflowClosed:
                acted += 1
            finally:
                self.over.wait()


def _complete(arena: Arena) -> None:
    acknowledge.acknowledge([Completed(c, "1") for c in arena.claims[:3]])


def _fail(arena: Arena) -> None:
    acknowledge.acknowledge([failed(c) for c in reversed(arena.claims[1:4])])


def _reconcile(arena: Arena) -> None:
    reconcile.reconcile()


def _cancel_and_turn(arena: Arena) -> None:
    cancel.cancel(arena.workflow_id)
    Driver(cached=0).turn()


def _signal_and_terminate(arena: Arena) -> None:
    signal.signal(arena.workflow_id, "go", payload="1")
    terminate.terminate(arena.workflow_id, reason="enough")


@pytest.mark.races
def test_five_connections_on_one_workflow_never_see_a_deadlock(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Faults D1, D3: cancel, complete, fail, take up, signal and terminate, all at once. What ended, ended once."""
    acts = [_complete, _fail, _reconcile, _cancel_and_turn, _signal_and_terminate]
    arena = Arena(barrier(len(acts) + 1), barrier(len(acts) + 1))
    parties = [second_connection(arena.party, act) for act in acts]
    ids = []
    times = rounds(150, asked=1000)
    for _ in range(times):
        arena.workflow_id = driver.start(cases.fan_out, 5)
        driver.turn()
        arena.claims = [c for c in driver.claim() if c.workflow_id == arena.workflow_id]
        expire(*arena.claims[2:])
        arena.begin.wait()
        arena.over.wait()
        ids.append(arena.workflow_id)
    arena.finished.set()
    arena.begin.wait()
    assert [party.result(AT_LAST) for party in parties] == [times] * len(acts)
    assert set(Workflow.objects.values_list("status", flat=True)) <= {"completed", "failed", "cancelled"}
    endings = Event.objects.filter(type__in=CLOSING).values_list("workflow_id", flat=True)
    assert sorted(endings) == sorted(ids)
    assert not WorkItem.objects.exists()
    assert not OutboxRow.objects.filter(status__in=["pending", "claimed", "dead"]).exists()


@pytest.mark.races
@pytest.mark.parametrize("kind", ["single", "of a workflow"])
def test_dead_letters_racing_terminations_are_never_delivered_behind_the_end(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier], kind: str
) -> None:
    """Specification B9.14: no deadlock, and no row is `dead` and delivered under a workflow that had ended before."""
    times, begin, over = rounds(60, asked=500), barrier(2), barrier(2)
    claims: list[Claim] = []

    def terminate_each() -> int:
        ended, refusals = 0, []
        for _ in range(times):
            begin.wait()
            try:
                terminate.terminate(claims[-1].workflow_id, reason="enough")
                ended += 1
            except WorkflowClosed as refused:
                refusals.append(refused.status)
            over.wait()
        assert set(refusals) <= {"failed"}
        return ended

    other = second_connection(terminate_each)
    for at in range(times):
        workflow_id = driver.enqueue(cases.step, at) if kind == "single" else driver.start(cases.sequence, 1)
        driver.turn()
        OutboxRow.objects.filter(workflow_id=workflow_id).update(
            delivery_budget=1, options={"on_dead_letter": "deliver"}
        )
        claims.append(driver.claim_one())
        begin.wait()
        if at % 2:
            WorkItem.objects.filter(outbox_row_id=claims[-1].row_id).update(locked_until=claims[-1].created_at)
            reconcile.reconcile()
        else:
            abandon.abandon(claims[-1], cause=Cause.ACK_ABANDONED)
        over.wait()
    ended = other.result(AT_LAST)
    assert Workflow.objects.filter(status="cancelled").count() == ended
    assert Workflow.objects.filter(status="failed").count() == times - ended
    assert not OutboxRow.objects.filter(status="dead").exists()
    # What was delivered was delivered to a live workflow: it failed of it, or what it left unread was removed with it.
    delivered = OutboxRow.objects.filter(failure_delivered=True, workflow__status="failed").count()
    assert delivered == times - ended


def test_completions_of_one_workflow_from_two_connections_lose_none(
    driver: Driver, second_connection: Callable[..., Future[Any]], barrier: Callable[[int], Barrier]
) -> None:
    """Acknowledgements of neighbours, and the turns that read them, at once."""
    meet = barrier(2)
    workflow_id = driver.start(cases.fan_out, 60)
    driver.turn()
    claims = driver.claim(limit=60)

    def complete_half() -> list[AckOutcome]:
        meet.wait()
        return [outcome for c in claims[:30] for outcome in driver.complete(c, payload="1")]

    other = second_connection(complete_half)
    meet.wait()
    hands = Driver(name="turns")
    for c in claims[30:]:
        driver.complete(c, payload="1")
        hands.turn()
    assert set(other.result(60)) == {AckOutcome.ACKNOWLEDGED}
    hands.run()
    assert Workflow.objects.get(id=workflow_id).result == "60"
