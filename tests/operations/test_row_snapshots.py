"""The rows that operators get are frozen values, and whole ones: nothing is read later.

Specification B8.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from durable.models import OutboxRow
from durable.operations import RowSnapshot, discard, list_dead_letters, redrive
from durable.outcomes import OutboxStatus
from tests.operations.scenes import dead, history

pytestmark = pytest.mark.django_db

PAYLOADS = {"input", "last_heartbeat"}
INNER = {"options"}
FOR_LATER_RELEASES = {"namespace", "node", "lane", "waiting"}


def of_the_table(row_id: int) -> dict[str, object]:
    row = OutboxRow.objects.get(pk=row_id)
    return {field.name: getattr(row, field.name) for field in fields(RowSnapshot)}


def as_columns(row: RowSnapshot) -> dict[str, object]:
    return {field.name: getattr(row, field.name) for field in fields(row)}


def test_a_snapshot_has_every_column_but_those_that_are_left_out_for_a_reason() -> None:
    columns = {field.attname for field in OutboxRow._meta.concrete_fields}
    assert columns - {field.name for field in fields(RowSnapshot)} == PAYLOADS | INNER | FOR_LATER_RELEASES


def test_a_snapshot_has_the_values_of_the_row() -> None:
    first, second = dead(history("activity_scheduled 1"), suspect=True), dead(history("activity_scheduled 1"))
    (listed,) = list_dead_letters(first.workflow_id)
    assert as_columns(listed) == of_the_table(first.pk)
    assert (listed.pk, listed.dispatch_key) == (first.pk, first.dispatch_key)
    redriven = redrive(first.workflow_id, 1).row
    assert as_columns(redriven) == of_the_table(first.pk)
    assert redriven.status is OutboxStatus.PENDING
    discarded = discard(second.workflow_id, 1, reason="done by hand").row
    assert as_columns(discarded) == of_the_table(second.pk)
    assert discarded.status is OutboxStatus.CANCELLED


def test_a_snapshot_does_not_change_and_reads_nothing_later() -> None:
    letter = dead(history("activity_scheduled 1"))
    (listed,) = list_dead_letters(letter.workflow_id)
    redriven = redrive(letter.workflow_id, 1).row
    OutboxRow.objects.update(redrive_count=9)
    with CaptureQueriesContext(connection) as made:
        assert (listed.status, listed.redrive_count) == (OutboxStatus.DEAD, 0)
        assert (redriven.status, redriven.redrive_count) == (OutboxStatus.PENDING, 1)
        for missing in ("input", "last_heartbeat", "options", "workflow", "failed_attempts"):
            assert not hasattr(listed, missing), missing
            assert not hasattr(redriven, missing), missing
    assert made.captured_queries == []
    with pytest.raises(FrozenInstanceError):
        listed.status = OutboxStatus.DONE  # type: ignore[misc]


def test_the_list_does_not_change_either() -> None:
    letter = dead(history("activity_scheduled 1"))
    letters = list_dead_letters(letter.workflow_id)
    redrive(letter.workflow_id, 1)
    assert [row.pk for row in letters] == [letter.pk]
    assert (letters[-1], letters[:1]) == (letters[0], (letters[0],))
    assert (letters[0] in letters, letters == list_dead_letters(letter.workflow_id)) == (True, False)
    with pytest.raises(FrozenInstanceError):
        letters.more = True  # type: ignore[misc]


def test_a_cause_that_only_another_version_knows_hides_no_row() -> None:
    letter = dead(history("activity_scheduled 1"), cause="eaten_by_the_dog")
    assert [row.cause for row in list_dead_letters(letter.workflow_id)] == ["eaten_by_the_dog"]
    assert redrive(letter.workflow_id, 1).row.cause == "eaten_by_the_dog"
