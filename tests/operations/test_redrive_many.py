"""Bulk redrive: which ones are meant, one outcome for each, when they come due, and what stops it.

Specification B5.
"""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.db import connection

from durable.errors import (
    AlreadyJudged,
    HistoryRecordsOutcome,
    NotDeadLettered,
    OptionInvalid,
    RowNotFound,
    RowUnreadable,
    StoreUnavailable,
    WorkflowTerminal,
)
from durable.flow.transactions import transaction
from durable.models import OutboxRow, StaffAction
from durable.operations import DeadLetterFilter, Discarded, RedriveMode, Redriven, discard_many, redrive, redrive_many
from durable.outcomes import Cause
from tests import factories
from tests.flow.driver import Driver, row
from tests.flow.state import everything, locked_elsewhere, only_postgresql
from tests.operations.faults import Fault, Moment, commits, fail, failing
from tests.operations.many import held, one_of_each
from tests.operations.scenes import alive, bury, dead, history

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)


OUTCOMES = [Redriven, WorkflowTerminal, HistoryRecordsOutcome, RowNotFound, NotDeadLettered, AlreadyJudged]


def test_every_row_has_its_outcome_in_the_order_given_refusals_included() -> None:
    """Specification B3, faults A7, A8."""
    outcomes = redrive_many(one_of_each())
    assert [type(outcome) for outcome in outcomes] == OUTCOMES
    assert Counter(OutboxRow.objects.values_list("redrive_count", flat=True)) == {0: 5, 1: 1}
    assert StaffAction.objects.count() == 1


def test_forced_in_bulk_passes_what_a_forced_one_passes() -> None:
    outcomes = redrive_many(one_of_each(), mode=RedriveMode.FORCED, reason="because")
    assert [type(outcome) for outcome in outcomes] == [
        Redriven, WorkflowTerminal, Redriven, RowNotFound, NotDeadLettered, Redriven,
    ]  # fmt: skip
    assert [outcome.was_judged for outcome in outcomes if isinstance(outcome, Redriven)] == [False, True, True]


def test_pairs_of_id_and_ordinal_mean_the_current_run() -> None:
    workflow = history("activity_scheduled 1", "workflow_reopened", "activity_scheduled 1")
    dead(workflow, run=1, status="cancelled")
    current = dead(workflow)
    unknown = uuid.uuid4()
    first, second, third = redrive_many([(workflow.pk, 1), (unknown, 7), (workflow.pk, 2**40)])
    assert isinstance(first, Redriven)
    assert first.row.pk == current.pk
    assert isinstance(second, RowNotFound)
    assert (second.workflow_id, second.ordinal) == (unknown, 7)
    assert isinstance(third, RowNotFound)


def test_ids_may_be_text_and_an_id_that_is_none_stops_the_whole_before_the_first_change() -> None:
    row = held()
    before = everything()
    with pytest.raises(ValueError, match="badly formed"):
        redrive_many([(row.workflow_id, 1), ("nonsense", 1)])  # type: ignore[list-item]
    assert everything() == before
    (done,) = redrive_many([(str(row.workflow_id), 1)])  # type: ignore[list-item]
    assert isinstance(done, Redriven)


def test_a_row_that_is_given_twice_moves_once() -> None:
    row = held()
    assert [type(outcome) for outcome in redrive_many([row, (row.workflow_id, 1)])] == [Redriven, NotDeadLettered]


def test_a_query_of_rows_is_a_selection_too() -> None:
    held(), held()
    outcomes = redrive_many(OutboxRow.objects.dead_letters())
    assert [type(outcome) for outcome in outcomes] == [Redriven, Redriven]


@pytest.mark.parametrize("nothing", [[], DeadLetterFilter(activity="nobody.knows")])
def test_nothing_selected_is_nothing_done(nothing: Any) -> None:
    held()
    before = everything()
    assert redrive_many(nothing) == []
    assert discard_many(nothing, reason="because") == []
    assert everything() == before


def test_a_filter_without_conditions_means_all_of_them_oldest_first(frozen_clock: Any) -> None:
    """Faults A5: one action for everything that matches."""
    rows = [held(dead_lettered_at=frozen_clock.now - timedelta(hours=age)) for age in (1, 3, 2)]
    alive(history())
    outcomes = redrive_many(DeadLetterFilter())
    moved = [outcome.row.pk for outcome in outcomes if isinstance(outcome, Redriven)]
    assert moved == [rows[1].pk, rows[2].pk, rows[0].pk]


def test_more_than_a_page_of_them_go_in_one_call() -> None:
    workflow = history()
    for ordinal in range(1, 41):
        dead(workflow, ordinal)
    with mock.patch("durable.flow.looks.selecting._PAGE", 7):
        outcomes = redrive_many(DeadLetterFilter(workflow_id=workflow.pk))
    assert [type(outcome) for outcome in outcomes] == [Redriven] * 40


@pytest.fixture
def varied(frozen_clock: Any) -> dict[str, OutboxRow]:
    """Two dead letters that differ in everything a filter can ask for."""
    now = frozen_clock.now
    plain = held(dead_lettered_at=now - timedelta(hours=2))
    workflow = factories.WorkflowFactory(type="other.type")
    special = dead(
        workflow,
        activity="other.activity",
        cause=Cause.LEASE_LOST.value,
        queue="slow",
        failure_delivered=True,
        redrive_count=2,
        dead_lettered_at=now - timedelta(hours=1),
    )
    return {"plain": plain, "special": special}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, ["plain", "special"]),
        ({"workflow_type": "other.type"}, ["special"]),
        ({"activity": "other.activity"}, ["special"]),
        ({"activity": "cases.step"}, ["plain"]),
        ({"cause": Cause.LEASE_LOST}, ["special"]),
        ({"cause": Cause.WORKER_DIED}, ["plain"]),
        ({"queue": "slow"}, ["special"]),
        ({"judged": "judged"}, ["special"]),
        ({"judged": "held"}, ["plain"]),
        ({"redriven": "again"}, ["special"]),
        ({"redriven": "never"}, ["plain"]),
        ({"activity": "cases.step", "cause": Cause.LEASE_LOST}, []),
    ],
)
def test_each_condition_of_a_filter_chooses(
    varied: dict[str, OutboxRow], wanted: dict[str, Any], names: list[str]
) -> None:
    outcomes = redrive_many(DeadLetterFilter(**wanted), mode=RedriveMode.FORCED, reason="because")
    moved = [outcome.row.pk for outcome in outcomes if isinstance(outcome, Redriven)]
    assert moved == [varied[name].pk for name in names]


def test_the_conditions_on_workflow_and_time_choose(varied: dict[str, OutboxRow], frozen_clock: Any) -> None:
    plain, special = varied["plain"], varied["special"]
    between = frozen_clock.now - timedelta(minutes=90)
    forced: dict[str, Any] = {"mode": RedriveMode.FORCED, "reason": "because"}

    def moved(**wanted: Any) -> list[int]:
        before = dict(OutboxRow.objects.values_list("pk", "status"))
        outcomes = redrive_many(DeadLetterFilter(**wanted), **forced)
        for pk, status in before.items():
            OutboxRow.objects.filter(pk=pk).update(status=status)
        return [outcome.row.pk for outcome in outcomes if isinstance(outcome, Redriven)]

    assert moved(workflow_id=plain.workflow_id) == [plain.pk]
    assert moved(failed_after=between) == [special.pk]
    assert moved(failed_before=between) == [plain.pk]
    assert moved(failed_after=plain.dead_lettered_at, failed_before=special.dead_lettered_at) == [plain.pk]


def test_what_fails_anew_while_it_goes_on_is_left_out(driver: Driver) -> None:
    """A bulk redrive of a filter ends, even if everything dies again at once."""
    first, second = held(), held()
    certain = transaction.certain

    def and_then_a_quick_worker(body: Any, commit: Any) -> Any:
        """Before the second is redriven, the first has died again."""
        done = certain(body, commit)
        if done.row.workflow_id == first.workflow_id:
            bury(driver.claim_one())
        return done

    with mock.patch.object(transaction, "certain", and_then_a_quick_worker):
        outcomes = redrive_many(DeadLetterFilter())
    assert [outcome.row.pk for outcome in outcomes if isinstance(outcome, Redriven)] == [first.pk, second.pk]
    assert (row(first.workflow_id).status, row(first.workflow_id).redrive_count) == ("dead", 1)


def dues(outcomes: list[Any], start: Any) -> list[float]:
    """When the rows that moved come due, in seconds behind the start."""
    return [(one.row.visible_after - start).total_seconds() for one in outcomes if isinstance(one, Redriven)]


def test_many_redriven_come_due_at_the_rate_of_the_settings_and_the_first_at_once(
    frozen_clock: Any, settings: Any
) -> None:
    """Faults O8: after an outage, not everything at the same moment."""
    settings.DURABLE = {"REDRIVE_PER_SECOND": 4.0}
    rows = [held() for _ in range(5)]
    assert dues(redrive_many(rows), frozen_clock.now) == [0, 0.25, 0.5, 0.75, 1.0]


def test_the_rate_of_the_call_outranks_that_of_the_settings(frozen_clock: Any, settings: Any) -> None:
    settings.DURABLE = {"REDRIVE_PER_SECOND": 4.0}
    rows = [held() for _ in range(3)]
    assert dues(redrive_many(rows, per_second=0.5), frozen_clock.now) == [0, 2, 4]


def test_without_a_rate_all_of_them_are_due_at_once(frozen_clock: Any, settings: Any) -> None:
    settings.DURABLE = {"REDRIVE_PER_SECOND": None}
    rows = [held() for _ in range(3)]
    assert dues(redrive_many(rows), frozen_clock.now) == [0, 0, 0]


def test_the_default_rate_is_fifty_a_second(frozen_clock: Any) -> None:
    rows = [held() for _ in range(3)]
    assert dues(redrive_many(rows), frozen_clock.now) == [0, 0.02, 0.04]


def test_what_is_refused_takes_no_place_in_the_pacing(frozen_clock: Any) -> None:
    rows = [held(), held(failure_delivered=True), alive(history()), held()]
    assert dues(redrive_many(rows, per_second=1.0), frozen_clock.now) == [0, 1]


def test_paced_rows_are_claimed_as_they_come_due(frozen_clock: Any, driver: Driver) -> None:
    redrive_many([held() for _ in range(3)], per_second=1.0)
    assert len(driver.claim()) == 1
    frozen_clock.move(timedelta(seconds=2))
    assert len(driver.claim()) == 2


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_rate_that_can_not_be_meant_is_refused_at_the_call(rate: float) -> None:
    row = held()
    before = everything()
    with pytest.raises(OptionInvalid, match="per_second"):
        redrive_many([row], per_second=rate)
    assert everything() == before


def test_forced_in_bulk_needs_a_reason_before_anything_is_looked_at() -> None:
    held()
    before = everything()
    with pytest.raises(OptionInvalid, match="reason"):
        redrive_many(DeadLetterFilter(), mode=RedriveMode.FORCED)
    assert everything() == before


def test_each_outcome_is_logged_by_itself(logs: Any) -> None:
    redrive_many(one_of_each())
    assert [entry["event"] for entry in logs] == ["redrive.done", *["redrive.refused"] * 5]


@own_connections
@pytest.mark.parametrize("wanted", ["rows", "filter"])
def test_a_store_that_goes_away_in_the_middle_leaves_the_rest_untried(wanted: str) -> None:
    """One outcome for each all the same: who was not tried is told that nothing was changed."""
    rows = [held() for _ in range(5)]
    with (
        mock.patch.object(transaction, "_FIRST_WAIT", 0.0),  # no waits between the tries of a transaction
        commits(lambda n: n > 2, Moment.BEFORE) as failed,
        failing(lambda n: bool(failed), Fault.LOST) as statements,
    ):
        outcomes = redrive_many(rows if wanted == "rows" else DeadLetterFilter())
        spent = len(statements.hit)
    assert [type(outcome) for outcome in outcomes] == [Redriven, Redriven, *[StoreUnavailable] * 3]
    assert [one.outcome_unknown for one in outcomes if isinstance(one, StoreUnavailable)] == [True, False, False]
    assert spent == 4 + 5  # the other tries of the third, and the looks behind it; none for the fourth and fifth
    assert StaffAction.objects.count() == 2


@own_connections
def test_a_lock_that_somebody_holds_on_one_workflow_stops_no_other() -> None:
    """An error that belongs to one row is that row's outcome."""
    rows = [held() for _ in range(3)]
    if not only_postgresql():
        pytest.skip("SQLite locks the whole database; the store is away then.")
    patience = mock.patch.multiple(transaction, _FIRST_WAIT=0.0, _LOCK_TIMEOUT="SET LOCAL lock_timeout = '20ms'")
    with patience, locked_elsewhere("durable_workflow", "id", rows[1].workflow_id):
        outcomes = redrive_many(rows)
    assert [type(outcome) for outcome in outcomes] == [Redriven, StoreUnavailable, Redriven]
    assert OutboxRow.objects.get(pk=rows[1].pk).status == "dead"


@own_connections
def test_an_error_in_one_row_leaves_that_one_as_it_was_and_stops_no_other() -> None:
    """Faults A17: per row atomic."""
    rows = [held() for _ in range(3)]
    broken = rows[1].workflow_id

    def breaking(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "UPDATE durable_workflow" in sql and {broken, broken.hex} & set(params):
            fail(Fault.BROKEN)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(breaking):
        outcomes = redrive_many(rows)
    assert [type(outcome) for outcome in outcomes] == [Redriven, StoreUnavailable, Redriven]
    assert OutboxRow.objects.get(pk=rows[1].pk).status == "dead"
    assert StaffAction.objects.count() == 2


@own_connections
@pytest.mark.parametrize("verb", [redrive_many, lambda meant: discard_many(meant, reason="because")])
def test_a_selection_that_can_not_be_read_is_said_before_anything_is_done(verb: Any) -> None:
    held()
    with failing(lambda n: True, Fault.LOST), pytest.raises(StoreUnavailable) as caught:
        verb(DeadLetterFilter())
    assert caught.value.outcome_unknown is False
    query = OutboxRow.objects.dead_letters()
    with failing(lambda n: True, Fault.LOST), pytest.raises(StoreUnavailable):
        verb(query)
    assert StaffAction.objects.count() == 0


def test_a_redriven_row_keeps_its_queue_and_priority() -> None:
    """Faults A11: what limits a queue limits redriven rows, too."""
    row = held(queue="slow", priority=7)
    done = redrive(row.workflow_id, 1)
    assert (done.row.queue, done.row.priority) == ("slow", 7)


def test_a_filter_with_no_ids_at_all_means_none() -> None:
    """Ids that were gathered, and of which there were none, must not mean every dead letter there is."""
    held()
    before = everything()
    assert redrive_many(DeadLetterFilter(workflow_ids=())) == []
    assert discard_many(DeadLetterFilter(workflow_ids=()), reason="x") == []
    assert everything() == before


def test_a_row_that_can_not_be_read_is_refused_and_stops_no_other() -> None:
    """Faults A17; a worker that claimed it would fall over it."""
    rows = [held(), held(), held(failure_delivered=True)]
    with connection.cursor() as cursor:
        ids = [row.pk for row in rows[:1] + rows[2:]]
        cursor.execute("UPDATE durable_outboxrow SET options = '{broken' WHERE id IN (%s, %s)", ids)
    assert [type(outcome) for outcome in redrive_many(DeadLetterFilter())] == [RowUnreadable, Redriven, AlreadyJudged]
    outcomes = discard_many(DeadLetterFilter(), reason="damaged")
    assert [outcome.row.status for outcome in outcomes if isinstance(outcome, Discarded)] == ["cancelled"] * 2
