"""What staff do to a workflow: the same functions as from Python, a question before and a message after each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from durable.kernel.history.events import EventType
from durable.models import Event, Message, OutboxRow, Workflow
from tests import factories
from tests.admin.conftest import page_of
from tests.admin.dead_letters import said

pytestmark = pytest.mark.django_db


@pytest.fixture
def workflow() -> Workflow:
    """A running workflow with its first event."""
    made: Workflow = factories.WorkflowFactory()
    factories.history_of(made, length=1)
    return made


def send(client: Client, verb: str, workflow: Workflow, **form: str) -> Any:
    """Send the form of a verb, and follow."""
    return client.post(reverse(f"admin:durable_workflow_{verb}", args=[workflow.pk]), form, follow=True)


def told(client: Client, verb: str, workflow: Workflow, **form: str) -> str:
    """The message that comes of it."""
    (message,) = said(send(client, verb, workflow, **form))
    return message


def last_event(workflow: Workflow) -> Event:
    return Event.objects.filter(workflow_id=workflow.pk).order_by("-seq")[0]


def test_terminate_ends_it_with_reason_and_actor(root: Client, workflow: Workflow) -> None:
    row = factories.OutboxRowFactory(workflow=workflow)
    assert told(root, "terminate", workflow, reason="stuck") == (
        "The workflow was terminated. Its activities are closed."
    )
    workflow.refresh_from_db()
    event = last_event(workflow)
    assert (workflow.status, event.data["reason"], event.data["actor"]) == ("cancelled", "stuck", "root")
    assert OutboxRow.objects.get(pk=row.pk).status == "cancelled"
    assert LogEntry.objects.get().get_change_message() == "Terminated: stuck"
    again = told(root, "terminate", workflow, reason="stuck")
    assert again == "Nothing was changed: this workflow has already ended (cancelled)."


def test_terminate_needs_a_reason(root: Client, workflow: Workflow) -> None:
    assert "A reason is required" in send(root, "terminate", workflow).text
    workflow.refresh_from_db()
    assert workflow.status == "running"


def test_pause_and_resume_with_typed_answers_when_it_is_so_already(root: Client, workflow: Workflow) -> None:
    assert told(root, "pause", workflow, reason="the bank is away").startswith("The workflow is paused.")
    assert (last_event(workflow).type, last_event(workflow).data["actor"]) == (EventType.WORKFLOW_PAUSED, "root")
    assert told(root, "pause", workflow) == "Nothing was changed: It is already paused."
    assert told(root, "resume", workflow) == "The workflow has been resumed."
    assert last_event(workflow).type == EventType.WORKFLOW_RESUMED
    assert told(root, "resume", workflow) == "Nothing was changed: It is not paused."
    assert Event.objects.filter(workflow_id=workflow.pk).count() == 3


def test_unblock(root: Client, workflow: Workflow) -> None:
    assert told(root, "unblock", workflow) == "Nothing was changed: the workflow is not blocked."
    Workflow.objects.update(blocked_reason="the code has changed")
    assert told(root, "unblock", workflow, reason="deployed").startswith("The workflow tries again.")
    workflow.refresh_from_db()
    assert (workflow.blocked_reason, last_event(workflow).data["reason"]) == ("", "deployed")


def test_cancel_asks_the_workflow_once(root: Client, workflow: Workflow) -> None:
    for _ in range(2):
        assert told(root, "cancel", workflow, reason="changed my mind").startswith("The workflow was asked to cancel.")
    message = Message.objects.get()
    assert json.loads(message.payload) == {"actor": "root", "reason": "changed my mind"}


@pytest.mark.parametrize("verb", ["signal", "cancel"])
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"status": "paused"}, "The workflow is paused, so this takes effect when it is resumed."),
        ({"blocked_reason": "other code"}, "The workflow is blocked, so this takes effect when it is unblocked."),
    ],
    ids=["paused", "blocked"],
)
def test_what_is_sent_to_a_workflow_that_does_not_turn_is_said_to_come_later(
    root: Client, workflow: Workflow, verb: str, changed: dict[str, str], told: str
) -> None:
    form = {"signal": "approval"} if verb == "signal" else {}
    (before,) = said(send(root, verb, workflow, **form))
    assert told not in before
    Workflow.objects.filter(pk=workflow.pk).update(**changed)
    (after,) = said(send(root, verb, workflow, **form))
    assert after == f"{before} {told}"


def test_cancel_of_what_is_over_says_so(root: Client) -> None:
    ended = factories.WorkflowFactory(status="completed")
    assert told(root, "cancel", ended) == "It had already ended (completed), so there was nothing to cancel."


def test_cancel_of_a_single_activity_that_nobody_has_is_done_at_once(root: Client, workflow: Workflow) -> None:
    Workflow.objects.update(single=True)
    factories.OutboxRowFactory(workflow=workflow)
    assert told(root, "cancel", workflow) == "It is cancelled."


def test_cancel_of_a_single_activity_that_runs_promises_what_its_handler_can_see(
    root: Client, workflow: Workflow
) -> None:
    Workflow.objects.update(single=True)
    factories.WorkItemFactory(outbox_row__workflow=workflow)
    page = root.get(reverse("admin:durable_workflow_cancel", args=[workflow.pk])).text
    assert "Cancel the activity" in page
    assert "Which activity" in page
    assert "Which workflow" not in page
    assert "If its handler is running" in page
    assert "clean up first" not in page
    assert told(root, "cancel", workflow) == (
        "The activity was asked to stop. Its handler sees this when it next checks, or runs to its end."
    )


def test_a_signal_carries_json(root: Client, workflow: Workflow) -> None:
    text = told(root, "signal", workflow, signal="approval", payload='{"ok": true}')
    assert text == "The signal “approval” was accepted. The workflow reads it at its next step."
    sent = json.loads(Message.objects.get().payload)
    assert (sent["name"], json.loads(sent["payload"])) == ("approval", {"ok": True})


@pytest.mark.parametrize(
    ("form", "problem"),
    [({}, "Enter the name of the signal"), ({"signal": "a", "payload": "{no"}, "is not valid JSON"),
     ({"signal": "x" * 300}, "signal name"), ({"signal": "a", "payload": '"\\u0000"'}, "payload")],
)  # fmt: skip
def test_a_signal_that_can_not_be_sent_is_asked_for_again(
    root: Client, workflow: Workflow, form: dict[str, str], problem: str
) -> None:
    response = send(root, "signal", workflow, **form)
    assert 'role="alert"' in response.text
    assert problem in response.text
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        ("MAX_UNREAD_SIGNALS", "1 are already waiting to be read"),
        ("MAX_HISTORY_EVENTS", "has no room for more signals"),
    ],
)
def test_a_signal_for_which_there_is_no_room_is_refused_in_words(
    root: Client, workflow: Workflow, settings: Any, limit: str, problem: str
) -> None:
    send(root, "signal", workflow, signal="approval")
    settings.DURABLE = {limit: 1}
    response = send(root, "signal", workflow, signal="approval")
    assert 'role="alert"' in response.text
    assert problem in response.text
    assert Message.objects.count() == 1


def test_a_form_that_is_sent_twice_is_done_once(root: Client, workflow: Workflow) -> None:
    """Faults A12: also after the workflow has taken the first signal."""
    page = root.get(reverse("admin:durable_workflow_signal", args=[workflow.pk]))
    form = {"request_id": page.context["request_id"], "signal": "approval"}
    send(root, "signal", workflow, **form)
    Message.objects.all().delete()
    assert told(root, "signal", workflow, **form) == "Already done: this form was submitted before."
    assert not Message.objects.exists()
    assert LogEntry.objects.count() == 1


def test_two_forms_at_the_same_moment_leave_one_signal(root: Client, workflow: Workflow) -> None:
    page = root.get(reverse("admin:durable_workflow_signal", args=[workflow.pk]))
    form = {"request_id": page.context["request_id"], "signal": "approval"}
    send(root, "signal", workflow, **form)
    session = root.session
    session.clear()
    root.force_login(User.objects.get())  # a session that has not yet heard of the first
    send(root, "signal", workflow, **form)
    assert Message.objects.count() == 1


def test_what_does_not_fit_the_state_is_no_button_or_says_why(root: Client, workflow: Workflow) -> None:
    def links(verb: str) -> bool:
        url = reverse(f"admin:durable_workflow_{verb}", args=[workflow.pk])
        return f'href="{url}"' in root.get(page_of(workflow)).text

    assert (links("pause"), links("resume"), links("unblock"), links("terminate")) == (True, False, False, True)
    Workflow.objects.update(status="paused", blocked_reason="x")
    assert (links("pause"), links("resume"), links("unblock")) == (False, True, True)
    Workflow.objects.update(status="failed", closed_at=factories.now())
    assert not any(links(verb) for verb in ("pause", "resume", "unblock", "terminate", "cancel", "signal"))
    assert "This workflow has ended (failed)." in root.get(page_of(workflow)).text


@pytest.mark.parametrize("verb", ["cancel", "terminate", "pause", "signal"])
def test_a_database_that_does_not_answer_is_told(root: Client, workflow: Workflow, verb: str) -> None:
    from durable.admin.workflows import verbs as workflow_verbs

    kind = workflow_verbs.VERBS[verb]

    def away(*args: Any) -> Any:
        raise OperationalError("gone")

    broken = {**workflow_verbs.VERBS, verb: mock.Mock(wraps=kind, carry_out=away, reason=kind.reason)}
    for name in ("name", "label", "title", "explained", "tone", "permission"):
        setattr(broken[verb], name, getattr(kind, name))
    with mock.patch.object(workflow_verbs, "VERBS", broken):
        assert "The database did not answer" in told(root, verb, workflow, reason="x", signal="a")
    assert not LogEntry.objects.exists()


def test_a_workflow_that_is_not_there_leads_back(root: Client) -> None:
    url = reverse("admin:durable_workflow_terminate", args=[factories.ordered_uuid()])
    assert "doesn’t exist" in root.post(url, {"reason": "x"}, follow=True).text


def test_verbs_answer_nothing_but_questions_and_forms(root: Client, workflow: Workflow) -> None:
    url = reverse("admin:durable_workflow_terminate", args=[workflow.pk])
    for method in ("put", "delete", "patch"):
        call: Callable[..., Any] = getattr(root, method)
        assert call(url).status_code == 403


def test_a_single_activity_is_not_offered_signals_and_takes_none(root: Client, workflow: Workflow) -> None:
    """It has no code that could wait for one; a form that is sent all the same changes nothing."""
    Workflow.objects.filter(pk=workflow.pk).update(single=True)
    page = root.get(reverse("admin:durable_workflow_signal", args=[workflow.pk]))
    assert "A single activity has no code that waits for signals." in page.text
    assert "is a single activity" in send(root, "signal", workflow, signal="go").text
    assert not Message.objects.exists()
