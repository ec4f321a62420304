"""The preview: what a redrive would do now, in numbers, with nothing written."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import pytest
from django.db import connection

from durable.errors import StoreUnavailable
from durable.models import OutboxRow
from durable.operations import DeadLetterFilter, RedriveMode, Redriven, preview_redrive, redrive_many
from tests.flow.state import everything
from tests.operations.faults import Fault, failing
from tests.operations.many import held, one_of_each
from tests.operations.scenes import alive, dead, history, statements, touching

pytestmark = pytest.mark.django_db

MODES = [RedriveMode.ELIGIBLE, RedriveMode.FORCED]


def scene() -> list[Any]:
    """Every verdict, more than once, as rows and as pairs; what is not there, and what is given twice."""
    ended, recorded = history(status="timed_out"), history("activity_scheduled 1", "activity_cancelled 1")
    rows: list[Any] = [*one_of_each(), *one_of_each()]
    pairs = [
        (ended.pk, 1), (ended.pk, 9), (recorded.pk, 1), (recorded.pk, 2), (held().workflow_id, 2**33),
        (history().pk, 0), (held().workflow_id, 1),
    ]  # fmt: skip
    twice = held()
    return [*rows, *pairs, twice, twice, (twice.workflow_id, 1), rows[0]]


def counted(outcomes: list[Any]) -> Counter[str]:
    """Outcomes by code, as the preview says them."""
    return Counter("redrivable" if isinstance(one, Redriven) else one.code for one in outcomes)


@pytest.mark.parametrize("mode", MODES)
def test_the_counts_by_verdict_are_what_the_redrive_then_does(mode: RedriveMode) -> None:
    """Faults A8: counts come from the same rules."""
    given = scene()
    before = everything()
    preview = preview_redrive(given, mode=mode)
    assert everything() == before
    outcomes = redrive_many(given, mode=mode, reason="because")
    assert Counter(redrivable=preview.redrivable, **preview.refused) == counted(outcomes)
    assert (preview.looked_at, preview.capped, preview.total_text) == (len(given), False, str(len(given)))


@pytest.mark.parametrize("mode", MODES)
def test_the_counts_of_a_filter_are_what_the_redrive_then_does(mode: RedriveMode) -> None:
    one_of_each()
    one_of_each()
    preview = preview_redrive(DeadLetterFilter(), mode=mode)
    outcomes = redrive_many(DeadLetterFilter(), mode=mode, reason="because")
    assert Counter(redrivable=preview.redrivable, **preview.refused) == counted(outcomes)
    assert preview.looked_at == len(outcomes) == 10  # the done ones are no dead letters


def test_every_verdict_is_named_by_the_code_of_its_refusal() -> None:
    preview = preview_redrive(one_of_each())
    assert preview.redrivable == 1
    assert preview.refused == {
        "workflow_terminal": 1, "history_records_outcome": 1, "row_not_found": 1, "not_dead_lettered": 1,
        "already_judged": 1,
    }  # fmt: skip


def test_an_outcome_of_an_earlier_run_or_another_ordinal_does_not_count_in_the_preview_either() -> None:
    """Specification B9.5, B9.6."""
    workflow = history(
        "activity_scheduled 1", "activity_completed 1", "workflow_failed", "workflow_reopened",
        "activity_scheduled 1", "activity_scheduled 2", "activity_failed 2",
    )  # fmt: skip
    rows = [dead(workflow, 1), dead(workflow, 2)]
    preview = preview_redrive(rows)
    assert (preview.redrivable, preview.refused) == (1, {"history_records_outcome": 1})


def test_nothing_selected_is_nothing_counted() -> None:
    selections: list[Any] = [[], DeadLetterFilter(activity="nobody.knows")]
    for nothing in selections:
        preview = preview_redrive(nothing)
        assert (preview.redrivable, preview.refused, preview.looked_at, preview.total_text) == (0, {}, 0, "0")


@pytest.mark.parametrize("kind", ["filter", "rows"])
def test_a_preview_looks_at_ten_thousand_and_says_that_there_are_more(kind: str) -> None:
    """Faults A16, with a smaller limit: the numbers add up to what was looked at."""
    rows = [held() for _ in range(8)]
    given: Any = DeadLetterFilter() if kind == "filter" else rows
    with (
        mock.patch("durable.flow.operator.redrive.PREVIEW_LIMIT", 7),
        mock.patch("durable.flow.looks.selecting._PAGE", 3),
    ):
        preview = preview_redrive(given)
    assert (preview.redrivable, preview.refused, preview.looked_at, preview.capped) == (7, {}, 7, True)
    assert preview.total_text == "7+"


def test_exactly_as_many_as_the_limit_are_not_capped() -> None:
    for _ in range(7):
        held()
    with mock.patch("durable.flow.operator.redrive.PREVIEW_LIMIT", 7):
        preview = preview_redrive(DeadLetterFilter())
    assert (preview.looked_at, preview.capped) == (7, False)


@pytest.mark.slow
def test_more_than_ten_thousand_dead_letters_of_one_workflow_are_counted_as_ten_thousand_and_more() -> None:
    """Faults A16: the real limit, in a fan-out whose history is long, in a few statements."""
    workflow = history(*(f"activity_scheduled {n}" for n in range(1, 21)))
    dead(workflow, 1)
    columns = ", ".join(str(f.column) for f in OutboxRow._meta.concrete_fields if f.column not in {"id", "ordinal"})
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO durable_outboxrow ({columns}, ordinal) "
            "WITH RECURSIVE numbers(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10001) "
            f"SELECT {columns}, n FROM durable_outboxrow, numbers"
        )
    with statements() as said:
        preview = preview_redrive(DeadLetterFilter(workflow_id=workflow.pk))
        assert len(said()) == 6
    assert (preview.redrivable, preview.capped, preview.total_text) == (10_000, True, "10,000+")


@pytest.mark.parametrize("kind", ["filter", "rows"])
def test_a_preview_neither_writes_nor_locks(kind: str) -> None:
    rows = one_of_each()
    with statements() as said:
        preview_redrive(DeadLetterFilter() if kind == "filter" else rows)
        assert touching(said(), "durable_outboxrow")
        assert [
            sql for sql in said() if not sql.startswith("select") or "for update" in sql or "for no key" in sql
        ] == []


def test_what_changes_behind_the_preview_is_said_by_the_redrive() -> None:
    row = held()
    assert preview_redrive([row]).redrivable == 1
    OutboxRow.objects.filter(pk=row.pk).update(status="cancelled")
    (outcome,) = redrive_many([row])
    assert not isinstance(outcome, Redriven)
    assert outcome.code == "not_dead_lettered"


@pytest.mark.django_db(transaction=True)
def test_a_preview_that_can_not_be_read_says_so_in_the_same_family() -> None:
    """Faults A16: its failure is no reason not to act."""
    row = held()
    alive(history())
    with failing(lambda n: True, Fault.LOST):
        for given in ([row], DeadLetterFilter()):
            with pytest.raises(StoreUnavailable) as caught:
                preview_redrive(given)
            assert caught.value.outcome_unknown is False
    (outcome,) = redrive_many([row])
    assert isinstance(outcome, Redriven)
