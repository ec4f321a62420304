"""Rows without a limit of attempts, as staff see them."""

from __future__ import annotations

import pytest
from django.test import Client

from durable.models import DeadLetter
from tests import factories
from tests.admin.conftest import list_of, page_of
from tests.admin.reading import words
from tests.management.ran import Ran

pytestmark = pytest.mark.django_db


def test_pages_and_command_say_that_there_may_be_any_number(root: Client) -> None:
    workflow = factories.WorkflowFactory()
    waiting = factories.OutboxRowFactory(workflow=workflow, attempts=7, attempt_budget=None)
    out = factories.OutboxRowFactory(workflow=workflow, ordinal=2, status="claimed", attempts=8, attempt_budget=None)
    item = factories.WorkItemFactory(outbox_row=out, attempts=8, attempt_budget=None)
    dead = factories.OutboxRowFactory(workflow=workflow, ordinal=3, status="dead", attempts=9, attempt_budget=None)
    assert "7 of any number made" in words(root, page_of(workflow))
    assert "9 of any number running now" in words(root, page_of(workflow)).replace(",", "")
    assert "7 of any number made" in words(root, page_of(waiting))
    assert "8 / any number" in words(root, page_of(item))
    assert "9 of any number" in words(root, list_of(DeadLetter))
    assert dead.attempt_budget is None
    said = Ran("show", str(workflow.pk)).out
    assert "7/any" in said
    assert [row["attempt_budget"] for row in Ran("show", str(workflow.pk), "--json").data["pending"]] == [None] * 3
