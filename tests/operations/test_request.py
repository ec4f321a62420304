"""One request (a form that was sent, a piece of bulk work) changes a row once, however often it comes."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any
from unittest import mock

import pytest

from durable.errors import AlreadyDone, NotDeadLettered
from durable.flow.transactions import transaction
from durable.models import OutboxRow, StaffAction
from durable.operations import RedriveMode, Redriven, discard, discard_many, redrive, redrive_many
from tests.flow.state import everything
from tests.operations.faults import Moment, commits
from tests.operations.meeting import Halted, waiting
from tests.operations.scenes import dead, history
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db
own_connections = pytest.mark.django_db(transaction=True)

VERBS: dict[str, Any] = {
    "redrive": redrive,
    "forced redrive": partial(redrive, mode=RedriveMode.FORCED, reason="because"),
    "discard": partial(discard, reason="because"),
}
every_verb = pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))


def letter() -> OutboxRow:
    """A held dead letter."""
    return dead(history("activity_scheduled 1"))


@every_verb
def test_a_request_that_comes_again_is_already_done_whatever_has_become_of_the_row(verb: Any) -> None:
    """Faults A12: also when the row has died anew, and would let itself be redriven."""
    row, request = letter(), uuid.uuid4()
    done = verb(row.workflow_id, 1, request=request)
    for status in (done.row.status, "dead", "done"):
        OutboxRow.objects.filter(pk=row.pk).update(status=status)
        before = everything()
        with pytest.raises(AlreadyDone) as caught:
            verb(row.workflow_id, 1, request=request)
        assert (caught.value.code, caught.value.status) == ("already_done", status)
        assert everything() == before


def test_another_request_for_a_row_that_died_anew_is_a_redrive_of_its_own() -> None:
    row = letter()
    redrive(row.workflow_id, 1, request=uuid.uuid4())
    OutboxRow.objects.filter(pk=row.pk).update(status="dead")
    assert redrive(row.workflow_id, 1, request=uuid.uuid4()).row.redrive_count == 2


def test_another_request_for_a_row_that_is_pending_meets_the_gate() -> None:
    row = letter()
    redrive(row.workflow_id, 1, request=uuid.uuid4())
    with pytest.raises(NotDeadLettered) as caught:
        redrive(row.workflow_id, 1, request=uuid.uuid4())
    assert caught.value.code == "not_dead_lettered"


def test_one_request_for_many_rows_does_each_once_and_goes_on_where_it_was_interrupted() -> None:
    rows, request = [letter() for _ in range(3)], uuid.uuid4()
    redrive_many(rows[:2], request=request)
    outcomes = redrive_many(rows, request=request)
    assert [type(outcome) for outcome in outcomes] == [AlreadyDone, AlreadyDone, Redriven]
    assert StaffAction.objects.count() == 3
    thrown = [letter() for _ in range(2)]
    discard_many(thrown[:1], reason="because", request=request)
    assert type(discard_many(thrown, reason="because", request=request)[0]) is AlreadyDone


@own_connections
@every_verb
def test_of_two_that_come_at_once_one_is_done_and_the_other_waits_and_is_told(verb: Any) -> None:
    """Faults A12."""
    row, request = letter(), uuid.uuid4()
    first = Halted("INSERT INTO durable_staffaction", verb, row.workflow_id, 1, request=request)
    second = waiting(verb, row.workflow_id, 1, request=request)
    first.go_on()
    assert isinstance(second.exception(PATIENCE), AlreadyDone)
    assert StaffAction.objects.count() == 1


@own_connections
@every_verb
@pytest.mark.parametrize("moment", Moment)
def test_a_commit_that_is_not_confirmed_is_not_taken_for_somebody_elses(verb: Any, moment: Moment) -> None:
    """Specification B3: a retry that finds its audit row has succeeded and says so."""
    row = letter()
    # No waits between the tries of a transaction.
    with mock.patch.object(transaction, "_FIRST_WAIT", 0.0), commits(lambda n: n == 1, moment):
        assert verb(row.workflow_id, 1, request=uuid.uuid4()).was_judged is False
    assert StaffAction.objects.count() == 1
