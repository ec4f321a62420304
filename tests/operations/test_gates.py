"""The gates over the whole table of states: what the preview says of each is what the redrive of it then does."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection

from durable.errors import RedriveRefused
from durable.flow.looks.selecting import Place
from durable.flow.operator.redrive import REDRIVABLE, verdicts
from durable.models import OutboxRow, Workflow
from durable.operations import RedriveMode, Redriven, redrive_many
from tests.operations.scenes import TERMINAL, alive, dead, history

pytestmark = pytest.mark.django_db

BROKEN = '{"retry": {"max_attempts": "many"}}'
ROWS = ("none", "pending", "claimed", "done", "cancelled", "dead", "dead and told")
OUTCOMES = ((), ("activity_completed 1",), ("activity_failed 1",), ("activity_cancelled 1",))


@dataclass(frozen=True)
class State:
    """One line of the table."""

    status: str
    run: str
    outcome: tuple[str, ...]
    row: str
    options: str

    def place(self) -> Place:
        """Make it so; returns where it is."""
        facts = ["activity_scheduled 1", *self.outcome]
        if self.run != "first":
            facts = [*facts, "workflow_failed", "workflow_reopened", *facts]
        workflow = history(*facts, status=self.status)
        if self.row != "none":
            self._row(workflow)
        meant = {"first": None, "current": workflow.run, "earlier": workflow.run - 1}[self.run]
        return Place(workflow.pk, 1, meant)

    def _row(self, workflow: Workflow) -> None:
        if self.row.startswith("dead"):
            row = dead(workflow, failure_delivered=self.row == "dead and told")
        else:
            row = alive(workflow, status=self.row)
        if self.options:
            with connection.cursor() as cursor:
                cursor.execute("UPDATE durable_outboxrow SET options = %s WHERE id = %s", [self.options, row.pk])


def table() -> Iterator[State]:
    """Every combination of what the gates look at; of the terminal statuses, each with one outcome and row."""
    live = itertools.product(("running", "paused"), ("first", "current", "earlier"), OUTCOMES, ROWS, ("", BROKEN))
    ended = itertools.product(TERMINAL, ("first", "earlier"), OUTCOMES[:2], ("none", "dead"), ("", BROKEN))
    return (State(*line) for line in itertools.chain(live, ended))


def expected(state: State, mode: RedriveMode) -> str:
    """Specification B2, line by line."""
    forced = mode is RedriveMode.FORCED
    lines = [
        (state.status in TERMINAL, "workflow_terminal"),
        (state.run == "earlier", "row_not_found"),
        (bool(state.outcome) and not forced, "history_records_outcome"),
        (state.row == "none", "row_not_found"),
        (not state.row.startswith("dead"), "not_dead_lettered"),
        (state.row == "dead and told" and not forced, "already_judged"),
        (state.options == BROKEN, "row_unreadable"),
    ]
    return next((code for refused, code in lines if refused), REDRIVABLE)


def code(outcome: Redriven | RedriveRefused) -> str:
    """An outcome as the preview says it."""
    return REDRIVABLE if isinstance(outcome, Redriven) else outcome.code


@pytest.mark.parametrize("mode", RedriveMode)
def test_the_preview_says_of_every_state_what_the_redrive_of_it_does(mode: RedriveMode) -> None:
    """Faults A8. The preview reads the facts of many rows in one statement, the redrive one by one under its locks."""
    states = list(table())
    places = [state.place() for state in states]
    said = verdicts(places, mode=mode)
    done = [code(outcome) for outcome in redrive_many(places, mode=mode, reason="because")]
    assert {*done} >= {REDRIVABLE, "workflow_terminal", "row_not_found", "not_dead_lettered", "row_unreadable"}
    apart = [
        (state, preview, outcome)
        for state, preview, outcome in zip(states, said, done, strict=True)
        if not preview == outcome == expected(state, mode)
    ]
    assert apart == []


@pytest.mark.parametrize("mode", RedriveMode)
def test_what_is_not_there_is_refused_alike(mode: RedriveMode) -> None:
    """No workflow, and ordinals that no column holds."""
    live, ended = history(), history(status="failed")
    places: list[Any] = [
        (uuid.uuid4(), 1),
        *((live.pk, ordinal) for ordinal in (0, -1, 2, 2**31 - 1, 2**31, 2**70)),
        *((ended.pk, ordinal) for ordinal in (0, 2**70)),
    ]
    said = verdicts(places, mode=mode)
    assert said == ["row_not_found"] * 7 + ["workflow_terminal"] * 2
    assert said == [code(outcome) for outcome in redrive_many(places, mode=mode, reason="because")]


def test_a_row_that_cannot_be_read_is_counted_as_such_and_hides_no_other() -> None:
    rows = [dead(history()) for _ in range(3)]
    with connection.cursor() as cursor:
        cursor.execute("UPDATE durable_outboxrow SET options = %s WHERE id = %s", [BROKEN, rows[1].pk])
    meant = list(OutboxRow.objects.defer("options").order_by("id"))
    assert verdicts(meant) == [REDRIVABLE, "row_unreadable", REDRIVABLE]
