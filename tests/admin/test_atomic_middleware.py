"""A middleware that opens a transaction around each request, as django-reversion's does: sentences, and never a 500."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import reverse

from durable.admin.dead_letters.actions import ACTIONS
from durable.admin.workflows.verbs import VERBS
from durable.models import DeadLetter, Event, Message, OutboxRow, StaffAction, Workflow
from durable.workflows import change_dead_letters
from tests import factories
from tests.admin.conftest import ROOMS, list_of, page_of
from tests.admin.dead_letters import choose, confirm, letter, list_url, one_url, said, status

pytestmark = pytest.mark.django_db(transaction=True)
SENTENCE = "This site wraps the request in a database transaction, and this needs one of its own. Nothing was changed."
CURE = "“manage.py durable” does the same from the command line"


def atomic_middleware(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A transaction around everything, whatever Django's own switches say about a view."""

    def middleware(request: HttpRequest) -> HttpResponse:
        with transaction.atomic():
            return get_response(request)

    return middleware


@pytest.fixture
def root(settings: Any) -> Client:
    """The browser of a superuser, of a site that has such a middleware."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.{atomic_middleware.__name__}"]
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("way", ["one", "ticked", "all"])
def test_actions_on_dead_letters_say_what_to_do_and_change_nothing(root: Client, action: str, way: str) -> None:
    """Faults K7."""
    row = letter()
    page = root.get(one_url(row, action)) if way == "one" else choose(root, action, *([row] if way == "ticked" else []))
    answer = confirm(root, page, reason="the bank is back")
    assert answer.status_code == 200
    assert SENTENCE in answer.text
    assert CURE in answer.text
    assert 'value="the bank is back"' in answer.text or ">the bank is back<" in answer.text
    assert (status(row), StaffAction.objects.count(), Event.objects.count()) == ("dead", 0, 2)


@pytest.mark.parametrize("verb", ["pause", "resume", "unblock", "terminate"])
def test_verbs_of_a_workflow_say_what_to_do_and_change_nothing(root: Client, verb: str) -> None:
    columns = {"resume": {"status": "paused"}, "unblock": {"blocked_reason": "other code"}}.get(verb, {})
    workflow = factories.WorkflowFactory(**columns)
    factories.history_of(workflow, length=1)
    answer = root.post(reverse(f"admin:durable_workflow_{verb}", args=[workflow.pk]), {"reason": "stuck"}, follow=True)
    assert answer.status_code == 200
    assert SENTENCE in answer.text
    assert CURE in answer.text
    assert said(answer) == []
    assert Event.objects.count() == 1
    again = Workflow.objects.get(pk=workflow.pk)
    assert (again.status, again.blocked_reason) == (workflow.status, workflow.blocked_reason)


def test_verbs_that_join_the_transaction_work(root: Client) -> None:
    workflow = factories.WorkflowFactory()
    factories.history_of(workflow, length=1)
    for verb, form in (("signal", {"signal": "news", "payload": "1"}), ("cancel", {})):
        (told,) = said(root.post(reverse(f"admin:durable_workflow_{verb}", args=[workflow.pk]), form, follow=True))
        assert told.startswith(("The signal “news” was accepted.", "The workflow was asked to cancel.")), told
    assert Message.objects.count() == 2


def test_more_rows_than_are_changed_at_once_are_handed_to_the_workers(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work begins with the middleware's commit, in a transaction of its own."""
    monkeypatch.setattr("durable.admin.dead_letters.carrying_out.AT_MOST_HERE", 1)
    rows = [letter(), letter()]
    answer = confirm(root, choose(root, "redrive"), reason="the bank is back")
    assert said(answer) == ["The job has been queued for the workers. This page shows its progress."]
    assert Workflow.objects.filter(type=change_dead_letters.name).count() == 1
    assert [status(row) for row in rows] == ["dead", "dead"]


def test_every_page_opens(root: Client) -> None:
    row = letter()
    pages = [list_of(model) for model in ROOMS] + [page_of(row.workflow), page_of(DeadLetter.objects.get(pk=row.pk))]
    pages += [page_of(OutboxRow.objects.get(pk=row.pk)), list_url()] + [one_url(row, action) for action in ACTIONS]
    pages += [reverse(f"admin:durable_workflow_{verb}", args=[row.workflow_id]) for verb in VERBS]
    for url in pages:
        assert root.get(url).status_code == 200, url
