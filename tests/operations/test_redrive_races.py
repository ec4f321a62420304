"""Redrive against everything that could happen between its look and its write, from two connections.

Specification B4.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import durable
from durable.decorators.workflows import workflow
from durable.errors import HistoryRecordsOutcome, NotDeadLettered, WorkflowTerminal
from durable.flow.caller import signal
from durable.flow.delivery import abandon
from durable.flow.upkeep import reconcile
from durable.models import Event, Message, OutboxRow, StaffAction, Workflow, WorkItem
from durable.operations import RedriveMode, Redriven, discard, pause, redrive, terminate
from durable.outcomes import Cause, Claim
from tests.flow import driver as flow
from tests.flow.driver import Driver
from tests.flow.state import expire, only_postgresql
from tests.operations import cases
from tests.operations.meeting import Halted, waiting
from tests.operations.scenes import dead, history, stranded
from tests.waiting import PATIENCE, Barrier, in_thread

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = int(os.environ.get("DURABLE_TEST_ROUNDS", "500"))
"""In all, over the four ways of specification B9.14, which asks for 500."""


def in_turn(*, driver: Driver) -> int:
    """One turn in another thread: how many workflows it turned."""
    return driver.turn().workflows


def test_of_two_redrives_at_once_one_moves_the_row_and_the_other_waits_and_is_refused() -> None:
    """Specification B9.10, faults A12."""
    row = dead(history("activity_scheduled 1"))
    first = Halted("INSERT INTO durable_staffaction", redrive, row.workflow_id, 1)
    second = waiting(redrive, row.workflow_id, 1)
    assert isinstance(first.go_on(), Redriven)
    with pytest.raises(NotDeadLettered) as caught:
        second.result(PATIENCE)
    assert caught.value.status == "pending"
    assert OutboxRow.objects.get().redrive_count == StaffAction.objects.count() == 1
    assert flow.history(row.workflow_id)[-1] == "activity_redriven 1"


def test_two_forced_redrives_at_once_move_the_row_once_too() -> None:
    row = dead(history("activity_scheduled 1", "activity_failed 1"), failure_delivered=True)
    forced = partial(redrive, row.workflow_id, 1, mode=RedriveMode.FORCED, reason="because")
    first = Halted("INSERT INTO durable_staffaction", forced)
    second = waiting(forced)
    first.go_on()
    assert isinstance(second.exception(PATIENCE), NotDeadLettered)
    assert OutboxRow.objects.get().redrive_count == 1


def test_many_times_over_two_redrives_that_start_together_move_the_row_once() -> None:
    """Specification B9.10, without a script for who comes first."""
    rows = [dead(history("activity_scheduled 1")) for _ in range(20)]
    start = Barrier(2)

    def operate() -> Counter[str]:
        said: Counter[str] = Counter()
        for row in rows:
            start.wait()
            try:
                redrive(row.workflow_id, 1)
                said["moved"] += 1
            except NotDeadLettered:
                said["refused"] += 1
        return said

    both = [in_thread(operate) for _ in range(2)]
    assert sum((one.result(PATIENCE) for one in both), Counter()) == Counter(moved=20, refused=20)
    assert set(OutboxRow.objects.values_list("status", "redrive_count")) == {("pending", 1)}


def test_a_redrive_that_comes_while_the_workflow_is_being_terminated_waits_and_is_refused() -> None:
    """Specification B9.11, first race: the workflow turns terminal between the look and the write."""
    driver = Driver()
    workflow_id, _ = stranded(driver)
    ending = Halted("INSERT INTO durable_event", terminate, workflow_id, reason="enough")
    late = waiting(redrive, workflow_id, 1, mode=RedriveMode.FORCED, reason="because")
    ending.go_on()
    refusal = late.exception(PATIENCE)
    assert isinstance(refusal, WorkflowTerminal)
    assert refusal.status == "cancelled"
    assert (flow.row(workflow_id).status, StaffAction.objects.get().verb) == ("cancelled", "terminate")
    assert driver.claim() == []


def test_terminating_a_workflow_that_is_being_redriven_waits_and_settles_the_row() -> None:
    """Specification B9.11, first race, the other way round: no zombie is left."""
    driver = Driver()
    workflow_id, _ = stranded(driver)
    first = Halted("INSERT INTO durable_staffaction", redrive, workflow_id, 1)
    second = waiting(terminate, workflow_id, reason="enough")
    first.go_on()
    second.result(PATIENCE)
    assert flow.history(workflow_id)[-2:] == ["activity_redriven 1", "workflow_cancelled"]
    assert flow.row(workflow_id).status == "cancelled"
    assert driver.claim() == []


@pytest.mark.parametrize("mode", [RedriveMode.ELIGIBLE, RedriveMode.FORCED])
def test_a_redrive_that_comes_while_an_outcome_is_being_recorded_waits_for_it(
    mode: RedriveMode, frozen_clock: Any
) -> None:
    """Specification B9.11, second race: the workflow gives up on the activity between the look and the write."""
    driver = Driver()
    workflow_id, _ = stranded(driver, cases.impatient, 60)
    frozen_clock.move(timedelta(seconds=61))
    turning = Halted("INSERT INTO durable_event", in_turn, driver=driver)
    late = waiting(redrive, workflow_id, 1, mode=mode, reason="because")
    assert turning.go_on() == 1
    if mode is RedriveMode.ELIGIBLE:
        assert isinstance(late.exception(PATIENCE), HistoryRecordsOutcome)
        assert flow.row(workflow_id).status == "dead"
    else:
        assert late.result(PATIENCE).was_judged is True
        assert flow.row(workflow_id).status == "pending"
    assert flow.row(workflow_id).failure_delivered is True


def test_a_turn_leaves_a_workflow_alone_that_is_being_redriven_and_settles_the_row_afterwards(
    frozen_clock: Any,
) -> None:
    """Specification B9.11, second race, the other way round: the outcome is recorded behind the redrive, and closes the
    row.
    """
    driver = Driver()
    workflow_id, _ = stranded(driver, cases.impatient, 60)
    frozen_clock.move(timedelta(seconds=61))
    first = Halted("INSERT INTO durable_staffaction", redrive, workflow_id, 1)
    turning = in_thread(in_turn, driver=driver)
    if only_postgresql():
        assert turning.result(PATIENCE) == 0
    first.go_on()
    turning.result(PATIENCE)
    driver.turn()
    assert "activity_redriven 1" in flow.history(workflow_id)
    assert flow.history(workflow_id)[-2:] == ["activity_cancelled 1", "activity_scheduled 2"]
    assert flow.row(workflow_id).status == "cancelled"


def test_a_discard_and_a_redrive_at_once_end_in_one_of_them() -> None:
    driver = Driver()
    workflow_id, _ = stranded(driver, cases.cautious)
    first = Halted("INSERT INTO durable_staffaction", discard, workflow_id, 1, reason="lost")
    second = waiting(redrive, workflow_id, 1)
    first.go_on()
    refusal = second.exception(PATIENCE)
    assert isinstance(refusal, NotDeadLettered)
    assert refusal.status == "cancelled"
    assert StaffAction.objects.count() == 1


def test_a_pause_that_comes_while_a_row_is_being_redriven_marks_it() -> None:
    driver = Driver()
    workflow_id, _ = stranded(driver)
    first = Halted("INSERT INTO durable_staffaction", redrive, workflow_id, 1)
    second = waiting(pause, workflow_id)
    first.go_on()
    second.result(PATIENCE)
    assert (flow.row(workflow_id).status, flow.row(workflow_id).paused) == ("pending", True)
    assert driver.claim() == []


@workflow(name="operated.hasty")
async def hasty(n: int) -> str:
    """Leaves its activity behind at the first signal."""
    left = cases.told.execute(n) if n % 2 else cases.tidy.execute(n)
    await durable.wait_for_signal("go")
    return f"went without {type(left).__name__}"


def by_abandoning(claim: Claim) -> None:
    abandon.abandon(claim, cause=Cause.ACK_ABANDONED)


def by_reconciling(claim: Claim) -> None:
    reconcile.reconcile()


def by_terminating(workflow_id: uuid.UUID) -> None:
    terminate(workflow_id, reason="enough")


def by_completing(workflow_id: uuid.UUID, *, driver: Driver) -> None:
    signal.signal(workflow_id, "go", payload="null")
    for _ in range(1000):
        driver.turn()
        if Workflow.objects.get(pk=workflow_id).closed_at is not None:
            return
    raise AssertionError(f"Workflow {workflow_id} was never turned to its end.")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dying", [by_abandoning, by_reconciling])
@pytest.mark.parametrize("ending", ["terminate", "complete"])
def test_ending_a_workflow_against_dead_lettering_its_activity_many_times(
    ending: str, dying: Callable[[Claim], None], settings: Any
) -> None:
    """Specification B9.14: no deadlock reaches anyone, and no row is failed and delivered under a workflow that had
    ended.
    """
    settings.DURABLE = {"DELIVERY_ATTEMPTS": 1}
    rounds = max(1, ROUNDS // 4)
    driver = Driver()
    ids = [driver.start(hasty, n) for n in range(rounds)]
    driver.turn(limit=rounds)
    while driver.turn(limit=rounds).workflows:
        pass
    claims = {c.workflow_id: c for c in driver.claim(limit=rounds, lease_for=timedelta(days=1))}
    assert len(claims) == rounds
    start = Barrier(2)

    def kill() -> None:
        for workflow_id in ids:
            if dying is by_reconciling:
                expire(claims[workflow_id])
            start.wait()
            dying(claims[workflow_id])

    def end() -> None:
        mine = Driver()
        for workflow_id in ids:
            start.wait()
            if ending == "terminate":
                by_terminating(workflow_id)
            else:
                by_completing(workflow_id, driver=mine)

    both: list[Future[None]] = [in_thread(kill), in_thread(end)]
    for one in both:
        one.result(PATIENCE * 10)
    _nothing_is_left(ids, ending)


def _nothing_is_left(ids: list[uuid.UUID], ending: str) -> None:
    ended = {"terminate": "cancelled", "complete": "completed"}[ending]
    assert set(Workflow.objects.values_list("status", flat=True)) == {ended}
    rows = list(OutboxRow.objects.all())
    assert len(rows) == len(ids)
    assert {row.status for row in rows} == {"cancelled"}
    for row in rows:
        # Which of the two came first is not for their moments to say: each is that of the beginning of a statement.
        assert row.failure_delivered in (False, row.dead_lettered_at is not None)
    assert (WorkItem.objects.count(), Message.objects.count()) == (0, 0)
    closing = Event.objects.filter(type=f"workflow_{ended}").values_list("workflow_id", flat=True)
    assert sorted(closing) == sorted(ids)
