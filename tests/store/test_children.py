"""Leading from a parent to its children costs nothing that grows with the table."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection

from durable.models import Workflow
from durable.store.connections import sql
from tests import factories
from tests.flow import cases
from tests.flow.driver import Driver

pytestmark = pytest.mark.django_db

LIVE_CHILDREN = "SELECT id FROM durable_workflow WHERE parent_id = %s AND status IN ('running', 'paused')"
"""What each close of a parent will ask."""


def plan(parent: uuid.UUID) -> str:
    way = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
    with connection.cursor() as cursor:
        cursor.execute(f"{way} {LIVE_CHILDREN}", [sql.param(connection, parent)])
        return "\n".join(str(row) for row in cursor.fetchall())


def test_the_children_of_a_parent_are_found_by_an_index_of_those_that_have_one() -> None:
    parents = [uuid.uuid4() for _ in range(100)]
    family: list[Any] = [factories.WorkflowFactory.build(parent_id=parents[n % 100]) for n in range(2_000)]
    Workflow.objects.bulk_create([*family, *(factories.WorkflowFactory.build() for _ in range(3_000))])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE durable_workflow")
    assert "durable_workflow_children" in plan(parents[7]), plan(parents[7])


def test_a_workflow_without_children_and_parent_is_in_no_such_index() -> None:
    """A start pays nothing for it, and its row counts no children, so its end need not look."""
    Driver().start(cases.nothing)
    Driver().run()
    assert Workflow.objects.values_list("status", "parent", "children").get() == ("completed", None, 0)
