"""Redrive, one dead letter: the gates in order, what it does, and what it says."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

from durable import errors
from durable.errors import (
    AlreadyJudged,
    HistoryRecordsOutcome,
    NotDeadLettered,
    OptionInvalid,
    RedriveRefused,
    RowNotFound,
    WorkflowTerminal,
)
from durable.models import Event, OutboxRow, StaffAction, Workflow
from durable.operations import RedriveMode, redrive
from tests.flow import driver as flow
from tests.flow.state import everything
from tests.operations.scenes import TERMINAL, alive, dead, history, statements, touching

pytestmark = pytest.mark.django_db

MODES = [RedriveMode.ELIGIBLE, RedriveMode.FORCED]
OUTCOMES = ["activity_completed", "activity_failed", "activity_cancelled"]


def refused(workflow_id: uuid.UUID, ordinal: int = 1, mode: RedriveMode = RedriveMode.ELIGIBLE) -> RedriveRefused:
    """Be refused, with nothing changed anywhere."""
    before = everything()
    with pytest.raises(RedriveRefused) as caught:
        redrive(workflow_id, ordinal, mode=mode, reason="because")
    assert everything() == before
    return caught.value


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("status", TERMINAL)
def test_a_workflow_that_has_ended_is_refused_before_the_row_is_touched(status: str, mode: RedriveMode) -> None:
    """Specification B9.1, also in forced mode: no statement names the outbox, not even a reading one."""
    row = dead(history("activity_scheduled 1", status=status))
    before = everything()
    with statements() as said, pytest.raises(WorkflowTerminal) as caught:
        redrive(row.workflow_id, 1, mode=mode, reason="because")
    assert touching(said(), "durable_workflow")
    assert touching(said(), "durable_outboxrow") == []
    assert (caught.value.code, caught.value.workflow_id, caught.value.status) == (
        "workflow_terminal", row.workflow_id, status,
    )  # fmt: skip
    assert caught.value.values == {"workflow_id": row.workflow_id, "status": status}
    assert everything() == before


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_recorded_outcome_is_refused_before_the_row_is_touched(outcome: str) -> None:
    """Specification B9.2 and B9.7: completed and cancelled count as judged, just as failed does."""
    row = dead(history("activity_scheduled 1", f"{outcome} 1"))
    with statements() as said, pytest.raises(HistoryRecordsOutcome) as caught:
        redrive(row.workflow_id, 1)
    assert touching(said(), "durable_outboxrow") == []
    assert touching(said(), "durable_event")
    assert caught.value.code == "history_records_outcome"
    assert caught.value.values == {
        "workflow_id": row.workflow_id, "activity_id": f"{row.workflow_id}:1:1", "ordinal": 1,
    }  # fmt: skip


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_forced_redrive_passes_over_a_recorded_outcome_and_says_so(outcome: str, logs: Any) -> None:
    """Specification B9.3."""
    row = dead(history("activity_scheduled 1", f"{outcome} 1"))
    done = redrive(row.workflow_id, 1, mode=RedriveMode.FORCED, reason="the bank says so")
    assert (done.row.status, done.was_judged) == ("pending", True)
    warnings = [entry for entry in logs if entry["log_level"] == "warning"]
    assert [(entry["event"], entry["code"]) for entry in warnings] == [
        ("redrive.gate_passed_over", "history_records_outcome")
    ]
    assert StaffAction.objects.get().was_judged is True


def test_an_unknown_workflow_has_no_such_row() -> None:
    """Specification B9.4."""
    unknown = uuid.uuid4()
    refusal = refused(unknown, 3)
    assert isinstance(refusal, RowNotFound)
    assert (refusal.code, refusal.workflow_id, refusal.ordinal) == ("row_not_found", unknown, 3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ordinal", [2, 0, -1, 2**31, 2**63, 10**30])
def test_a_live_workflow_without_such_a_row_is_refused_whatever_the_number(ordinal: int, mode: RedriveMode) -> None:
    row = dead(history("activity_scheduled 1"))
    assert isinstance(refused(row.workflow_id, ordinal, mode), RowNotFound)


def test_an_outcome_counts_only_for_its_own_activity() -> None:
    """Specification B9.5: ordinal 3 is not ordinal 4."""
    workflow = history("activity_scheduled 3", "activity_scheduled 4", "activity_completed 3")
    dead(workflow, 3)
    dead(workflow, 4)
    assert isinstance(refused(workflow.pk, 3), HistoryRecordsOutcome)
    done = redrive(workflow.pk, 4)
    assert (done.row.ordinal, done.was_judged) == (4, False)


def test_an_outcome_of_another_workflow_does_not_count() -> None:
    history("activity_scheduled 1", "activity_completed 1")
    row = dead(history("activity_scheduled 1"))
    assert redrive(row.workflow_id, 1).was_judged is False


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_outcome_of_an_earlier_run_does_not_judge_the_current_one(outcome: str) -> None:
    """Specification B9.6: ordinals are used again across runs."""
    workflow = history(
        "activity_scheduled 1", f"{outcome} 1", "workflow_failed", "workflow_reopened", "activity_scheduled 1"
    )
    dead(workflow, run=1, status="cancelled")
    row = dead(workflow)
    done = redrive(workflow.pk, 1)
    assert (done.row.pk, done.row.run, done.was_judged) == (row.pk, 2, False)


def test_an_outcome_of_the_current_run_judges_behind_an_earlier_run_without_one() -> None:
    """Specification B9.6, the other way round, over three runs."""
    workflow = history(
        "activity_scheduled 1", "workflow_failed",
        "workflow_reopened", "activity_scheduled 1", "workflow_failed",
        "workflow_reopened", "activity_scheduled 1", "activity_failed 1",
    )  # fmt: skip
    dead(workflow)
    assert isinstance(refused(workflow.pk), HistoryRecordsOutcome)


def test_a_dead_letter_of_an_earlier_run_is_not_the_row_of_the_current_one() -> None:
    """Specification B2.3: the row of the current run exists, or nothing is found."""
    workflow = history("activity_scheduled 1", "workflow_failed", "workflow_reopened")
    dead(workflow, run=1)
    for mode in MODES:
        assert isinstance(refused(workflow.pk, mode=mode), RowNotFound)


def test_scheduled_alone_is_no_judgment() -> None:
    """Specification B9.7: markers, pauses and the like are none either."""
    workflow = history("activity_scheduled 1", "activity_redriven 1", "workflow_paused", "workflow_resumed")
    dead(workflow)
    assert redrive(workflow.pk, 1).was_judged is False


def test_judged_by_the_marker_only_is_refused_and_forced_passes(logs: Any) -> None:
    """Specification B9.8."""
    row = dead(history("activity_scheduled 1"), failure_delivered=True)
    refusal = refused(row.workflow_id)
    assert isinstance(refusal, AlreadyJudged)
    assert (refusal.code, refusal.values) == ("already_judged", {"workflow_id": row.workflow_id, "ordinal": 1})
    done = redrive(row.workflow_id, 1, mode=RedriveMode.FORCED, reason="the goods were lost")
    assert (done.row.status, done.was_judged) == ("pending", True)
    passed = [entry["code"] for entry in logs if entry["event"] == "redrive.gate_passed_over"]
    assert passed == ["already_judged"]


def test_a_forced_redrive_that_passes_over_both_says_both(logs: Any) -> None:
    """Specification B5: a warning for every gate that was passed over."""
    row = dead(history("activity_scheduled 1", "activity_failed 1"), failure_delivered=True)
    redrive(row.workflow_id, 1, mode=RedriveMode.FORCED, reason="because")
    passed = [entry["code"] for entry in logs if entry["event"] == "redrive.gate_passed_over"]
    assert passed == ["history_records_outcome", "already_judged"]


def test_a_forced_redrive_that_no_gate_stands_against_passes_over_nothing(logs: Any) -> None:
    row = dead(history("activity_scheduled 1"))
    assert redrive(row.workflow_id, 1, mode=RedriveMode.FORCED, reason="because").was_judged is False
    assert [entry["event"] for entry in logs] == ["redrive.done"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("status", ["pending", "claimed", "done", "cancelled"])
def test_what_is_no_dead_letter_is_refused_with_its_status(status: str, mode: RedriveMode) -> None:
    """Specification B9.9."""
    row = alive(history("activity_scheduled 1"), status=status)
    refusal = refused(row.workflow_id, mode=mode)
    assert isinstance(refusal, NotDeadLettered)
    assert (refusal.code, refusal.status) == ("not_dead_lettered", status)
    assert status in str(refusal)


def test_of_a_done_row_with_its_outcome_recorded_the_history_speaks_first_and_forced_the_row() -> None:
    """Specification B9.9: forced, workflow live, where gate 2 would speak first."""
    row = alive(history("activity_scheduled 1", "activity_completed 1"), status="done")
    assert isinstance(refused(row.workflow_id), HistoryRecordsOutcome)
    forced = refused(row.workflow_id, mode=RedriveMode.FORCED)
    assert isinstance(forced, NotDeadLettered)
    assert forced.status == "done"


def test_when_several_gates_would_refuse_the_first_in_order_speaks() -> None:
    """Specification B3."""
    ended = history("activity_scheduled 1", "activity_failed 1", status="completed")
    alive(ended, status="done", failure_delivered=True)
    assert isinstance(refused(ended.pk), WorkflowTerminal)
    live = history("activity_scheduled 1", "activity_failed 1")
    dead(live, failure_delivered=True)
    assert isinstance(refused(live.pk), HistoryRecordsOutcome)
    without_a_row = history("activity_scheduled 1", "activity_failed 1")
    assert isinstance(refused(without_a_row.pk), HistoryRecordsOutcome)


def test_the_dead_letter_of_a_paused_workflow_goes_back_but_is_not_claimed_until_it_is_resumed(
    driver: flow.Driver,
) -> None:
    """Specification B9.13."""
    from durable.operations import pause, resume

    row = dead(history("activity_scheduled 1"))
    pause(row.workflow_id)
    done = redrive(row.workflow_id, 1)
    assert (done.row.status, done.row.paused) == ("pending", True)
    assert driver.claim() == []
    resume(row.workflow_id)
    assert driver.claim_one().row_id == row.pk


def test_both_budgets_are_extended_by_a_full_one_and_the_numbering_goes_on(settings: Any) -> None:
    """Specification B5, faults A9, A10: an allowance more, and nothing of what was is lost."""
    settings.DURABLE = {"DELIVERY_ATTEMPTS": 6}
    row = dead(
        history("activity_scheduled 1"),
        deliveries=9, delivery_failures=8, delivery_budget=8, attempts=3, attempt_budget=5,
        last_heartbeat='"half"', claimed_at=flow.STARTED_AT, suspect=True,
    )  # fmt: skip
    done = redrive(row.workflow_id, 1)
    now = OutboxRow.objects.get(pk=row.pk)
    assert (now.delivery_budget, now.attempt_budget) == (14, 10)
    assert (now.deliveries, now.delivery_failures, now.attempts, now.last_heartbeat) == (9, 8, 3, '"half"')
    assert (now.status, now.claimed_at, now.suspect, now.redrive_count) == ("pending", None, False, 1)
    assert (now.cause, now.dead_lettered_at, now.input) == (row.cause, row.dead_lettered_at, row.input)
    assert done.row.pk == row.pk
    assert done.row.delivery_budget == 14


def test_the_row_is_due_now(frozen_clock: Any) -> None:
    """Specification B5."""
    row = dead(history("activity_scheduled 1"), visible_after=frozen_clock.now + timedelta(days=3))
    assert redrive(row.workflow_id, 1).row.visible_after == frozen_clock.now


def test_the_application_budget_is_the_one_that_the_row_was_staged_with() -> None:
    from durable import Retry

    row = dead(history("activity_scheduled 1"), options={"retry": Retry(max_attempts=2).as_data()}, attempt_budget=2)
    assert redrive(row.workflow_id, 1).row.attempt_budget == 4


def test_an_activity_that_is_not_registered_here_gets_the_budget_of_the_settings() -> None:
    row = dead(history("activity_scheduled 1"), activity="gone.away")
    assert redrive(row.workflow_id, 1).row.attempt_budget == 10


def test_a_redrive_leaves_one_marker_and_one_audit_and_moves_the_workflow_behind_its_event(frozen_clock: Any) -> None:
    """Specification B5: in the same transaction an audit row and a marker event."""
    row = dead(history("activity_scheduled 1"))
    redrive(row.workflow_id, 1, actor="night shift", reason="bank is back")
    event = Event.objects.get(workflow_id=row.workflow_id, seq=3)
    assert (event.type, event.ordinal) == ("activity_redriven", 1)
    assert event.data == {"actor": "night shift", "reason": "bank is back", "mode": "eligible", "was_judged": False}
    assert Workflow.objects.get(pk=row.workflow_id).last_seq == 3
    audit = StaffAction.objects.get()
    assert (audit.outbox_row_id, audit.actor_id, audit.actor_text) == (row.pk, None, "night shift")
    assert (audit.mode, audit.reason, audit.was_judged) == ("eligible", "bank is back", False)
    assert audit.at == frozen_clock.now


def test_each_redrive_of_a_row_is_counted_and_audited_by_itself() -> None:
    """Faults A9: redrive appends."""
    row = dead(history("activity_scheduled 1"))
    redrive(row.workflow_id, 1, reason="first")
    OutboxRow.objects.filter(pk=row.pk).update(status="dead")
    done = redrive(row.workflow_id, 1, reason="second")
    assert done.row.redrive_count == 2
    assert sorted(StaffAction.objects.values_list("reason", flat=True)) == ["first", "second"]


def test_the_audit_names_the_user_and_keeps_the_name_when_the_user_is_gone(django_user_model: Any) -> None:
    """Faults J2 (users with other keys: `test_custom_user`)."""
    anna = django_user_model.objects.create_user("anna")
    row = dead(history("activity_scheduled 1"))
    redrive(row.workflow_id, 1, actor=anna)
    audit = StaffAction.objects.get()
    assert (audit.actor_id, audit.actor_text) == (anna.pk, "anna")
    anna.delete()
    audit.refresh_from_db()
    assert (audit.actor_id, audit.actor_text) == (None, "anna")


def test_nobody_may_be_the_actor() -> None:
    row = dead(history("activity_scheduled 1"))
    redrive(row.workflow_id, 1)
    audit = StaffAction.objects.get()
    assert (audit.actor_id, audit.actor_text, audit.reason) == (None, "", "")


def test_a_very_long_name_is_shortened_in_the_audit() -> None:
    row = dead(history("activity_scheduled 1"))
    redrive(row.workflow_id, 1, actor="x" * 1000)
    assert StaffAction.objects.get().actor_text == "x" * 300


def test_a_redrive_is_logged_with_workflow_ordinal_and_mode(logs: Any) -> None:
    """Specification B5."""
    row = dead(history("activity_scheduled 1"))
    redrive(row.workflow_id, 1)
    (entry,) = logs
    assert (entry["log_level"], entry["event"]) == ("info", "redrive.done")
    assert (entry["workflow"], entry["ordinal"], entry["mode"]) == (str(row.workflow_id), 1, "eligible")


def test_every_refusal_is_logged_as_a_warning_with_its_code(logs: Any) -> None:
    """Specification B5."""
    ended, judged = dead(history(status="failed")), dead(history(), failure_delivered=True)
    recorded, busy = dead(history("activity_failed 1")), alive(history(), status="claimed")
    for row in (ended, judged, recorded, busy):
        with pytest.raises(RedriveRefused):
            redrive(row.workflow_id, 1)
    with pytest.raises(RedriveRefused):
        redrive(uuid.uuid4(), 1)
    assert {entry["log_level"] for entry in logs} == {"warning"}
    assert [entry["code"] for entry in logs] == [
        "workflow_terminal", "already_judged", "history_records_outcome", "not_dead_lettered", "row_not_found",
    ]  # fmt: skip


@pytest.mark.parametrize("reason", ["", "   ", "\n"])
def test_a_forced_redrive_needs_a_reason(reason: str) -> None:
    """Specification B2."""
    row = dead(history("activity_scheduled 1"))
    before = everything()
    with pytest.raises(OptionInvalid, match="reason"):
        redrive(row.workflow_id, 1, mode=RedriveMode.FORCED, reason=reason)
    assert everything() == before


@pytest.mark.parametrize("words", ["a\0b", "\ud800"])
def test_text_that_no_database_takes_is_refused_by_name_at_the_call(words: str) -> None:
    row = dead(history("activity_scheduled 1"))
    before = everything()
    with pytest.raises(OptionInvalid, match="reason"):
        redrive(row.workflow_id, 1, reason=words)
    with pytest.raises(OptionInvalid, match="actor"):
        redrive(row.workflow_id, 1, actor=words)
    assert everything() == before


def test_markup_and_quotes_in_a_reason_are_kept_as_they_are() -> None:
    row = dead(history("activity_scheduled 1"))
    reason = """<script>alert("it's")</script> % %s {x}"""
    redrive(row.workflow_id, 1, reason=reason)
    assert StaffAction.objects.get().reason == reason
    assert Event.objects.get(workflow_id=row.workflow_id, type="activity_redriven").data["reason"] == reason


def test_every_refusal_has_a_code_of_its_own_and_one_sentence_for_staff() -> None:
    """Specification B3."""
    made = [
        WorkflowTerminal(uuid.uuid4(), "timed_out"),
        HistoryRecordsOutcome(uuid.uuid4(), "x:1:1", 1),
        RowNotFound(uuid.uuid4(), 1),
        NotDeadLettered(uuid.uuid4(), 1, "done"),
        AlreadyJudged(uuid.uuid4(), 1),
        errors.RowUnreadable(uuid.uuid4(), 1, "its options are a number, not an object"),
        errors.StoreUnavailable(OSError("gone"), outcome_unknown=False),
    ]
    for_developers = errors.TransactionOpen()  # staff read another sentence: they did not open the transaction
    every = [*made, for_developers]
    assert len({refusal.code for refusal in every}) == len(every) == len(RedriveRefused.__subclasses__())
    for refusal in made:
        assert str(refusal).endswith(".")
        assert "_" not in str(refusal)
