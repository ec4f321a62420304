"""Dead letters to operate on: built by hand, row by row, or died as they do in life."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from durable.flow.delivery import abandon
from durable.models import OutboxRow, Workflow
from durable.outcomes import Cause, Claim, GiveBack
from tests import factories
from tests.flow import cases
from tests.flow.driver import Driver
from tests.flow.state import make_due

BEGINNINGS = ("workflow_started", "workflow_reopened")
TERMINAL = ("completed", "failed", "cancelled", "timed_out")


def history(*facts: str, status: str = "running") -> Workflow:
    """A workflow whose history is `workflow_started` and then these facts: a type, or a type and an ordinal."""
    everything = ["workflow_started", *facts]
    begins = [seq for seq, fact in enumerate(everything, start=1) if fact in BEGINNINGS]
    workflow = factories.WorkflowFactory(
        status=status, type=cases.sequence.name, run=len(begins), run_seq=begins[-1], last_seq=len(everything)
    )
    for seq, fact in enumerate(everything, start=1):
        kind, _, ordinal = fact.partition(" ")
        factories.EventFactory(workflow=workflow, seq=seq, type=kind, ordinal=int(ordinal) if ordinal else None)
    return workflow


def dead(workflow: Workflow, ordinal: int = 1, **values: Any) -> OutboxRow:
    """A dead letter of the workflow's current run, held unless `failure_delivered` says otherwise."""
    given = {
        "run": workflow.run,
        "activity": cases.step.name,
        "input": '{"n":1}',
        "status": "dead",
        "cause": Cause.WORKER_DIED.value,
        "deliveries": 8,
        "delivery_failures": 8,
    }
    return factories.OutboxRowFactory(workflow=workflow, ordinal=ordinal, **{**given, **values})


def alive(workflow: Workflow, ordinal: int = 1, **values: Any) -> OutboxRow:
    """A row of the workflow's current run that is no dead letter."""
    return dead(workflow, ordinal, dead_lettered_at=None, **{"status": "pending", "cause": "", **values})


def die(driver: Driver, workflow_id: uuid.UUID, *, cause: Cause = Cause.ACK_ABANDONED, ordinal: int = 1) -> OutboxRow:
    """Let the workflow's activity spend its whole delivery budget."""
    row = OutboxRow.objects.get(workflow_id=workflow_id, ordinal=ordinal)
    while True:
        (claim,) = [c for c in driver.claim(limit=1) if c.row_id == row.pk]
        if abandon.abandon(claim, cause=cause, delay=timedelta()) is GiveBack.DEAD_LETTERED:
            return OutboxRow.objects.get(pk=row.pk)
        make_due(row.pk)


def bury(claim: Claim, *, cause: Cause = Cause.ACK_ABANDONED) -> OutboxRow:
    """Let this delivery be the last of the budget, and fail."""
    spent = claim.delivery_budget - 1
    OutboxRow.objects.filter(pk=claim.row_id).update(delivery_failures=spent)
    assert abandon.abandon(replace(claim, delivery_failures=spent), cause=cause) is GiveBack.DEAD_LETTERED
    return OutboxRow.objects.get(pk=claim.row_id)


def stranded(
    driver: Driver, definition: Any = cases.sequence, *args: Any, **values: Any
) -> tuple[uuid.UUID, OutboxRow]:
    """A workflow that waits for its first activity, which is a dead letter: (its id, the row)."""
    workflow_id = driver.start(definition, *(args or (1,)), **values)
    driver.turn()
    return workflow_id, die(driver, workflow_id)


@contextmanager
def statements() -> Iterator[Callable[[], list[str]]]:
    """The statements that this thread's connection runs in the block, in small letters."""
    with CaptureQueriesContext(connection) as captured:
        yield lambda: [query["sql"].lower() for query in captured.captured_queries]


def touching(said: list[str], table: str) -> list[str]:
    """Those of the statements that name a table."""
    return [sql for sql in said if table in sql]
