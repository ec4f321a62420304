"""“All that match”: the form carries a filter and a ceiling, never keys; beyond a few hundred rows workers do it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from durable.activities import QUEUE, change_some_dead_letters
from durable.admin.dead_letters import carrying_out
from durable.models import OutboxRow, StaffAction, Workflow
from durable.operations import pause
from durable.testing import drain, failing
from durable.workflows import change_dead_letters
from tests import factories
from tests.admin.dead_letters import choose, confirm, form_of, letter, list_url, said, status
from tests.conftest import FrozenClock

pytestmark = pytest.mark.django_db
Staff = Callable[..., Client]
VIEW = "view_deadletter"


@pytest.fixture
def redriver(staff: Staff) -> Client:
    """Somebody who may look and redrive."""
    return staff(VIEW, "redrive_deadletter")


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows are many already, and a piece has two."""
    monkeypatch.setattr(carrying_out, "AT_MOST_HERE", 2)
    monkeypatch.setattr("durable.admin.dead_letters.confirming.AT_MOST_HERE", 2)
    monkeypatch.setattr("durable.activities.AT_ONCE", 2)


def test_the_form_carries_the_filter_and_no_keys(redriver: Client) -> None:
    """Faults A5."""
    rows = [letter(activity="shop.charge") for _ in range(3)]
    other = letter(activity="shop.ship")
    page = choose(redriver, "redrive", query="?activity=shop.charge")
    assert "3 dead letters" in page.text
    assert "of the activity “shop.charge”" in page.text
    assert "_selected_action" not in form_of(page)
    (told,) = said(confirm(redriver, page))
    assert told.startswith("3 dead letters were queued for retry")
    assert [status(row) for row in rows] == ["pending"] * 3
    assert status(other) == "dead"


def test_what_fails_after_the_page_was_shown_is_not_among_them(redriver: Client) -> None:
    row = letter()
    page = choose(redriver, "redrive")
    late = letter()
    (told,) = said(confirm(redriver, page))
    assert told.startswith("1 dead letter was queued for retry")
    assert (status(row), status(late)) == ("pending", "dead")


def test_what_changed_since_the_preview_is_told_by_number(redriver: Client) -> None:
    rows = [letter() for _ in range(3)]
    page = choose(redriver, "redrive")
    OutboxRow.objects.filter(pk=rows[0].pk).update(failure_delivered=True)
    told = said(confirm(redriver, page))
    assert told[-1] == "This changed between the preview and the confirmation: 3 were expected, 2 were done."


def resting(**columns: Any) -> Any:
    """A dead letter whose paused workflow does nothing by itself while other work is carried on."""
    return letter(workflow__status="paused", **columns)


def finish() -> None:
    """Carry on all work that there is, through the pauses between its pieces."""
    drain(until=timedelta(hours=1))


@pytest.mark.usefixtures("few_at_once")
def test_many_are_done_by_a_workflow_with_a_page_that_counts_by_outcome(redriver: Client) -> None:
    rows = [resting() for _ in range(5)]
    judged = resting(failure_delivered=True)
    page = choose(redriver, "redrive")
    assert "this becomes a background job" in page.text
    assert "No worker serves the queue “durable” right now." in page.text
    answer = confirm(redriver, page, reason="the bank is back")
    assert said(answer)[0].startswith("The job has been queued for the workers.")
    assert "It has not started yet." in answer.text
    assert "No worker serves the queue “durable”, so the job does not run." in answer.text
    assert 'http-equiv="refresh"' in answer.text
    assert [status(row) for row in rows] == ["dead"] * 5
    work = Workflow.objects.get(type=change_dead_letters.name)
    assert work.queue == QUEUE
    finish()
    done = redriver.get(answer.wsgi_request.path)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", done.text))
    assert "Finished." in text
    assert "5 Queued for retry" in text
    assert "1 The workflow has moved on" in text
    assert "staff" in text
    assert "the bank is back" in text
    assert 'http-equiv="refresh"' not in done.text
    assert status(judged) == "dead"
    user = User.objects.get(username="staff")
    audits = StaffAction.objects.all()
    assert {(audit.actor, audit.actor_text, audit.reason) for audit in audits} == {(user, "staff", "the bank is back")}
    assert len(audits) == LogEntry.objects.count() == 5


@pytest.mark.usefixtures("few_at_once")
def test_a_form_for_many_that_is_sent_twice_begins_one_work(redriver: Client) -> None:
    """Faults A12."""
    for _ in range(3):
        resting()
    page = choose(redriver, "redrive")
    first = confirm(redriver, page)
    second = confirm(redriver, page)
    assert said(second) == ["Already done: this form has started the job before."]
    assert second.wsgi_request.path == first.wsgi_request.path
    finish()
    third = confirm(redriver, page)
    assert said(third) == said(second)
    assert Workflow.objects.filter(type=change_dead_letters.name).count() == 1


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", [change_some_dead_letters, "acknowledge", "turn"], ids=str)
def test_work_that_is_interrupted_counts_and_changes_each_row_once(redriver: Client, point: Any, when: Any) -> None:
    rows = [resting() for _ in range(5)]
    answer = confirm(redriver, choose(redriver, "redrive"))
    with failing(point, when=when):
        finish()
    finish()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", redriver.get(answer.wsgi_request.path).text))
    assert "5 Queued for retry" in text
    assert StaffAction.objects.count() == 5
    assert {OutboxRow.objects.get(pk=row.pk).redrive_count for row in rows} == {1}


@pytest.mark.usefixtures("few_at_once")
def test_the_work_is_found_again_from_the_list_and_from_its_workflow(root: Client) -> None:
    for _ in range(3):
        resting()
    answer = confirm(root, choose(root, "discard"), reason="paid by hand", then="cancel")
    path = answer.wsgi_request.path
    overview = reverse("admin:durable_deadletter_bulk_list")
    assert overview in root.get(list_url()).text
    found = root.get(overview).text
    assert path in found
    assert "paid by hand" in found
    assert "Only the newest" not in found
    work = Workflow.objects.get(type=change_dead_letters.name)
    assert path in root.get(reverse("admin:durable_workflow_change", args=[work.pk])).text


@pytest.mark.usefixtures("few_at_once")
def test_paused_work_is_not_called_under_way(root: Client) -> None:
    for _ in range(3):
        resting()
    answer = confirm(root, choose(root, "redrive"))
    assert said(answer) == ["The job has been queued for the workers. This page shows its progress."]
    pause(Workflow.objects.get(type=change_dead_letters.name).pk)
    text = root.get(answer.wsgi_request.path).text
    assert "It is paused. Resume its workflow to continue." in text
    assert "In progress" not in text


@pytest.mark.usefixtures("few_at_once")
def test_many_are_discarded_with_what_becomes_of_their_workflows(root: Client) -> None:
    rows = [resting() for _ in range(3)]
    confirm(root, choose(root, "discard"), reason="paid by hand", then="cancel")
    finish()
    assert [status(row) for row in rows] == ["cancelled"] * 3
    assert set(StaffAction.objects.values_list("mode", flat=True)) == {"cancel"}


def test_work_that_can_not_be_read_any_more_has_a_page_all_the_same(root: Client) -> None:
    """Faults A14."""
    work = factories.WorkflowFactory(type=change_dead_letters.name, input="{not json", last_seq=2)
    factories.EventFactory(workflow=work, seq=2, type="activity_completed", data={"result": "{not json"})
    page = root.get(reverse("admin:durable_deadletter_bulk", args=[work.pk]))
    assert "The request cannot be read here." in page.text
    assert root.get(reverse("admin:durable_deadletter_bulk_list")).status_code == 200
    gone = root.get(reverse("admin:durable_deadletter_bulk", args=[factories.ordered_uuid()]), follow=True)
    assert "doesn’t exist" in gone.text


def test_a_whole_list_of_fifty_thousand_goes_through_a_form_of_a_dozen_fields(redriver: Client, settings: Any) -> None:
    assert settings.DATA_UPLOAD_MAX_NUMBER_FIELDS == 1_000
    resting()
    assert len(form_of(choose(redriver, "redrive"))) < 12


def test_the_age_is_counted_from_when_the_page_was_shown(redriver: Client, frozen_clock: FrozenClock) -> None:
    old = resting(dead_lettered_at=frozen_clock.now - timedelta(minutes=59, seconds=59))
    page = choose(redriver, "redrive", query="?failed=hour")
    assert form_of(page)["failed_before"]
    frozen_clock.move(timedelta(minutes=5))
    (told,) = said(confirm(redriver, page))
    assert told.startswith("1 dead letter was queued for retry")
    assert status(old) == "pending"


def test_the_piece_of_work_is_an_activity_on_a_queue_of_its_own() -> None:
    assert change_some_dead_letters.queue == change_dead_letters.queue == QUEUE


EVIL = """<script>alert(1)</script>"'><img src=x onerror=alert(2)>"""


@pytest.mark.usefixtures("few_at_once")
def test_script_in_what_was_asked_for_is_inert_on_its_pages(root: Client) -> None:
    """Faults A15."""
    for number in range(3):
        resting(activity=EVIL, queue=EVIL, workflow__key=f"{EVIL}{number}")
    query = f"?{urlencode({'activity': EVIL, 'queue': EVIL})}"
    asking = choose(root, "discard", query=query)
    answer = confirm(root, asking, reason=EVIL)
    finish()
    overview = root.get(reverse("admin:durable_deadletter_bulk_list"))
    one = resting(activity=EVIL)
    messages = confirm(root, choose(root, "redrive", one), reason=EVIL)
    for page in (asking, answer, root.get(answer.wsgi_request.path), overview, messages):
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
    assert "alert(1)" in root.get(answer.wsgi_request.path).text
    assert "alert(1)" in messages.text
