"""Staff at the dead letters, in Chromium: find, choose, preview, redrive, be refused, force, discard."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from durable.models import StaffAction
from durable.testing import drain
from tests.admin.dead_letters import letter, status
from tests.browser.conftest import Person

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=False),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
Enter = Callable[..., Person]
ALL = ("redrive_deadletter", "force_redrive_deadletter", "discard_deadletter", "cancel_workflow")


def test_from_the_index_to_a_redrive_and_its_message(person: Enter) -> None:
    row, other = letter(workflow__key="order-42"), letter(activity="shop.ship", cause="lease_lost")
    anna = person(*ALL, by_the_form=True)
    anna.sees("2 dead letters")
    anna.follow("Review")
    anna.follow("The worker died")
    anna.sees("order-42")
    assert "shop.ship\n" not in anna.text.partition("FILTER")[0]
    anna.tick(row.pk)
    anna.sees("1 of 1 selected")
    anna.choose("action", "Redrive")
    anna.press("Apply to selected")
    anna.sees("will be queued for retry")
    assert status(row) == "dead"
    anna.fill("reason", "the bank is back")
    anna.press("Redrive")
    anna.sees("1 dead letter was queued for retry.")
    assert (status(row), status(other)) == ("pending", "dead")
    assert (StaffAction.objects.get().actor_text, StaffAction.objects.get().reason) == ("anna", "the bank is back")
    anna.follow(f"#{row.pk}")
    anna.sees("It has already been redriven and waits for a worker.")
    anna.sees("the bank is back")


def test_a_refusal_is_explained_and_force_passes_it_with_a_reason(person: Enter) -> None:
    row = letter(failure_delivered=True)
    anna = person(*ALL)
    anna.go(f"/admin/durable/deadletter/{row.pk}/change/")
    anna.sees("The workflow got the failure of this activity and has moved on.")
    assert not anna.offers("Redrive")
    anna.follow("Force redrive")
    complete = "return document.querySelector('form.durable-form').checkValidity()"
    assert not anna.driver.execute_script(complete)  # the browser itself asks for the reason
    anna.fill("reason", "the courier lost it")
    assert anna.driver.execute_script(complete)
    anna.press("Force redrive")
    anna.sees("Its workflow has moved on")
    assert status(row) == "pending"


def test_what_changed_since_the_preview_is_refused_and_named(person: Enter) -> None:
    from durable.operations import redrive

    row = letter()
    anna = person(*ALL)
    anna.go(f"/admin/durable/deadletter/{row.pk}/redrive/")
    anna.sees("will be queued for retry")
    redrive(row.workflow_id, row.ordinal, actor="somebody else")
    anna.press("Redrive")
    anna.sees("1 was refused. It has already been redriven and waits for a worker.")
    anna.sees("1 changed between the preview and the confirmation:")


def test_a_discard_asks_what_becomes_of_the_workflow(person: Enter) -> None:
    row = letter()
    anna = person(*ALL)
    anna.go(f"/admin/durable/deadletter/{row.pk}/discard/")
    anna.sees("is asked to cancel itself")
    anna.driver.find_element("css selector", "input[name=then][value=cancel]").click()
    anna.fill("reason", "paid by hand")
    anna.press("Discard")
    anna.sees("1 dead letter was discarded. It will not run again.")
    assert (status(row), StaffAction.objects.get().mode) == ("cancelled", "cancel")


def test_the_back_button_leads_to_a_page_that_says_how_it_stands_now(person: Enter) -> None:
    row = letter()
    anna = person(*ALL)
    anna.go(f"/admin/durable/deadletter/{row.pk}/redrive/")
    anna.press("Redrive")
    anna.sees("1 dead letter was queued for retry")
    anna.driver.back()
    anna.sees("No longer a dead letter")
    anna.sees("It would be refused, so there is nothing to confirm.")
    assert StaffAction.objects.count() == 1


def test_a_double_click_does_it_once(person: Enter) -> None:
    row = letter()
    anna = person(*ALL)
    anna.go(f"/admin/durable/deadletter/{row.pk}/redrive/")
    anna.driver.execute_script(
        "const form = document.querySelector('form.durable-form');"
        "fetch('', {method: 'POST', body: new FormData(form)}); form.requestSubmit();"
    )
    anna.sees("1 was already done.", "1 dead letter was queued for retry")
    anna.go(f"/admin/durable/deadletter/{row.pk}/change/")
    anna.sees("It has already been redriven and waits for a worker.")
    assert StaffAction.objects.count() == 1


def test_all_that_match_are_done_in_the_background_with_progress(
    person: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("carrying_out", "confirming"):
        monkeypatch.setattr(f"durable.admin.dead_letters.{module}.AT_MOST_HERE", 2)
    rows = [letter(workflow__status="paused") for _ in range(4)]
    anna = person(*ALL)
    anna.go("/admin/durable/deadletter/?cause=worker_died")
    anna.choose("action", "Redrive")
    anna.press("Apply to all that match")
    anna.sees("this becomes a background job")
    anna.press("Redrive (4)")
    anna.sees("The job has been queued for the workers.")
    anna.sees("No worker serves the queue “durable”, so the job does not run.")
    drain(until=timedelta(minutes=10))
    anna.go("/admin/durable/deadletter/bulk/")
    anna.follow("Redrive: all that match")
    anna.sees("Finished.")
    anna.sees("Queued for retry")
    assert {status(row) for row in rows} == {"pending"}


def test_somebody_without_the_permission_can_look_and_do_nothing(person: Enter) -> None:
    row = letter()
    anna = person()
    anna.follow("Review")
    anna.sees("shop.charge")
    assert not anna.offers("Apply to selected")
    assert not anna.driver.find_elements("css selector", "input[type=checkbox]")
    anna.follow(f"#{row.pk} ")
    anna.sees("This will not be retried until someone acts")
    assert not any(anna.offers(name) for name in ("Redrive", "Force redrive", "Discard"))
    for action in ("redrive", "force_redrive", "discard"):
        anna.go(f"/admin/durable/deadletter/{row.pk}/{action}/")
        anna.sees("403 Forbidden")
    assert status(row) == "dead"


def test_a_redriver_is_offered_a_redrive_and_nothing_else(person: Enter) -> None:
    row = letter()
    anna = person("redrive_deadletter")
    anna.follow("Review")
    anna.follow(f"#{row.pk} ")
    anna.sees("This will not be retried until someone acts")
    assert [anna.offers(name) for name in ("Redrive", "Force redrive", "Discard")] == [True, False, False]


def test_a_workflow_is_paused_and_resumed_by_its_buttons(person: Enter) -> None:
    row = letter()
    anna = person("pause_workflow")
    anna.go(f"/admin/durable/workflow/{row.workflow_id}/change/")
    anna.follow("Pause")
    anna.press("Pause the workflow")
    anna.sees("The workflow is paused.")
    anna.follow("Resume")
    anna.press("Resume the workflow")
    anna.sees("The workflow has been resumed.")
    assert not anna.offers("Terminate")


def test_no_page_is_wider_than_the_window(person: Enter, chromium: Any) -> None:
    """Each page is loaded as on a phone, and then shown on a desk: one load for both."""
    row = letter(activity="shop." + "long_name_" * 12, workflow__key="order-" + "4" * 120, queue="q" * 80)
    anna = person(*ALL, "pause_workflow", "terminate_workflow", "signal_workflow", "cancel_workflow")
    base = "/admin/durable"
    for path in ("/", "/deadletter/", f"/deadletter/{row.pk}/change/", f"/deadletter/{row.pk}/redrive/",
                 f"/deadletter/{row.pk}/discard/", "/deadletter/bulk/", "/staffaction/",
                 f"/workflow/{row.workflow_id}/change/", f"/workflow/{row.workflow_id}/terminate/"):  # fmt: skip
        anna.resize(390)
        anna.go(base + path)
        for width in (390, 1280):
            anna.resize(width)
            assert anna.width(at_most=width) <= width, path
    for scheme in ("light", "dark"):
        chromium.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        anna.go(f"{base}/deadletter/{row.pk}/change/")
        for width in (390, 1280):
            anna.resize(width)
            assert anna.width(at_most=width) <= width, scheme
        paper = chromium.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
