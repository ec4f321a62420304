"""Redrive by the admin: the gates of specification B, met by the people who may and the people who may not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from durable.flow.delivery.claim import claim
from durable.kernel.history.events import EventType
from durable.models import Event, OutboxRow, StaffAction, Workflow
from durable.operations import redrive, resume
from durable.outcomes import OutboxStatus, WorkflowStatus
from tests import factories
from tests.admin.conftest import page_of
from tests.admin.dead_letters import act, choose, confirm, fresh, letter, one_url, records, said, status

pytestmark = pytest.mark.django_db
Staff = Callable[..., Client]
VIEW = "view_deadletter"


@pytest.fixture
def redriver(staff: Staff) -> Client:
    """Somebody who may look and redrive, and nothing else."""
    return staff(VIEW, "redrive_deadletter")


@pytest.fixture
def forcer(staff: Staff) -> Client:
    """Somebody who may look and force, and nothing else."""
    return staff(VIEW, "force_redrive_deadletter")


def test_a_redrive_gives_the_row_back_and_is_audited_marked_and_logged(redriver: Client) -> None:
    """Specification B5."""
    row = letter()
    (told,) = act(redriver, "redrive", row, reason="the bank is back")
    assert told.startswith("1 dead letter was queued for retry.")
    now = fresh(row)
    assert (now.status, now.redrive_count, now.delivery_budget) == ("pending", 1, row.delivery_budget + 8)
    user = User.objects.get(username="staff")
    audit = StaffAction.objects.get()
    assert (audit.outbox_row_id, audit.actor, audit.actor_text) == (row.pk, user, "staff")
    assert (audit.mode, audit.reason, audit.was_judged) == ("eligible", "the bank is back", False)
    event = Event.objects.get(type=EventType.ACTIVITY_REDRIVEN.value)
    assert (event.ordinal, event.data["actor"], event.data["reason"]) == (1, "staff", "the bank is back")
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id, str(entry.content_type)) == (
        user,
        str(row.pk),
        "Durable execution | dead letter",
    )
    assert entry.get_change_message() == "Redriven: the bank is back"


def test_nothing_is_written_before_the_form_is_confirmed(redriver: Client) -> None:
    row = letter()
    assert choose(redriver, "redrive", row).status_code == 200
    assert redriver.get(one_url(row, "redrive")).status_code == 200
    assert status(row) == "dead"
    assert not StaffAction.objects.exists()
    assert not LogEntry.objects.exists()


def test_a_recorded_outcome_is_refused_in_words_and_the_row_is_not_touched(redriver: Client) -> None:
    """Specification B9.2."""
    row = letter()
    records(row, EventType.ACTIVITY_FAILED)
    page = choose(redriver, "redrive", row)
    assert "Outcome already recorded" in page.text
    (told,) = said(redriver.post(one_url(row, "redrive"), {"confirmed": "yes"}, follow=True))
    assert told.startswith("1 was refused. The workflow has already recorded how this activity ended")
    assert "Discard it." in told
    assert status(row) == "dead"
    assert not StaffAction.objects.exists()


def test_a_recorded_outcome_is_passed_by_force_which_says_that_it_was_judged(forcer: Client) -> None:
    """Specification B9.3."""
    row = letter()
    records(row, EventType.ACTIVITY_FAILED)
    (told,) = act(forcer, "force_redrive", row, reason="the courier lost it")
    assert "Its workflow has moved on" in told
    assert status(row) == "pending"
    assert (StaffAction.objects.get().mode, StaffAction.objects.get().was_judged) == ("forced", True)


def test_of_several_it_says_how_many_were_judged(forcer: Client) -> None:
    (told,) = act(forcer, "force_redrive", letter(), letter(failure_delivered=True), reason="the courier lost it")
    assert "The workflow of 1 of them has moved on" in told


def test_force_is_no_red_button_beside_a_redrive_that_would_go(staff: Staff) -> None:
    client = staff(VIEW, "redrive_deadletter", "force_redrive_deadletter")
    page = client.get(page_of(letter())).text
    assert "durable-button-quiet" in page
    assert "durable-button-danger" not in page
    page = client.get(page_of(letter(failure_delivered=True))).text
    assert "durable-button-quiet" not in page
    assert "durable-button-danger" in page


def test_force_is_a_red_button_where_a_redrive_is_not_offered(forcer: Client) -> None:
    page = forcer.get(page_of(letter())).text
    assert "durable-button-quiet" not in page
    assert "durable-button-danger" in page


def test_judged_by_the_marker_alone_is_refused_and_passed_by_force(staff: Staff) -> None:
    """Specification B9.8."""
    client = staff(VIEW, "redrive_deadletter", "force_redrive_deadletter")
    row = letter(failure_delivered=True)
    page = choose(client, "redrive", row)
    assert "The workflow has moved on" in page.text
    assert "nothing to confirm" in page.text
    assert "“Force redrive” can redrive it anyway." in page.text
    (told,) = said(client.post(one_url(row, "redrive"), {"confirmed": "yes"}, follow=True))
    assert told.startswith("1 was refused. The workflow got the failure of this activity")
    (told,) = act(client, "force_redrive", row, reason="sure")
    assert told.startswith("1 dead letter was queued for retry")
    assert status(row) == "pending"


STANDS = {
    OutboxStatus.PENDING: "waits for a worker",
    OutboxStatus.CLAIMED: "a worker is running it now",
    OutboxStatus.DONE: "It has finished in the meantime",
    OutboxStatus.CANCELLED: "It was discarded in the meantime",
}


@pytest.mark.parametrize("stands", list(STANDS))
def test_what_is_no_dead_letter_is_refused_with_how_it_stands(staff: Staff, stands: OutboxStatus) -> None:
    """Specification B9.9."""
    client = staff(VIEW, "redrive_deadletter", "force_redrive_deadletter")
    row = letter()
    OutboxRow.objects.filter(pk=row.pk).update(status=stands.value)
    for action in ("redrive", "force_redrive"):
        (told,) = said(client.post(one_url(row, action), {"confirmed": "yes", "reason": "x"}, follow=True))
        assert told.startswith("1 was refused.")
        assert STANDS[stands] in told
    assert status(row) == stands.value
    assert not StaffAction.objects.exists()


def test_a_workflow_that_has_ended_refuses_also_by_force(staff: Staff) -> None:
    """Specification B9.1."""
    client = staff(VIEW, "redrive_deadletter", "force_redrive_deadletter")
    row = letter(workflow__status="timed_out")
    for action in ("redrive", "force_redrive"):
        (told,) = said(client.post(one_url(row, action), {"confirmed": "yes", "reason": "x"}, follow=True))
        assert "nothing is waiting for the activity" in told
        assert "start it again" in told
    assert status(row) == "dead"


def test_of_two_who_redrive_one_row_the_second_is_told_that_it_is_given_back(redriver: Client) -> None:
    """Specification B9.10: the other one was faster between the preview and the answer, which is named."""
    row = letter()
    page = choose(redriver, "redrive", row)
    redrive(row.workflow_id, row.ordinal, actor="somebody else")
    refused, changed = said(confirm(redriver, page))
    assert refused.startswith("1 was refused. It has already been redriven and waits for a worker.")
    assert changed == f"1 changed between the preview and the confirmation: shop.charge #{row.pk}"
    assert StaffAction.objects.count() == 1


def test_a_dead_letter_of_a_paused_workflow_goes_back_and_is_claimed_when_it_is_resumed(redriver: Client) -> None:
    """Specification B9.13."""
    row = letter(workflow__status=WorkflowStatus.PAUSED.value)
    (told,) = act(redriver, "redrive", row)
    assert "Its workflow is paused; it runs when the workflow is resumed" in told
    assert fresh(row).paused
    ask: Any = {"worker": "w", "limit": 5, "queues": None, "lease_for": timedelta(minutes=1)}
    assert claim(**ask) == []
    resume(row.workflow_id)
    assert [each.row_id for each in claim(**ask)] == [row.pk]


def test_a_form_that_is_sent_twice_is_done_once_and_says_so(redriver: Client) -> None:
    """Faults A6, A12."""
    row = letter()
    page = choose(redriver, "redrive", row)
    confirm(redriver, page)
    (told,) = said(confirm(redriver, page))
    assert told.startswith("1 was already done.")
    assert StaffAction.objects.count() == 1
    assert LogEntry.objects.count() == 1


def test_a_form_that_is_sent_again_after_the_row_has_failed_again_does_not_redrive_it_again(redriver: Client) -> None:
    row = letter()
    page = choose(redriver, "redrive", row)
    confirm(redriver, page)
    OutboxRow.objects.filter(pk=row.pk).update(status="dead")
    (told,) = said(confirm(redriver, page))
    assert told.startswith("1 was already done.")
    assert (status(row), StaffAction.objects.count()) == ("dead", 1)


def test_force_needs_a_reason_and_asks_again_for_it(forcer: Client) -> None:
    row = letter()
    page = choose(forcer, "force_redrive", row)
    again = confirm(forcer, page, reason="   ")
    assert "A reason is required" in again.text
    assert status(row) == "dead"
    assert said(confirm(forcer, again, reason="now I have one"))[0].startswith("1 dead letter was queued for retry")


@pytest.mark.parametrize("reason", ["x" * 1_001, "nul\0"])
def test_a_reason_that_can_not_be_kept_is_asked_for_again(redriver: Client, reason: str) -> None:
    row = letter()
    page = choose(redriver, "redrive", row)
    again = confirm(redriver, page, reason=reason)
    assert 'role="alert"' in again.text
    assert status(row) == "dead"


def test_each_kind_of_outcome_has_one_message_with_its_number_and_links(staff: Staff) -> None:
    """Faults A7, A8."""
    client = staff(VIEW, "redrive_deadletter")
    rows = [letter() for _ in range(7)] + [letter(failure_delivered=True) for _ in range(2)]
    gone = letter()
    page = choose(client, "redrive", *rows, gone)
    OutboxRow.objects.filter(pk=gone.pk)._raw_delete("default")
    response = confirm(client, page)
    done, judged, not_there, changed = said(response)
    assert done.startswith("7 dead letters were queued for retry")
    assert done.endswith("and 2 more")
    assert judged.startswith("2 were refused. The workflow got the failure of this activity")
    assert not_there.startswith("1 was refused. It is not part of the workflow's current run, or was removed.")
    assert changed.startswith("1 changed between the preview")
    assert f'href="/admin/durable/deadletter/{rows[0].pk}/change/"' in response.text


def test_attempts_and_errors_so_far_stay_readable_after_a_redrive(staff: Callable[..., Client]) -> None:
    """Faults A9, A10."""
    from tests import factories

    redriver = staff(VIEW, "redrive_deadletter", "view_failure")

    row = letter(attempts=5, activity="of.no_project")
    factories.FailedAttemptFactory(outbox_row=row, number=5)
    act(redriver, "redrive", row)
    text = redriver.get(one_url(row, "redrive").replace("/redrive/", "/change/")).text
    assert "the bank is closed" in text
    assert "5 of 10 made" in text
    assert "staff" in text


def test_without_the_permission_to_view_failures_the_class_of_the_error_is_all(redriver: Client) -> None:
    from tests import factories

    row = letter(workflow__key="order-42")
    error = {"type": "BankDown", "message": "no secret", "traceback": "secret"}
    factories.FailedAttemptFactory(outbox_row=row, error=error)
    asked = choose(redriver, "redrive", row).text
    assert "(key order-42, BankDown)" in asked
    (told,) = act(redriver, "redrive", row)
    assert "(key order-42, BankDown)" in told
    page = redriver.get(one_url(row, "redrive").replace("/redrive/", "/change/")).text
    assert "BankDown" in page
    assert "Hidden: you need the permission to view failures." in page
    assert "secret" not in asked + told + page


def test_the_audit_outlives_its_actor(redriver: Client, root: Client) -> None:
    """Faults J2."""
    row = letter()
    act(redriver, "redrive", row, reason="the bank is back")
    User.objects.get(username="staff").delete()
    audit = StaffAction.objects.get()
    assert (audit.actor, audit.actor_text) == (None, "staff")
    assert "staff" in root.get("/admin/durable/staffaction/").text
    assert "the bank is back" in root.get(f"/admin/durable/staffaction/{audit.pk}/change/").text


def test_an_unknown_workflow_is_told_as_not_there(redriver: Client) -> None:
    """Specification B9.4."""
    row = letter()
    page = choose(redriver, "redrive", row)
    Workflow.objects.filter(pk=row.workflow_id)._raw_delete("default")
    told = said(confirm(redriver, page))
    assert told[0].startswith("1 was refused. It is not part of the workflow's current run, or was removed.")
    assert status(row) == "dead"


def test_the_question_and_the_message_name_the_business_key_and_the_error(staff: Callable[..., Client]) -> None:
    redriver = staff(VIEW, "redrive_deadletter", "view_failure")
    row = letter(workflow__key="order-42")
    error = {"type": "BankDown", "message": "no <answer>\nnor later", "traceback": "secret"}
    factories.FailedAttemptFactory(outbox_row=row, error=error)
    asked = choose(redriver, "redrive", row).text
    assert "(key order-42, BankDown: no &lt;answer&gt;)" in asked
    (told,) = act(redriver, "redrive", row)
    assert f"#{row.pk}" in told
    assert "(key order-42, BankDown: no <answer>)" in told
    assert "secret" not in asked + told
