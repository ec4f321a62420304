"""Every page opens, whatever stands in the rows, and whatever it is stays text."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.admin.utils import quote as quote_key
from django.db import connection
from django.test import Client, override_settings
from django.utils.html import escape

from durable.admin.workflows.verbs import VERBS
from durable.models import DeadLetter, Event, FailedAttempt, Message, OutboxRow, Worker, Workflow, WorkItem
from tests import factories
from tests.admin.conftest import ROOMS, Scene, address, event_of, list_of, page_of

pytestmark = pytest.mark.django_db

EVIL = """</pre><script>alert(1)</script>"'><img src=x onerror=alert(2)>"""


def test_script_in_any_text_is_inert_on_every_page(root: Client) -> None:
    """Faults A15."""
    failure = {"type": EVIL, "message": EVIL, "traceback": EVIL}
    workflow = factories.WorkflowFactory(
        type=EVIL, key=EVIL, queue=EVIL, input=EVIL, result=EVIL, custom_status=EVIL, blocked_reason=EVIL,
        blocked_version=EVIL, failure=failure, timers=[{"id": EVIL, "due": EVIL}], status="failed",
    )  # fmt: skip
    data = {"type": EVIL, "input": EVIL, "activity": EVIL, "failure": failure, "reason": EVIL, "actor": EVIL,
            "name": EVIL, "payload": EVIL, "recorded": EVIL, "asked": EVIL, "position": EVIL, EVIL: EVIL}  # fmt: skip
    kinds = ["workflow_started", "workflow_blocked", "activity_scheduled", "activity_failed", "signal_received",
             "workflow_failed", "workflow_cancelled", "activity_redriven", "cancel_requested", EVIL[:40]]  # fmt: skip
    for seq, kind in enumerate(kinds, 1):
        factories.EventFactory(workflow=workflow, seq=seq, type=kind, ordinal=1, data=data)
    Workflow.objects.update(last_seq=len(kinds))
    row = factories.OutboxRowFactory(
        workflow=workflow, activity=EVIL, queue=EVIL, input=EVIL, options={EVIL: EVIL}, node=EVIL, status="dead",
        last_heartbeat=EVIL, cause=EVIL[:40],
    )  # fmt: skip
    factories.FailedAttemptFactory(outbox_row=row, worker=EVIL, error=failure, cause=EVIL[:40])
    item = factories.WorkItemFactory(outbox_row=row, worker=EVIL, heartbeat=EVIL, cancel_requested_at=factories.now())
    message = factories.MessageFactory(workflow=workflow, kind=EVIL[:20], payload=EVIL, dedup=EVIL)
    worker = factories.WorkerFactory(name=EVIL, queues=[EVIL], version=EVIL[:64])
    redrive = factories.StaffActionFactory(
        outbox_row=row,
        verb=EVIL[:20],
        through=EVIL[:20],
        mode=EVIL[:20],
        reason=EVIL,
        actor_text=EVIL,
        data={EVIL: EVIL},
    )
    letter = DeadLetter.objects.get(pk=row.pk)
    pages = [page_of(each) for each in (workflow, row, item, message, worker, redrive, letter)]
    pages += [page_of(letter).replace("/change/", f"/{action}/") for action in ("redrive", "force_redrive", "discard")]
    pages += [page_of(workflow).replace("/change/", f"/{verb}/") for verb in VERBS]
    pages += [list_of(model) for model in ROOMS] + [event_of(workflow, seq) for seq in range(1, len(kinds) + 1)]
    pages += [f"{list_of(Workflow)}?type={EVIL.replace('#', '')}", f"{list_of(Workflow)}?q={EVIL}"]
    for url in pages:
        text = root.get(url).text
        assert "<script>alert" not in text, url
        assert "<img src=x" not in text, url
        assert "alert(" in text, url


def test_every_page_opens_when_the_related_rows_are_gone(root: Client, scene: Scene) -> None:
    """Faults A14."""
    Workflow.objects.filter(pk=scene.workflow.pk).update(parent_id=uuid.uuid4())
    assert "no longer there" in root.get(page_of(scene.workflow)).text
    Event.objects.filter(workflow_id=scene.workflow.pk).delete()
    FailedAttempt.objects.all().delete()
    assert root.get(page_of(scene.workflow)).status_code == 200
    Workflow.objects.filter(pk=scene.workflow.pk)._raw_delete("default")
    for row in (scene.row, scene.item, scene.message, scene.worker):
        assert root.get(page_of(row)).status_code == 200
    OutboxRow.objects.filter(pk=scene.row.pk)._raw_delete("default")
    assert root.get(page_of(scene.item)).status_code == 200
    for model in ROOMS:
        assert root.get(list_of(model)).status_code == 200


def test_a_claimed_row_without_its_work_item_opens(root: Client, scene: Scene) -> None:
    WorkItem.objects.all()._raw_delete("default")
    assert root.get(page_of(scene.row)).status_code == 200
    assert root.get(page_of(scene.workflow)).status_code == 200


def test_a_workflow_and_an_activity_that_are_not_installed_open_and_say_so(root: Client, scene: Scene) -> None:
    """Faults A14."""
    Workflow.objects.update(type="gone.workflow")
    OutboxRow.objects.update(activity="gone.activity", cause="unknown_handler")
    assert "No workflow of this name is installed on this site." in root.get(page_of(scene.workflow)).text
    assert "Unknown activity" in root.get(page_of(scene.row)).text


@pytest.mark.parametrize("text", ["{not json", '"text"', "[1,2", "null", "17", "[" * 5_000])
def test_columns_that_do_not_decode_open_and_are_shown_as_they_are(root: Client, scene: Scene, text: str) -> None:
    """Faults A14, P9."""
    factories.EventFactory(workflow=scene.workflow, seq=3, type="workflow_blocked")
    Workflow.objects.update(last_seq=3, blocked_reason="x")
    with connection.cursor() as cursor:
        for table, columns in (
            ("durable_workflow", ("input", "result", "failure", "timers")),
            ("durable_event", ("data",)),
            ("durable_outboxrow", ("input", "options", "last_heartbeat")),
            ("durable_workitem", ("heartbeat",)),
            ("durable_message", ("payload",)),
            ("durable_failedattempt", ("error",)),
            ("durable_worker", ("queues",)),
        ):
            for column in columns:
                cursor.execute(f'UPDATE "{table}" SET "{column}" = %s', [text])
    for url in scene.pages():
        assert root.get(url).status_code == 200, url
    assert text[:5].replace('"', "&quot;") in root.get(page_of(scene.row)).text


IDS = ["x", "0", "-1", "9" * 40, "1.5", "None", str(uuid.UUID(int=0)), "a b", "_3C", "\x00", "%00", "../..", "é", "🦊"]


@pytest.mark.parametrize("key", IDS)
@pytest.mark.parametrize("model", ROOMS)
def test_an_id_of_no_row_leads_back_with_a_message(root: Client, scene: Scene, model: Any, key: str) -> None:
    base = list_of(model)
    response = root.get(f"{base}{quote(key, safe='')}/change/", follow=True)
    assert response.status_code == 200 or (response.status_code == 404 and key == "../..")
    if response.status_code == 200:
        assert "doesn’t exist. Perhaps it was deleted?" in response.text
    for view in ("delete", "history"):
        assert root.get(f"{base}{quote(key, safe='')}/{view}/").status_code in (302, 403, 404)


@pytest.mark.parametrize("seq", ["0", "3", "2147483648", "9" * 40])
def test_an_event_that_is_not_there_leads_back_with_a_message(root: Client, scene: Scene, seq: str) -> None:
    response = root.get(event_of(scene.workflow, 1).replace("/event/1/", f"/event/{seq}/"), follow=True)
    assert response.status_code == 200
    assert "doesn’t exist" in response.text


@pytest.mark.parametrize(
    "query", ["seq=x", "seq=-1", "seq=0", f"seq={'9' * 40}", "seq=%00", "order=x", "seq=²", "seq="]
)
def test_nonsense_in_the_address_of_a_history_shows_a_page(root: Client, scene: Scene, query: str) -> None:
    assert root.get(f"{page_of(scene.workflow)}?{query}").status_code == 200
    assert root.get(f"{page_of(scene.workflow)}?order=oldest&{query}").status_code == 200


def test_a_name_with_slashes_and_quotes_is_reached_from_its_list(root: Client) -> None:
    worker = factories.WorkerFactory(name="host/4:_\"'?#%2F <é>")
    text = root.get(list_of(Worker)).text
    url = address(Worker, quote_key(worker.pk))
    assert escape(url) in text
    assert root.get(url).status_code == 200


@pytest.mark.parametrize("use_tz", [False, True])
def test_moments_are_shown_in_the_sites_zone_whatever_use_tz_says(root: Client, scene: Scene, use_tz: bool) -> None:
    """Faults Q4."""
    Workflow.objects.update(created_at=datetime(2026, 7, 1, 20, 30, tzinfo=UTC))
    with override_settings(USE_TZ=use_tz, TIME_ZONE="Asia/Tokyo"):
        for url in scene.pages():
            assert root.get(url).status_code == 200
        assert "2 Jul 2026, 05:30:00" in root.get(page_of(scene.workflow)).text


def test_moments_at_the_end_of_time_are_shown(root: Client, scene: Scene) -> None:
    Workflow.objects.update(deadline_at=datetime.max.replace(tzinfo=UTC))
    OutboxRow.objects.update(visible_after=datetime.max.replace(tzinfo=UTC), status="pending")
    Message.objects.update(visible_at=datetime.max.replace(tzinfo=UTC))
    WorkItem.objects.update(locked_until=datetime(1900, 1, 1, tzinfo=UTC))
    with override_settings(TIME_ZONE="Asia/Tokyo"):
        for url in scene.pages():
            assert root.get(url).status_code == 200, url
