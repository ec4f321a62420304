"""Discard by the admin: closed for good, with a reason, and with what becomes of a workflow that still waits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from durable.models import Message, StaffAction
from tests.admin.dead_letters import act, choose, confirm, fresh, letter, list_url, one_url, said, status

pytestmark = pytest.mark.django_db
Staff = Callable[..., Client]


@pytest.fixture
def discarder(staff: Staff) -> Client:
    """Somebody who may look, discard, and have workflows cancelled."""
    return staff("view_deadletter", "discard_deadletter", "cancel_workflow")


@pytest.mark.parametrize(("then", "told"), [("fail", ["failed"]), ("cancel", ["cancel", "failed"])])
def test_a_workflow_that_waits_is_told_what_was_chosen(discarder: Client, then: str, told: list[str]) -> None:
    row = letter()
    (message,) = act(discarder, "discard", row, reason="paid by hand", then=then)
    assert message.startswith("1 dead letter was discarded. It will not run again.")
    assert (status(row), fresh(row).discarded_at is not None) == ("cancelled", True)
    assert list(Message.objects.order_by("pk").values_list("kind", flat=True)) == told
    assert (StaffAction.objects.get().mode, StaffAction.objects.get().actor_text) == (then, "staff")
    assert LogEntry.objects.get().get_change_message() == "Discarded: paid by hand"


@pytest.mark.parametrize("way", ["one", "ticked", "all"])
def test_cancelling_the_workflow_needs_the_permission_to_cancel_as_well(staff: Staff, way: str) -> None:
    discarder = staff("view_deadletter", "discard_deadletter")
    row = letter()
    page = choose(discarder, "discard", row)
    assert 'value="fail"' in page.text
    assert 'value="cancel"' not in page.text
    form = {"confirmed": "yes", "reason": "paid by hand", "then": "cancel", "action": "discard"}
    url = one_url(row, "discard") if way == "one" else list_url()
    form |= {"ticked": {"_selected_action": str(row.pk)}, "all": {"select_across": "1"}}.get(way, {})
    assert discarder.post(url, form).status_code == 403
    assert (status(row), Message.objects.exists(), StaffAction.objects.exists()) == ("dead", False, False)
    assert discarder.post(url, form | {"then": "fail"}).status_code == 302
    assert status(row) == "cancelled"


def test_a_judged_one_is_only_closed(discarder: Client) -> None:
    row = letter(failure_delivered=True)
    page = choose(discarder, "discard", row)
    assert "Its workflow has moved on." in page.text
    several = choose(discarder, "discard", row, letter(failure_delivered=True), letter())
    assert "Workflow waiting: 1. Workflow moved on: 2." in several.text
    act(discarder, "discard", row, reason="done")
    assert status(row) == "cancelled"
    assert not Message.objects.exists()


def test_a_discard_needs_a_reason(discarder: Client) -> None:
    row = letter()
    again = confirm(discarder, choose(discarder, "discard", row), reason=" ")
    assert "A reason is required" in again.text
    assert status(row) == "dead"


def test_a_discard_asks_what_becomes_of_the_workflow_and_takes_no_other_answer(discarder: Client) -> None:
    row = letter()
    page = choose(discarder, "discard", row)
    assert page.text.count('name="then"') == 2
    again = confirm(discarder, page, reason="x", then="explode")
    assert "Choose what happens to" in again.text
    assert status(row) == "dead"


def test_a_discard_does_not_ask_where_no_workflow_waits(discarder: Client) -> None:
    judged = letter(failure_delivered=True)
    page = choose(discarder, "discard", judged)
    assert 'name="then"' not in page.text
    assert choose(discarder, "discard", judged, letter()).text.count('name="then"') == 2
    (told,) = said(confirm(discarder, page, reason="done"))
    assert told.startswith("1 dead letter was discarded.")


def test_a_second_discard_of_another_form_is_refused_with_what_happened(discarder: Client) -> None:
    """Faults A6."""
    row = letter()
    first, second = choose(discarder, "discard", row), choose(discarder, "discard", row)
    confirm(discarder, first, reason="paid by hand")
    assert said(confirm(discarder, second, reason="me too"))[0].startswith(
        "1 was refused. It was discarded in the meantime"
    )
    assert StaffAction.objects.count() == 1


def test_the_page_of_a_discarded_row_stays_readable(discarder: Client) -> None:
    row = letter()
    act(discarder, "discard", row, reason="paid by hand")
    text = discarder.get(one_url(row, "discard").replace("/discard/", "/change/")).text
    assert "It was discarded in the meantime" in text
    assert "paid by hand" in text
    assert "durable-button-off" in text
    assert "No: it stopped waiting" in text
