"""Discard: closing a dead letter for good, and what the workflow that waits for it is told."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from durable.errors import (
    NotDeadLettered,
    OptionInvalid,
    RedriveRefused,
    RowNotFound,
    WorkflowTerminal,
)
from durable.flow.caller import cancel
from durable.models import Event, OutboxRow, StaffAction
from durable.operations import DeadLetterFilter, Discarded, discard, discard_many, list_dead_letters, pause, redrive
from tests.flow import driver as flow
from tests.flow.cases import cleaner
from tests.flow.driver import Driver, workflow
from tests.flow.state import everything, messages_of
from tests.operations import cases
from tests.operations.scenes import TERMINAL, alive, dead, die, history, statements, stranded, touching

pytestmark = pytest.mark.django_db

THENS = ["fail", "cancel"]


def refused(workflow_id: uuid.UUID, ordinal: int = 1) -> RedriveRefused:
    """Be refused, with nothing changed anywhere."""
    before = everything()
    with pytest.raises(RedriveRefused) as caught:
        discard(workflow_id, ordinal, reason="because")
    assert everything() == before
    return caught.value


@pytest.mark.parametrize("cached", [0, 1000])
def test_discarding_a_held_one_fails_the_activity_there_and_the_workflow_goes_on(cached: int) -> None:
    driver = Driver(cached=cached)
    workflow_id, _ = stranded(driver, cases.cautious)
    done = discard(workflow_id, 1, reason="the shop is closed", actor="anna")
    assert isinstance(done, Discarded)
    assert (done.row.status, done.was_judged) == ("cancelled", False)
    driver.turn()
    assert workflow(workflow_id).status == "completed"
    assert workflow(workflow_id).result == '"Discarded: operated.tidy was discarded: the shop is closed"'
    assert flow.history(workflow_id) == [
        "workflow_started", "activity_scheduled 1", "activity_discarded 1", "activity_failed 1", "workflow_completed",
    ]  # fmt: skip


def test_the_failure_says_how_many_attempts_were_made(driver: Driver) -> None:
    workflow_id, letter = stranded(driver, cases.cautious)
    OutboxRow.objects.filter(pk=letter.pk).update(attempts=4)
    discard(workflow_id, 1, reason="because")
    ((_, _, told),) = messages_of(workflow_id)
    assert told["attempts"] == 4


def test_a_workflow_that_does_not_catch_it_fails_with_it(driver: Driver) -> None:
    workflow_id, _ = stranded(driver)
    discard(workflow_id, 1, reason="lost")
    driver.turn()
    assert workflow(workflow_id).status == "failed"
    assert "was discarded: lost" in str(workflow(workflow_id).failure)


@pytest.mark.parametrize("cached", [0, 1000])
def test_discarding_a_held_one_may_cancel_the_workflow_which_cleans_up_first(cached: int) -> None:
    driver = Driver(cached=cached)
    workflow_id = driver.start(cleaner)
    driver.turn()
    die(driver, workflow_id)
    discard(workflow_id, 1, reason="the shop is closed", then="cancel", actor="anna")
    driver.turn()
    assert workflow(workflow_id).status == "running"
    (cleaning,) = driver.claim()
    assert cleaning.ordinal == 2
    driver.complete(cleaning, payload="2")
    driver.turn()
    assert workflow(workflow_id).status == "cancelled"
    asked = Event.objects.get(workflow_id=workflow_id, type="cancel_requested")
    assert asked.data == {"reason": "the shop is closed", "actor": "anna"}
    assert "activity_failed 1" not in flow.history(workflow_id)
    assert messages_of(workflow_id) == []


def test_a_workflow_that_goes_on_waiting_in_spite_of_the_cancel_gets_the_failure(driver: Driver) -> None:
    """It shields the activity: without the failure it would wait for ever for a row that is closed."""
    workflow_id, _ = stranded(driver, cases.shielding)
    discard(workflow_id, 1, reason="lost", then="cancel")
    driver.turn()
    assert workflow(workflow_id).status == "completed"
    assert "gave up" in str(workflow(workflow_id).result)


def test_a_workflow_that_cleans_up_after_an_earlier_cancel_gets_the_failure(driver: Driver) -> None:
    """A second request to cancel is not fed: the activity that it cleans up with fails instead."""
    workflow_id = driver.start(cleaner)
    driver.turn()
    cancel.cancel(workflow_id, reason="enough")
    driver.turn()
    die(driver, workflow_id, ordinal=2)
    discard(workflow_id, 2, reason="lost", then="cancel")
    driver.turn()
    assert workflow(workflow_id).closed_at is not None
    assert "activity_failed 2" in flow.history(workflow_id)


@pytest.mark.parametrize("then", THENS)
@pytest.mark.parametrize("judged", ["by its marker", "by the history"])
def test_a_judged_one_is_only_closed(then: Any, judged: str) -> None:
    facts = ["activity_scheduled 1", *(["activity_failed 1"] if judged == "by the history" else [])]
    letter = dead(history(*facts), failure_delivered=judged == "by its marker")
    done = discard(letter.workflow_id, 1, reason="done by hand", then=then)
    assert (done.row.status, done.was_judged) == ("cancelled", True)
    assert messages_of(letter.workflow_id) == []
    assert workflow(letter.workflow_id).status == "running"
    assert flow.history(letter.workflow_id)[-1] == "activity_discarded 1"
    assert not list_dead_letters(letter.workflow_id)


@pytest.mark.parametrize(("then", "status"), [("fail", "failed"), ("cancel", "cancelled")])
@pytest.mark.parametrize("paused", ["running", "paused"])
def test_a_single_activity_ends_at_once(driver: Driver, then: Any, status: str, paused: str) -> None:
    workflow_id = driver.enqueue(cases.tidy, 1)
    die(driver, workflow_id)
    if paused == "paused":
        pause(workflow_id)
    done = discard(workflow_id, 1, reason="lost", then=then, actor="anna")
    now = workflow(workflow_id)
    assert (now.status, now.closed_at is not None, done.row.status) == (status, True, "cancelled")
    assert flow.history(workflow_id)[-2:] == ["activity_discarded 1", f"workflow_{status}"]
    closing = Event.objects.get(workflow_id=workflow_id, type=f"workflow_{status}").data
    if then == "fail":
        assert closing["failure"]["message"] == "operated.tidy was discarded: lost"
        assert now.failure == closing["failure"]
    else:
        assert closing == {"reason": "lost", "actor": "anna"}
    assert driver.turn().workflows == 0


def test_a_discard_is_audited_like_a_redrive(frozen_clock: Any, django_user_model: Any) -> None:
    anna = django_user_model.objects.create_user("anna")
    letter = dead(history("activity_scheduled 1"))
    done = discard(letter.workflow_id, 1, reason="done by hand", then="cancel", actor=anna)
    audit = StaffAction.objects.get()
    assert (audit.outbox_row_id, audit.actor_id, audit.actor_text) == (letter.pk, anna.pk, "anna")
    assert (audit.mode, audit.reason, audit.was_judged) == ("cancel", "done by hand", False)
    assert audit.at == done.row.discarded_at == frozen_clock.now
    marker = Event.objects.get(workflow_id=letter.workflow_id, type="activity_discarded")
    assert marker.data == {"actor": "anna", "reason": "done by hand", "then": "cancel", "was_judged": False}


def test_what_was_kept_of_the_row_stays_readable() -> None:
    """Faults A9."""
    letter = dead(history("activity_scheduled 1"), attempts=3, redrive_count=2)
    now = discard(letter.workflow_id, 1, reason="because").row
    assert (now.attempts, now.deliveries, now.redrive_count, now.cause) == (3, 8, 2, letter.cause)
    assert now.dead_lettered_at == letter.dead_lettered_at


@pytest.mark.parametrize("status", TERMINAL)
def test_under_a_workflow_that_has_ended_it_is_refused_before_the_row_is_touched(status: str) -> None:
    """Specification B3, as for a redrive."""
    letter = dead(history(status=status))
    with statements() as said, pytest.raises(WorkflowTerminal):
        discard(letter.workflow_id, 1, reason="because")
    assert touching(said(), "durable_outboxrow") == []


@pytest.mark.parametrize("status", ["pending", "claimed", "done", "cancelled"])
def test_what_is_no_dead_letter_is_refused_with_its_status(status: str) -> None:
    letter = alive(history("activity_scheduled 1"), status=status)
    refusal = refused(letter.workflow_id)
    assert isinstance(refusal, NotDeadLettered)
    assert refusal.status == status


def test_what_is_not_there_is_refused() -> None:
    workflow = history()
    dead(workflow, 1)
    assert isinstance(refused(uuid.uuid4()), RowNotFound)
    assert isinstance(refused(workflow.pk, 2), RowNotFound)
    again = history("workflow_failed", "workflow_reopened")
    dead(again, run=1)
    assert isinstance(refused(again.pk), RowNotFound)


def test_a_second_discard_and_a_redrive_behind_a_discard_are_refused() -> None:
    """Faults A6: repeating it gives a typed "already" message."""
    letter = dead(history("activity_scheduled 1"))
    discard(letter.workflow_id, 1, reason="because")
    refusal = refused(letter.workflow_id)
    assert isinstance(refusal, NotDeadLettered)
    assert refusal.status == "cancelled"
    with pytest.raises(NotDeadLettered):
        redrive(letter.workflow_id, 1)


@pytest.mark.parametrize("reason", ["", "  \n", "a\0b"])
def test_a_discard_needs_a_reason(reason: str) -> None:
    letter = dead(history("activity_scheduled 1"))
    before = everything()
    with pytest.raises(OptionInvalid, match="reason"):
        discard(letter.workflow_id, 1, reason=reason)
    with pytest.raises(OptionInvalid, match="reason"):
        discard_many([letter], reason=reason)
    assert everything() == before


def test_another_consequence_than_the_two_is_refused() -> None:
    letter = dead(history("activity_scheduled 1"))
    with pytest.raises(OptionInvalid, match="then"):
        discard(letter.workflow_id, 1, reason="because", then="explode")  # type: ignore[arg-type]


def test_in_bulk_every_row_has_its_outcome() -> None:
    """Specification B3."""
    rows = [
        dead(history("activity_scheduled 1")),
        dead(history(status="failed")),
        dead(history("activity_failed 1")),
        alive(history()),
        dead(history(), failure_delivered=True),
    ]
    outcomes = discard_many([*rows, (uuid.uuid4(), 1)], reason="spring cleaning")
    assert [type(one) for one in outcomes] == [
        Discarded, WorkflowTerminal, Discarded, NotDeadLettered, Discarded, RowNotFound,
    ]  # fmt: skip
    assert [one.was_judged for one in outcomes if isinstance(one, Discarded)] == [False, True, True]
    assert StaffAction.objects.count() == 3


def test_in_bulk_a_filter_means_what_matches() -> None:
    kept, thrown = dead(history()), dead(history(), activity="old.news")
    outcomes = discard_many(DeadLetterFilter(activity="old.news"), reason="gone", then="cancel")
    assert [type(one) for one in outcomes] == [Discarded]
    assert set(OutboxRow.objects.values_list("pk", "status")) == {(kept.pk, "dead"), (thrown.pk, "cancelled")}


def test_a_discard_is_logged_and_so_is_its_refusal(logs: Any) -> None:
    letter = dead(history())
    discard(letter.workflow_id, 1, reason="because", actor="anna")
    with pytest.raises(NotDeadLettered):
        discard(letter.workflow_id, 1, reason="because")
    assert [(entry["log_level"], entry["event"], entry.get("code")) for entry in logs] == [
        ("info", "discard.done", None), ("warning", "discard.refused", "not_dead_lettered"),
    ]  # fmt: skip
    assert logs[0]["workflow"] == str(letter.workflow_id)
