"""The head of the app's page: what needs somebody now, or that nothing does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from unittest import mock

import pytest
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from durable.models import Worker
from tests import factories
from tests.admin.conftest import engine_statements, statements
from tests.admin.dead_letters import letter, list_url

pytestmark = pytest.mark.django_db


def index() -> str:
    return reverse("admin:app_list", args=["durable"])


def test_all_calm(root: Client) -> None:
    factories.WorkerFactory()
    text = root.get(index()).text
    assert "All clear" in text
    assert "1 worker is alive." in text
    assert "durable-card" not in text


def test_each_thing_that_needs_somebody_has_a_card_that_leads_there(root: Client) -> None:
    """Faults A19."""
    letter()
    factories.WorkflowFactory(blocked_reason="the code has changed")
    factories.WorkItemFactory(locked_until=factories.now() - timedelta(minutes=1))
    factories.OutboxRowFactory(queue="payments", visible_after=factories.now() - timedelta(minutes=20))
    factories.OutboxRowFactory(queue="mail", visible_after=factories.now() - timedelta(minutes=30))
    factories.WorkerFactory(queues=["mail"])
    text = root.get(index()).text.replace("\N{NO-BREAK SPACE}", " ")
    for part in ("dead letter</span>", "blocked workflow</span>", "stale claim</span>",
                 "due in “payments”, and no worker", "the oldest row has waited 20 minutes", "30 minutes</span>",
                 "wait of the oldest due row",
                 f'href="{list_url()}"', "?blocked=yes"):  # fmt: skip
        assert part in text, part
    assert "All clear" not in text


def test_a_workflow_that_can_run_and_that_nobody_turns_has_a_card(root: Client) -> None:
    """Faults S10: it sits between two steps, and no activity of it is due. By a message, and by its own timer."""
    factories.WorkerFactory(queues=[])
    factories.MessageFactory(visible_at=factories.now() - timedelta(minutes=30))
    factories.MessageFactory(visible_at=factories.now() - timedelta(minutes=40), parked=True)
    factories.WorkflowFactory(wake_at=factories.now() - timedelta(minutes=50), queue="mail")
    text = root.get(index()).text.replace("\N{NO-BREAK SPACE}", " ")
    for part in ("50 minutes</span>", "wait of the oldest workflow that can run", "Queue “mail” has workers"):
        assert part in text, part
    factories.WorkerFactory(name="other", queues=["other"])
    Worker.objects.filter(queues=[]).delete()
    text = root.get(index()).text.replace("\N{NO-BREAK SPACE}", " ")
    for part in (
        "due in “mail”, and no worker",
        "due in “default”, and no worker",
        "the oldest row has waited 30 minutes",
    ):
        assert part in text, part
    assert "workflow that can run" not in text


def test_a_workflow_that_has_just_become_due_is_no_trouble(root: Client) -> None:
    factories.WorkerFactory()
    factories.MessageFactory()
    factories.MessageFactory(visible_at=factories.now() + timedelta(minutes=5))
    factories.WorkflowFactory(wake_at=factories.now() + timedelta(minutes=5))
    assert "All clear" in root.get(index()).text


def test_a_silent_worker_serves_nothing(root: Client) -> None:
    factories.OutboxRowFactory(queue="mail")
    factories.WorkerFactory(queues=[], beat_at=factories.now() - timedelta(hours=1))
    assert "due in “mail”, and no worker" in root.get(index()).text


def test_each_card_needs_the_permission_to_view_what_it_counts(staff: Callable[..., Client]) -> None:
    letter()
    factories.WorkflowFactory(blocked_reason="x")
    text = staff("view_workflow").get(index()).text
    assert "blocked workflow</span>" in text
    assert "dead letter</span>" not in text


def test_a_database_that_does_not_answer_leaves_the_page_open(root: Client) -> None:
    with mock.patch("durable.admin.lists.triage.look.health", side_effect=OperationalError("gone")):
        response = root.get(index())
    assert response.status_code == 200
    assert "could not be looked up" in response.text


def test_triage_needs_a_fixed_number_of_bounded_statements(root: Client) -> None:
    letter()
    few = len(statements(root, index()))
    for _ in range(20):
        letter()
        factories.OutboxRowFactory()
    assert len(statements(root, index())) == few
    for sql in engine_statements(root, index()):
        assert "COUNT(" not in sql.upper() or "LIMIT" in sql


def test_a_queue_with_markup_in_its_name_is_inert(root: Client) -> None:
    """Faults A15."""
    factories.OutboxRowFactory(queue="<script>alert(1)</script>")
    text = root.get(index()).text
    assert "<script>alert" not in text
    assert "alert(1)" in text
