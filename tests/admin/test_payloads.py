"""Payloads are for those who may see them, and for nobody where the site says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client, override_settings

from durable.models import Message, OutboxRow, Workflow, WorkItem
from tests import factories
from tests.admin.conftest import Scene, event_of, page_of, statements
from tests.admin.payloads import VIEWS

pytestmark = pytest.mark.django_db

SECRET = "4111-1111-1111-1111"


@pytest.fixture
def secret_pages(scene: Scene) -> list[str]:
    """Pages that each hold the secret in a payload."""
    text = f'{{"card":"{SECRET}"}}'
    now = factories.now()
    Workflow.objects.update(
        input=text, result=text, custom_status=SECRET, status="completed", closed_at=now, last_seq=9
    )
    OutboxRow.objects.update(input=text, last_heartbeat=text)
    WorkItem.objects.update(heartbeat=text)
    Message.objects.update(payload=text)
    data = {"input": text, "result": text, "payload": text, "name": "card", "unread": [{"payload": text}]}
    for seq, kind in ((3, "workflow_started"), (4, "activity_completed"), (5, "signal_received")):
        factories.EventFactory(workflow=scene.workflow, seq=seq, type=kind, data=data)
    events = [event_of(scene.workflow, seq) for seq in (3, 4, 5)]
    return [page_of(row) for row in (scene.workflow, scene.row, scene.item, scene.message)] + events


def test_payloads_are_shown_to_those_with_the_permission(staff: Callable[..., Client], secret_pages: list[str]) -> None:
    client = staff(*VIEWS, "view_payload")
    for url in secret_pages:
        assert SECRET in client.get(url).text, url


def test_payloads_are_neither_shown_nor_selected_without_the_permission(
    staff: Callable[..., Client], secret_pages: list[str]
) -> None:
    """Faults P8. Only events are read whole: their envelope is needed to say what happened."""
    client = staff(*VIEWS)
    for url in secret_pages:
        text = client.get(url).text
        assert SECRET not in text, url
        assert "Hidden: you need the permission to view payloads." in text, url
        for sql in statements(client, url):
            for column in ("input", "result", "heartbeat", "last_heartbeat", "payload"):
                assert f'"{column}"' not in sql.split(" FROM ")[0], (url, sql)


@override_settings(DURABLE={"REDACT_PAYLOADS": True})
def test_payloads_are_hidden_from_everybody_where_the_site_says_so(root: Client, secret_pages: list[str]) -> None:
    for url in secret_pages:
        text = root.get(url).text
        assert SECRET not in text, url
        assert "Hidden: this site shows no payloads." in text, url


def test_an_event_that_can_not_be_read_is_hidden_whole(staff: Callable[..., Client], scene: Scene) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE durable_event SET data = %s", [f'{{"result": "{SECRET}'])
    client = staff(*VIEWS)
    for url in (page_of(scene.workflow), event_of(scene.workflow, 1)):
        assert SECRET not in client.get(url).text


@override_settings(DURABLE={"CODEC": "tests.admin.payloads.Reversing"})
def test_the_codec_unwraps_what_it_has_wrapped(root: Client, scene: Scene) -> None:
    Workflow.objects.update(input='{"card": 1}'[::-1])
    assert "&quot;card&quot;: 1" in root.get(page_of(scene.workflow)).text


@override_settings(DURABLE={"CODEC": "tests.admin.payloads.Reversing"})
def test_a_payload_that_the_codec_can_not_unwrap_is_shown_as_it_is_stored(root: Client, scene: Scene) -> None:
    """Faults P9."""
    Workflow.objects.update(input="broken")
    assert "broken" in root.get(page_of(scene.workflow)).text
