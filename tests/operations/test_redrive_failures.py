"""Specification B9.12: the database fails at each statement in turn, and at the commit. What is answered is the
truth.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import pytest
from django.db import connection

from durable.errors import StoreUnavailable
from durable.flow.transactions import transaction
from durable.models import Message, OutboxRow, StaffAction, Workflow
from durable.operations import Discarded, RedriveMode, Redriven, discard, redrive
from tests.flow import driver as flow
from tests.flow.state import everything
from tests.operations.faults import Fault, Moment, commits, fail, failing
from tests.operations.meeting import waiting_at
from tests.operations.scenes import dead, history
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)

Verb = Callable[..., Redriven | Discarded]

VERBS: dict[str, Verb] = {
    "redrive": redrive,
    "forced redrive": partial(redrive, mode=RedriveMode.FORCED, reason="because"),
    "discard, fail": partial(discard, reason="because"),
    "discard, cancel": partial(discard, reason="because", then="cancel"),
}
every_verb = pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))


@pytest.fixture(autouse=True)
def _nobody_waits() -> Iterator[None]:
    with mock.patch.object(transaction, "_FIRST_WAIT", 0.0):  # no waits between the tries of a transaction
        yield


def letter() -> OutboxRow:
    """A held dead letter."""
    return dead(history("activity_scheduled 1"))


def is_done(row: OutboxRow, answer: Redriven | Discarded) -> None:
    """The verb has done its work, once."""
    now = OutboxRow.objects.get(pk=row.pk)
    assert now.status == answer.row.status
    assert now.status == ("pending" if isinstance(answer, Redriven) else "cancelled")
    assert answer.row.pk == row.pk
    assert now.redrive_count == (1 if isinstance(answer, Redriven) else 0)
    assert StaffAction.objects.filter(outbox_row=row).count() == 1
    marker = "activity_redriven 1" if isinstance(answer, Redriven) else "activity_discarded 1"
    assert flow.history(row.workflow_id) == ["workflow_started", "activity_scheduled 1", marker]
    assert Workflow.objects.get(pk=row.workflow_id).last_seq == 3


@contextmanager
def nothing_changes() -> Iterator[None]:
    """No row, audit, message or event changes in the block."""
    before = everything()
    yield
    assert everything() == before


def number_of_statements(verb: Verb) -> int:
    """How many statements the verb takes when all is well."""
    row = letter()
    with failing(lambda number: False) as statements:
        verb(row.workflow_id, 1)
    assert statements.count > 6
    return statements.count


@every_verb
@pytest.mark.parametrize("fault", [Fault.BROKEN, Fault.BUSY, Fault.LOST])
def test_a_statement_that_fails_for_good_leaves_everything_as_it_was_and_says_so(verb: Verb, fault: Fault) -> None:
    """Specification B9.12, faults A17: whichever statement it is."""
    for broken in range(1, number_of_statements(verb) + 1):
        row = letter()
        with nothing_changes(), failing(partial(operator.le, broken), fault) as statements:
            with pytest.raises(StoreUnavailable) as caught:
                verb(row.workflow_id, 1)
            tries = len(statements.hit)
            assert tries == (1 if fault is Fault.BROKEN else 5), (broken, statements.hit)
        assert (caught.value.code, caught.value.outcome_unknown) == ("store_unavailable", False)
        assert "nothing was changed" in str(caught.value)
        assert caught.value.cause is caught.value.__cause__


@every_verb
@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.LOST])
def test_a_statement_that_fails_once_is_repeated_with_the_whole_transaction(verb: Verb, fault: Fault) -> None:
    """Specification B9.12: the truth is that it was done, once."""
    for broken in range(1, number_of_statements(verb) + 1):
        row = letter()
        with failing(partial(operator.eq, broken), fault) as statements:
            answer = verb(row.workflow_id, 1)
        assert len(statements.hit) == 1
        is_done(row, answer)


@every_verb
@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.LOST])
@pytest.mark.parametrize("moment", Moment)
def test_a_commit_that_fails_once_is_repeated_or_recognised(verb: Verb, moment: Moment, fault: Fault) -> None:
    """Specification B3 and B9.12: a retry that finds its audit row has succeeded and says so."""
    row = letter()
    with commits(lambda number: number == 1, moment, fault) as failed:
        answer = verb(row.workflow_id, 1)
    assert failed == [1]
    assert answer.was_judged is False
    is_done(row, answer)


@every_verb
@pytest.mark.parametrize("moment", Moment)
def test_commits_that_fail_until_the_patience_is_spent_end_in_the_truth(verb: Verb, moment: Moment) -> None:
    """Specification B9.12: when the database can be asked again, nothing is left unknown."""
    row = letter()
    before = everything()
    with commits(lambda number: number <= 5, moment) as failed:
        if moment is Moment.AFTER:
            is_done(row, verb(row.workflow_id, 1))
        else:
            with pytest.raises(StoreUnavailable) as caught:
                verb(row.workflow_id, 1)
            assert caught.value.outcome_unknown is False
            assert everything() == before
    assert failed == [1, 2, 3, 4, 5]


@every_verb
@pytest.mark.parametrize("moment", Moment)
def test_a_commit_that_fails_for_good_is_looked_behind(verb: Verb, moment: Moment) -> None:
    """A permanent error at the commit (a deferred constraint, say) ends the tries, not the search for the truth."""
    row = letter()
    before = everything()
    with commits(lambda number: number == 1, moment, Fault.BROKEN):
        if moment is Moment.AFTER:
            is_done(row, verb(row.workflow_id, 1))
        else:
            with pytest.raises(StoreUnavailable) as caught:
                verb(row.workflow_id, 1)
            assert caught.value.outcome_unknown is False
            assert everything() == before


@every_verb
@pytest.mark.parametrize("moment", Moment)
def test_a_store_that_goes_away_with_the_commit_leaves_the_outcome_unknown_and_says_so(
    verb: Verb, moment: Moment
) -> None:
    """Specification B9.12: it may have been done, or not; neither is claimed."""
    row = letter()
    before = everything()
    with (
        commits(lambda number: True, moment) as failed,
        failing(lambda number: bool(failed), Fault.LOST),
        pytest.raises(StoreUnavailable) as caught,
    ):
        verb(row.workflow_id, 1)
    assert caught.value.outcome_unknown is True
    assert "may or may not have been made" in str(caught.value)
    assert (everything() == before) is (moment is Moment.BEFORE)


def test_reading_the_row_behind_a_lost_commit_may_fail_too_and_then_the_outcome_is_unknown() -> None:
    """It was done. To say "nothing was changed" because the last look failed would be a lie."""
    row = letter()
    with (
        commits(lambda number: number <= 5, Moment.AFTER) as failed,
        connection.execute_wrapper(_failing_to_read_rows(failed)),
        pytest.raises(StoreUnavailable) as caught,
    ):
        redrive(row.workflow_id, 1)
    assert OutboxRow.objects.get(pk=row.pk).status == "pending"
    assert caught.value.outcome_unknown is True


def _failing_to_read_rows(failed: list[int]) -> Callable[..., Any]:
    def hook(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if failed and "durable_outboxrow" in sql:
            fail(Fault.LOST)
        return execute(sql, params, many, context)

    return hook


def test_a_server_that_is_still_committing_when_its_client_has_gone_is_waited_for() -> None:
    """The connection dies in the commit and the server finishes it later: the retry must not take its own work for
    somebody else's ("not a dead letter; it is pending").
    """
    row = letter()
    on_its_own: list[Any] = []

    def losing_touch() -> Redriven:
        engine: Any = connection
        commit = engine._commit

        def patched() -> None:
            if on_its_own:
                commit()
                return
            on_its_own.append(connection.connection)
            connection.connection = None
            fail(Fault.LOST)

        with mock.patch.object(connection, "_commit", patched):
            return redrive(row.workflow_id, 1)

    retrying = waiting_at(2, losing_touch)
    (server,) = on_its_own
    server.commit()
    is_done(row, retrying.result(PATIENCE))
    server.close()


def test_what_was_passed_over_is_still_logged_when_only_the_retry_learns_of_the_commit(logs: Any) -> None:
    row = dead(history("activity_scheduled 1"), failure_delivered=True)
    with commits(lambda number: number == 1, Moment.AFTER):
        done = redrive(row.workflow_id, 1, mode=RedriveMode.FORCED, reason="because")
    assert done.was_judged is True
    said = [entry["event"] for entry in logs if entry["log_level"] != "debug"]
    assert said == ["redrive.gate_passed_over", "redrive.done"]


def test_a_discard_that_is_recognised_has_told_the_workflow_once() -> None:
    row = letter()
    with commits(lambda number: number == 1, Moment.AFTER):
        discard(row.workflow_id, 1, reason="because")
    assert Message.objects.count() == 1


def test_a_store_that_does_not_answer_is_a_refusal_that_is_logged(logs: Any) -> None:
    """Specification B5."""
    row = letter()
    with failing(lambda number: True, Fault.LOST), pytest.raises(StoreUnavailable):
        redrive(row.workflow_id, 1)
    assert [entry["code"] for entry in logs if entry["log_level"] == "warning"] == ["store_unavailable"]
