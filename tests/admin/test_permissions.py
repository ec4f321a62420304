"""Each action needs its own permission, on every way to it: lists, pages, and forms that were forged. Faults A13."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from durable.admin.dead_letters.actions import ACTIONS
from durable.admin.workflows.verbs import VERBS
from durable.models import DeadLetter, Workflow
from tests import factories
from tests.admin.conftest import page_of
from tests.admin.dead_letters import letter, list_url, one_url
from tests.admin.permissions import FORM, OF_ACTION, OF_VERB, ROLES
from tests.admin.snapshots import snapshot

pytestmark = pytest.mark.django_db
Staff = Callable[..., Client]


@pytest.mark.parametrize("action", list(OF_ACTION))
@pytest.mark.parametrize("role", list(ROLES))
def test_actions_on_dead_letters(staff: Staff, role: str, action: str) -> None:
    """List, page and forged POST, for one row and for all that match."""
    row = letter()
    client = staff(*ROLES[role])
    may = OF_ACTION[action] in ROLES[role]
    before = snapshot()
    shown = client.get(list_url())
    page = client.get(page_of(row))
    if role == "nobody":
        assert {shown.status_code, page.status_code} == {403}
    else:
        assert (f'<option value="{action}">' in shown.text) == may
        assert (one_url(row, action) in page.text) == may
    ways = [
        lambda: client.get(one_url(row, action)),
        lambda: client.post(list_url(), {"action": action, "_selected_action": row.pk}),
        lambda: client.post(list_url(), {"action": action, "select_across": "1"}),
    ]
    assert {way().status_code for way in ways} == {200 if may else 403}
    assert snapshot() == before
    forged: list[Callable[[], Any]] = [
        lambda: client.post(one_url(row, action), FORM),
        lambda: client.post(list_url(), {**FORM, "action": action, "_selected_action": row.pk}),
        lambda: client.post(list_url(), {**FORM, "action": action, "select_across": "1"}),
    ]
    assert {way().status_code for way in forged} == {302 if may else 403}
    assert (snapshot() != before) == may


@pytest.mark.parametrize("verb", list(OF_VERB))
@pytest.mark.parametrize("role", list(ROLES))
def test_verbs_on_workflows(staff: Staff, role: str, verb: str) -> None:
    states = {"resume": {"status": "paused"}, "unblock": {"blocked_reason": "the code has changed"}}
    workflow = factories.WorkflowFactory(**states.get(verb, {}))
    url = reverse(f"admin:durable_workflow_{verb}", args=[workflow.pk])
    client = staff(*ROLES[role])
    may = OF_VERB[verb] in ROLES[role]
    before = snapshot()
    if role != "nobody":
        assert (url in client.get(page_of(workflow)).text) == may
    assert client.get(url).status_code == (200 if may else 403)
    assert snapshot() == before
    assert client.post(url, FORM).status_code == (302 if may else 403)
    assert (snapshot() != before) == may


@pytest.mark.parametrize("kind", ["actions", "verbs"])
def test_a_permission_to_act_without_one_to_look_opens_nothing(staff: Staff, kind: str) -> None:
    row = letter()
    client = staff(*OF_ACTION.values(), *OF_VERB.values())
    before = snapshot()
    if kind == "actions":
        urls = [one_url(row, action) for action in ACTIONS]
        assert client.post(list_url(), {**FORM, "action": "redrive", "select_across": "1"}).status_code == 403
    else:
        urls = [reverse(f"admin:durable_workflow_{verb}", args=[row.workflow_id]) for verb in VERBS]
    for url in urls:
        assert client.get(url).status_code == 403
        assert client.post(url, FORM).status_code == 403
    assert snapshot() == before


def test_every_verb_has_one_permission_and_every_permission_a_verb() -> None:
    """Reopening is of a later release."""
    codenames = {f"{codename}" for model in (DeadLetter, Workflow) for codename, _text in model._meta.permissions} - {
        "view_payload",
        "view_failure",
        "reopen_workflow",
    }
    assert codenames == set(OF_ACTION.values()) | set(OF_VERB.values())


def test_a_viewer_sees_no_boxes_to_tick_and_no_buttons(staff: Staff) -> None:
    row = letter()
    client = staff("view_deadletter")
    assert "_selected_action" not in client.get(list_url()).text
    assert "durable-button" not in client.get(page_of(row)).text


def test_payloads_of_dead_letters_need_their_permission(staff: Staff) -> None:
    row = letter(input='{"order_id":"secret"}')
    assert "secret" not in staff("view_deadletter").get(page_of(row)).text


def test_payloads_of_dead_letters_are_shown_with_it(staff: Staff) -> None:
    row = letter(input='{"order_id":"secret"}')
    assert "secret" in staff("view_deadletter", "view_payload").get(page_of(row)).text


def test_work_in_the_background_is_seen_by_viewers_only(staff: Staff) -> None:
    assert staff("view_workflow").get(reverse("admin:durable_deadletter_bulk_list")).status_code == 403


@pytest.mark.parametrize("name", ["delete_selected", "redrive2", "__class__"])
def test_an_action_that_does_not_exist_is_refused(root: Client, name: str) -> None:
    row = letter()
    assert root.post(list_url(), {"action": name, "_selected_action": row.pk, **FORM}).status_code == 403


def test_forms_without_a_token_are_refused(db: None) -> None:
    """A site of somebody else's can not press the buttons."""
    from django.contrib.auth.models import User

    row = letter()
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    before = snapshot()
    assert client.post(one_url(row, "redrive"), FORM).status_code == 403
    assert client.post(list_url(), {"action": "redrive", "select_across": "1", **FORM}).status_code == 403
    assert snapshot() == before
