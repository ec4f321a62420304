"""What pages say of parents and children, and what a form says before it ends a parent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from durable.models import Event, Workflow
from tests import factories
from tests.admin.conftest import list_of, page_of, statements
from tests.admin.reading import words
from tests.flow import families
from tests.flow.driver import Driver

pytestmark = pytest.mark.django_db


def family(width: int = 3, **values: Any) -> Workflow:
    """A parent with children that have not ended."""
    parent: Workflow = factories.WorkflowFactory(type="shop.campaign", children=width)
    factories.history_of(parent, length=1)
    for number in range(width):
        factories.WorkflowFactory(
            type="shop.parcel",
            parent=parent,
            parent_run=1,
            parent_ordinal=number + 1,
            **{"key": f"parcel-{number}", "parent_close": "cancel", **values},
        )
    return parent


def closed(workflow: Workflow, *, minutes: int, status: str = "completed") -> Workflow:
    """The same, ended this many minutes ago."""
    Workflow.objects.filter(pk=workflow.pk).update(
        status=status, closed_at=factories.now() - timedelta(minutes=minutes)
    )
    workflow.refresh_from_db()
    return workflow


def test_a_parents_page_lists_its_children_open_ones_first(root: Client) -> None:
    parent = family(3)
    first, *_ = Workflow.objects.filter(parent=parent).order_by("pk")
    closed(first, minutes=1)
    said = words(root, page_of(parent))
    listed = said.split("Children", 1)[1]
    assert listed.index("parcel-1") < listed.index("parcel-2") < listed.index("parcel-0")
    assert "it is asked to cancel" in listed
    page = root.get(page_of(parent)).text
    for child in Workflow.objects.filter(parent=parent):
        assert page_of(child) in page
    assert f"?parent={parent.pk}" in page


def test_a_workflow_without_children_has_no_such_part(root: Client) -> None:
    assert "If this one ends first" not in words(root, page_of(family(0)))


def test_of_many_children_a_hundred_are_shown_in_as_many_statements(root: Client) -> None:
    few = len(statements(root, page_of(family(1, key=None))))
    parent = family(120)
    assert len(statements(root, page_of(parent))) == few
    assert root.get(page_of(parent)).text.count(">shop.parcel</a>") <= 100


@pytest.mark.parametrize(
    ("policy", "words_of_it"),
    [
        ("cancel", "it is asked to cancel"),
        ("terminate", "it is terminated"),
        ("abandon", "it goes on"),
        ("detached", "it goes on"),
    ],
)
def test_a_childs_page_names_its_parent_and_the_policy(root: Client, policy: str, words_of_it: str) -> None:
    parent = family(1, parent_close=policy)
    child = Workflow.objects.get(parent=parent)
    said = words(root, page_of(child))
    assert f"Parent shop.campaign If the parent ends first {words_of_it}" in said
    assert "Its end" not in said
    assert page_of(parent) in root.get(page_of(child)).text


def test_a_childs_page_says_whether_its_end_was_told(root: Client) -> None:
    told = closed(Workflow.objects.get(parent=family(1)), minutes=1)
    assert "Its end told to the parent" in words(root, page_of(told))
    late = closed(Workflow.objects.get(parent=closed(family(1), minutes=5)), minutes=1)
    assert "not told to the parent, which had ended before" in words(root, page_of(late))
    detached = closed(Workflow.objects.get(parent=family(1, parent_close="detached")), minutes=1)
    assert "not told to the parent, which does not wait for it" in words(root, page_of(detached))


def test_the_list_shows_the_top_level_only_or_the_children_of_one(root: Client) -> None:
    parent = family(2)

    def listed(query: str) -> set[Any]:
        return {row.pk for row in root.get(f"{list_of(Workflow)}{query}").context["cl"].result_list}

    below = set(Workflow.objects.filter(parent=parent).values_list("pk", flat=True))
    assert listed("") == {parent.pk, *below}
    assert listed("?parent=none") == {parent.pk}
    assert listed(f"?parent={parent.pk}") == below
    assert "Top level only" in words(root, list_of(Workflow))
    assert f"Children of {parent.pk}" in words(root, f"{list_of(Workflow)}?parent={parent.pk}")
    assert root.get(f"{list_of(Workflow)}?parent=nonsense").status_code == 302


def test_the_form_of_terminate_counts_what_becomes_of_the_children(root: Client) -> None:
    parent = family(1)
    for policy, count in (("cancel", 1), ("terminate", 1), ("abandon", 2), ("detached", 1)):
        for _ in range(count):
            factories.WorkflowFactory(parent=parent, parent_close=policy)
    closed(factories.WorkflowFactory(parent=parent, parent_close="cancel"), minutes=1)
    form = words(root, reverse("admin:durable_workflow_terminate", args=[parent.pk]))
    said = "2 children of it are asked to cancel. 1 child of it is terminated. 3 children of it go on."
    assert said in form
    assert "of it " not in words(root, reverse("admin:durable_workflow_cancel", args=[parent.pk]))
    assert "of it " not in words(root, reverse("admin:durable_workflow_terminate", args=[family(0).pk]))


def test_beyond_ten_thousand_it_counts_no_further(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durable.admin.workflows.family._COUNTED", 3)  # no setting: few children are many
    form = words(root, reverse("admin:durable_workflow_terminate", args=[family(5).pk]))
    assert "3+ children of it are asked to cancel." in form


def test_children_that_a_user_may_not_see_are_not_listed(staff: Callable[..., Client], settings: Any) -> None:
    parent = family(2)
    Workflow.objects.filter(pk=parent.pk).update(queue="pay")
    Workflow.objects.filter(parent=parent, key="parcel-0").update(queue="pay")
    client = staff("view_workflow")
    User.objects.filter(username="staff").update(first_name="pay")
    settings.DURABLE = {"ADMIN_SCOPE": "tests.admin.scopes.by_queue"}
    said = words(client, page_of(parent))
    assert "parcel-0" in said
    assert "parcel-1" not in said


def test_a_failed_parent_names_the_child_that_caused_it(root: Client) -> None:
    driver = Driver()
    driver.start(families.waits, key="taken")
    driver.run()
    parent = driver.start(families.fails_by_key)
    driver.run()
    child_error = driver.start(families.fails_by_child)
    driver.run()
    assert "caused by call 1" in words(root, page_of(Workflow.objects.get(pk=parent)))
    said = words(root, page_of(Workflow.objects.get(pk=child_error)))
    assert "the end of child 1 ( families.fails )" in said
    child = Workflow.objects.get(parent_id=child_error)
    assert page_of(child) in root.get(page_of(Workflow.objects.get(pk=child_error))).text


SENTENCES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "child_started": [
        ({"child": "c-1", "type": "shop.parcel"}, "Child shop.parcel started as c-1"),
        (
            {"child": "c-1", "type": "shop.parcel", "refused": {}},
            "Child shop.parcel was not started: its key was taken",
        ),
    ],
    "child_completed": [({"child": "c-1", "result": "1"}, "Child c-1 completed")],
    "child_failed": [
        (
            {"child": "c-1", "status": "failed", "failure": {"type": "OSError", "message": "closed"}},
            "Child c-1 failed with OSError: closed",
        ),
        ({"child": "c-1", "status": "cancelled", "reason": "late"}, "Child c-1 was cancelled: late"),
        ({"child": "c-1", "status": "timed_out"}, "Child c-1 timed out"),
        ({"child": "c-1", "status": "refused"}, "Child c-1 was not started: its key was taken"),
    ],
    "child_cancelled": [({"child": "c-1"}, "Child c-1 is no longer awaited")],
    "signal_sent": [
        ({"to": "w-1", "name": "go"}, "Signal “go” sent to w-1"),
        (
            {"type": "shop.order", "key": "o-1", "name": "go", "refused": "closed"},
            "Signal “go” sent to shop.order with the key “o-1”. It was refused, since the workflow had ended.",
        ),
        (
            {"to": "w-1", "cancel": True, "refused": "not_found"},
            "Workflow w-1 asked to cancel. It was refused, since there was no such workflow.",
        ),
    ],
    "signal_answered": [
        ({}, "The other workflow has accepted what was sent"),
        (
            {"refused": "single"},
            "The other workflow has not accepted what was sent. It was refused, since this is a single activity.",
        ),
    ],
}


@pytest.mark.parametrize("event", SENTENCES)
def test_events_of_families_are_sentences(root: Client, event: str) -> None:
    for data, sentence in SENTENCES[event]:
        workflow = factories.WorkflowFactory()
        factories.history_of(workflow, length=1)
        at = factories.now()
        made: Any = Event
        made.objects.create(workflow=workflow, seq=2, type=event, ordinal=1, data=data, recorded_at=at)
        Workflow.objects.filter(pk=workflow.pk).update(last_seq=2)
        assert sentence in words(root, page_of(workflow))
