"""Staff at their work in Chromium, under the theme: the list, a filter, a selection, an action, pages, a workflow."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from durable.admin.lists.room import Room
from tests import factories
from tests.admin.dead_letters import letter, status
from tests.browser.conftest import Person, browser, browser_is_there, chromium, person  # noqa: F401 - fixtures

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
THEME = os.environ["DURABLE_TEST_THEME"]
Enter = Callable[..., Person]
ALL = ("redrive_deadletter", "force_redrive_deadletter", "discard_deadletter")


def narrow_by_unfold(anna: Person) -> None:
    anna.click("//a[contains(., 'Filters')]")
    anna.follow("The worker lost its lease")


def narrow_by_grappelli(anna: Person) -> None:
    anna.click("//a[contains(@class, 'grp-pulldown-handler')]")
    with anna.leaving():
        anna.click("//option[normalize-space(.)='The worker lost its lease']")


def narrow_by_jazzmin(anna: Person) -> None:
    anna.choose_by_name("select.search-filter[data-name=cause]", "The worker lost its lease")
    anna.press("Search")


NARROW = {"unfold": narrow_by_unfold, "grappelli": narrow_by_grappelli, "jazzmin": narrow_by_jazzmin}


def complaints(chromium: Any) -> list[str]:  # noqa: F811
    """What scripts of the pages have complained of."""
    return [entry["message"] for entry in chromium.get_log("browser") if "favicon" not in entry["message"]]


def test_from_the_list_to_a_redrive_and_its_message(person: Enter, chromium: Any) -> None:  # noqa: F811
    row, other = letter(cause="lease_lost", workflow__key="order-42"), letter(workflow__key="order-43")
    anna = person(*ALL)
    anna.follow("Review")
    anna.sees("order-43")
    NARROW[THEME](anna)
    anna.sees("order-42")
    assert "order-43" not in anna.text
    anna.tick(row.pk)
    anna.sees("1 of 1 selected")
    anna.choose_by_name("select[name=action]", "Redrive")
    anna.press("Apply to selected")
    anna.sees("will be queued for retry")
    assert status(row) == "dead"
    anna.fill("reason", "the bank is back")
    anna.press("Redrive")
    anna.sees("1 dead letter was queued for retry.")
    assert (status(row), status(other)) == ("pending", "dead")
    assert complaints(chromium) == []


def test_pages_past_the_first_and_all_that_match_by_the_other_button(
    person: Enter,  # noqa: F811
    chromium: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All rows of a page are ticked at once; the rows of the other pages are meant as well by the other button."""
    monkeypatch.setattr(Room, "list_per_page", 5)
    rows = [letter(workflow__key=f"order-{number}") for number in range(8)]
    anna = person(*ALL)
    anna.go("/admin/durable/deadletter/?cause=worker_died")
    anna.sees("order-7")
    anna.follow("Next")
    anna.sees("order-0")
    assert "order-7" not in anna.text
    anna.follow("Previous")
    anna.sees("order-7")
    anna.click("//input[@id='action-toggle']")
    anna.sees("5 of 5 selected")
    assert complaints(chromium) == []
    anna.choose_by_name("select[name=action]", "Discard")
    anna.press("Apply to all that match")
    anna.sees("will be closed")
    anna.fill("reason", "paid by hand")
    anna.press("Discard (8)")
    anna.sees("8 dead letters were discarded.")
    assert {status(row) for row in rows} == {"cancelled"}


def test_a_refusal_and_a_form_that_is_not_complete(person: Enter) -> None:  # noqa: F811
    row = letter(failure_delivered=True)
    anna = person(*ALL)
    anna.go(f"/admin/durable/deadletter/{row.pk}/change/")
    anna.sees("The workflow got the failure of this activity and has moved on.")
    assert not anna.offers("Redrive")
    anna.follow("Force redrive")
    anna.fill("reason", "the courier lost it")
    anna.press("Force redrive")
    anna.sees("Its workflow has moved on")
    assert status(row) == "pending"


def test_a_workflow_shows_title_and_status_and_its_verbs_work(person: Enter, chromium: Any) -> None:  # noqa: F811
    workflow = factories.WorkflowFactory(key="order-42")
    factories.history_of(workflow, length=120)
    anna = person("pause_workflow", "terminate_workflow", "cancel_workflow", "signal_workflow")
    anna.go(f"/admin/durable/workflow/{workflow.pk}/change/")
    title = chromium.find_element("css selector", "h1.durable-title")
    assert (title.is_displayed(), title.text.split()) == (True, ["shop.checkout", "Running"])
    anna.follow("Older")
    anna.sees("Events 1 to 20 of 120")
    anna.follow("Pause")
    anna.press("Pause the workflow")
    anna.sees("The workflow is paused.")
    assert chromium.find_element("css selector", "h1.durable-title").text.split() == ["shop.checkout", "Paused"]
    anna.follow("Terminate")
    anna.fill("reason", "not needed")
    anna.press("Terminate")
    anna.sees("The workflow was terminated.")
    workflow.refresh_from_db()
    assert workflow.status == "cancelled"
    assert complaints(chromium) == []
