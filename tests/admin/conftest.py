"""Who looks at the admin, and a row of every kind to look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from durable.models import DeadLetter, Message, OutboxRow, StaffAction, Worker, Workflow, WorkItem
from tests import factories

ROOMS = (Workflow, OutboxRow, WorkItem, Message, Worker, DeadLetter, StaffAction)


@pytest.fixture
def staff(db: None) -> Callable[..., Client]:
    """`staff("view_workflow", …)` is the browser of a staff member with these permissions of the app."""

    def enter(*codenames: str) -> Client:
        user = User.objects.create_user("staff", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(content_type__app_label="durable", codename__in=codenames))
        client = Client()
        client.force_login(user)
        return client

    return enter


@pytest.fixture
def root(db: None) -> Client:
    """The browser of a superuser."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@dataclass
class Scene:
    """One row of each kind that belong to each other."""

    workflow: Workflow
    row: OutboxRow
    item: WorkItem
    message: Message
    worker: Worker
    letter: DeadLetter
    redrive: StaffAction

    def pages(self) -> list[str]:
        """The addresses of all pages of these rows, and of all lists."""
        rows = (self.workflow, self.row, self.item, self.message, self.worker, self.letter, self.redrive)
        pages = [page_of(row) for row in rows] + [list_of(model) for model in ROOMS]
        return [*pages, event_of(self.workflow, 1)]


@pytest.fixture
def scene(db: None) -> Scene:
    """A running workflow with an activity that failed twice and is out, a dead letter that was redriven once, a signal
    that waits, and a worker.
    """
    workflow = factories.WorkflowFactory()
    factories.history_of(workflow, length=2)
    row = factories.OutboxRowFactory(workflow=workflow, status="claimed", attempts=2, deliveries=3)
    for number in (1, 2):
        factories.FailedAttemptFactory(outbox_row=row, number=number)
    return Scene(
        workflow=workflow,
        row=row,
        item=factories.WorkItemFactory(outbox_row=row),
        message=factories.MessageFactory(workflow=workflow),
        worker=factories.WorkerFactory(name="worker-1"),
        letter=(letter := factories.DeadLetterFactory(workflow=workflow, redrive_count=1)),
        redrive=factories.StaffActionFactory(outbox_row=letter),
    )


def list_of(model: Any) -> str:
    """The address of a room's list."""
    return reverse(f"admin:durable_{model._meta.model_name}_changelist")


def page_of(row: Any) -> str:
    """The address of a row's page."""
    return address(type(row), row.pk)


def address(model: Any, key: Any) -> str:
    """The address of the page of any key."""
    return reverse(f"admin:durable_{model._meta.model_name}_change", args=[key])


def event_of(workflow: Workflow, seq: int) -> str:
    """The address of an event's page."""
    return reverse("admin:durable_workflow_event", args=[workflow.pk, seq])


def statements(client: Client, url: str) -> list[str]:
    """The SQL that a page needs. The page has to open."""
    with CaptureQueriesContext(connection) as queries:
        response = client.get(url)
    assert response.status_code == 200, (url, response.status_code)
    return [query["sql"] for query in queries]


def engine_statements(client: Client, url: str) -> list[str]:
    """Of these, the ones on the engine's tables."""
    return [sql for sql in statements(client, url) if '"durable_' in sql]
