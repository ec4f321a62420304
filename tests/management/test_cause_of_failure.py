"""Which activities' failures ended a workflow: in its event, on its page, and in `durable show`."""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from durable import testing
from durable.decorators.activities import activity
from durable.decorators.workflows import workflow
from durable.errors import WorkflowFailed
from durable.flow.looks import look
from durable.kernel.definitions.retry import Retry
from durable.models import Event, OutboxRow, Workflow
from durable.outcomes import FailedActivity
from durable.store.operators import causes
from tests.management.ran import Ran

pytestmark = pytest.mark.django_db


@activity(name="causes.charge", retry=Retry(max_attempts=1))
def charge(n: int) -> int:
    if n % 2:
        raise ValueError("no money")
    return n


@workflow(name="causes.orders")
async def orders(count: int) -> None:
    outcomes = await asyncio.gather(*(charge.execute(n) for n in range(count)), return_exceptions=True)
    if errors := [it for it in outcomes if isinstance(it, Exception)]:
        raise ExceptionGroup("orders", errors)
    raise ValueError("of its own")


def failed(count: int) -> uuid.UUID:
    handle = orders.start(count)
    with pytest.raises(WorkflowFailed):
        testing.run(handle)
    return handle.id


def closing_event(workflow_id: uuid.UUID) -> Event:
    return Event.objects.get(workflow_id=workflow_id, type="workflow_failed")


def page(client: Client, workflow_id: uuid.UUID) -> str:
    response = client.get(reverse("admin:durable_workflow_change", args=[workflow_id]))
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.text.replace("<bdi>", "").replace("</bdi>", "")))


def test_the_activities_that_failed_a_workflow_stand_in_the_event_on_the_page_and_in_show(admin_client: Client) -> None:
    workflow_id = failed(4)
    assert closing_event(workflow_id).data["cause"] == [2, 4]
    rows = dict(OutboxRow.objects.values_list("ordinal", "pk"))
    ran = Ran("show", str(workflow_id), "--json")
    assert ran.data["cause"] == [
        {"ordinal": 2, "activity": "causes.charge", "row": rows[2]},
        {"ordinal": 4, "activity": "causes.charge", "row": rows[4]},
    ]
    said = Ran("show", str(workflow_id)).out
    assert "caused by activity 2 causes.charge\ncaused by activity 4 causes.charge\n" in said
    shown = page(admin_client, workflow_id)
    assert "Caused by the failure of activity 2 ( causes.charge ) the failure of activity 4 ( causes.charge )" in shown
    assert "(caused by calls 2, 4)" in shown
    address = reverse("admin:durable_outboxrow_change", args=[rows[2]])
    assert address in admin_client.get(reverse("admin:durable_workflow_change", args=[workflow_id])).text


def test_a_failure_of_the_code_itself_has_none(admin_client: Client) -> None:
    workflow_id = failed(1)
    assert "cause" not in closing_event(workflow_id).data
    assert look.cause_of_failure(workflow_id) == []
    assert "aused by" not in Ran("show", str(workflow_id)).out + page(admin_client, workflow_id)


def test_of_many_the_first_hundred_are_read(django_assert_max_num_queries: Any) -> None:
    workflow_id = failed(2)
    event = closing_event(workflow_id)
    for many in (range(1, 50_000), range(2**31 - 50_000, 2**31)):
        Event.objects.filter(workflow_id=workflow_id, seq=event.seq).update(data={"cause": list(many), "failure": {}})
        with django_assert_max_num_queries(3):
            read = look.cause_of_failure(workflow_id)
        assert [it.ordinal for it in read] == list(many)[: causes.MOST]
    assert read[0] == FailedActivity(2**31 - 50_000, None, "")


def test_only_the_closing_event_of_a_failed_workflow_is_asked() -> None:
    workflow_id = failed(2)
    Workflow.objects.update(status="completed")
    assert look.cause_of_failure(workflow_id) == []


def test_an_event_of_before_there_were_causes_and_a_damaged_one_have_none() -> None:
    workflow_id = failed(2)
    damaged: list[dict[str, Any]] = [{"failure": {}}, {"cause": "2"}, {"failure": {"cause": [2]}}, {"cause": [10**12]}]
    for data in damaged:
        Event.objects.filter(workflow_id=workflow_id, type="workflow_failed").update(data=data)
        assert look.cause_of_failure(workflow_id) == []
