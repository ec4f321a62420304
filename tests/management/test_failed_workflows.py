"""Workflows that have failed lately are named: by `durable health`, and at the head of the admin."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from durable.flow.looks import look
from durable.models import Workflow
from durable.outcomes import WorkflowStatus
from durable.store.operators import reads
from tests import factories
from tests.management.ran import Ran

pytestmark = pytest.mark.django_db


def ended(status: WorkflowStatus, *, hours: float, **values: Any) -> Workflow:
    return factories.WorkflowFactory(status=status.value, closed_at=factories.now() - timedelta(hours=hours), **values)


def test_health_names_workflows_and_single_activities_that_failed_or_timed_out_within_a_day() -> None:
    ended(WorkflowStatus.FAILED, hours=1)
    ended(WorkflowStatus.FAILED, hours=23, single=True)
    ended(WorkflowStatus.TIMED_OUT, hours=2)
    ended(WorkflowStatus.FAILED, hours=25)
    ended(WorkflowStatus.CANCELLED, hours=1)
    ended(WorkflowStatus.COMPLETED, hours=1)
    ran = Ran("health", "--json")
    assert (ran.code, ran.data["failed"]) == (1, 3)
    said = Ran("health").out
    assert "Workflows that failed or timed out within a day: 3." in said
    assert "All is well" not in said
    assert "`manage.py durable list --status failed` (or timed_out)" in said
    for status, number in (("failed", 3), ("timed_out", 1)):
        assert len(Ran("list", "--status", status, "--json").data) == number, "and the command that it names finds them"


def test_health_is_well_again_a_day_later() -> None:
    ended(WorkflowStatus.FAILED, hours=25)
    assert Ran("health").out.startswith("All is well")


def test_the_head_of_the_admin_names_them_and_leads_to_them(admin_client: Client) -> None:
    factories.WorkerFactory()
    ended(WorkflowStatus.FAILED, hours=1)
    text = admin_client.get(reverse("admin:app_list", args=["durable"])).text
    assert "workflow failed since yesterday</span>" in text
    assert "?status=failed" in text
    assert "All calm" not in text


def test_counting_them_stops_at_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "COUNT_CAP", 2)
    for _ in range(3):
        ended(WorkflowStatus.FAILED, hours=1)
    health = look.health()
    assert health.failed == 2
    assert any("within a day: 2+." in problem for problem in health.problems)


def test_counting_them_reads_an_index_of_failures_by_their_end_however_many_lie_in_the_table() -> None:
    old = factories.now() - timedelta(days=30)
    for status, closed_at in (("failed", old), ("completed", factories.now())):
        row = factories.WorkflowFactory.build(status=status, closed_at=closed_at)
        values = {field.attname: getattr(row, field.attname) for field in Workflow._meta.concrete_fields}
        Workflow.objects.bulk_create(Workflow(**{**values, "id": uuid.uuid4()}) for _ in range(5_000))
    ended(WorkflowStatus.FAILED, hours=1)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE durable_workflow")
    with CaptureQueriesContext(connection) as captured:
        assert look.health().failed == 1
    [statement] = [query["sql"] for query in captured if "timed_out" in query["sql"]]
    way = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
    with connection.cursor() as cursor:
        cursor.execute(f"{way} {re.sub('%', '%%', statement)}")
        plan = "\n".join(str(row) for row in cursor.fetchall())
    assert "durable_workflow_failed" in plan, plan


def test_show_prints_the_traceback_of_a_bug_line_by_line_unless_texts_are_hidden(settings: Any) -> None:
    workflow = factories.WorkflowFactory(blocked_reason="The workflow's code raised KeyError: 'cup'", last_seq=2)
    report = {"reason": "…", "error_type": "KeyError", "traceback": 'Traceback:\n  PRICES["cup"]\x1b[2J\nKeyError'}
    factories.EventFactory(workflow=workflow, seq=2, type="workflow_blocked", data=report)
    said = Ran("show", str(workflow.pk)).out.splitlines()
    at = next(index for index, line in enumerate(said) if line.startswith("blocked "))
    assert [line.strip() for line in said[at + 1 : at + 4]] == ["Traceback:", r'PRICES["cup"]\x1b[2J', "KeyError"]
    assert Ran("show", str(workflow.pk), "--json").data["block"]["error_type"] == "KeyError"
    settings.DURABLE = {"REDACT_PAYLOADS": True}
    assert "PRICES" not in Ran("show", str(workflow.pk)).out
    assert "PRICES" not in Ran("show", str(workflow.pk), "--json").out
