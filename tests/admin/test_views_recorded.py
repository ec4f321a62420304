"""`RECORD_VIEWS`: whoever reads a payload leaves a row that says who, when and what, on every way to one."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any
from unittest import mock

import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.test import Client

from durable.models import StaffAction
from tests.admin.conftest import ROOMS, Scene, event_of, list_of, page_of

pytestmark = pytest.mark.django_db
Staff = Callable[..., Client]
EVERYTHING = tuple(f"view_{model._meta.model_name}" for model in ROOMS)


@pytest.fixture(autouse=True)
def recorded(settings: Any) -> None:
    settings.DURABLE = {"RECORD_VIEWS": True}


def views() -> list[tuple[Any, ...]]:
    found = StaffAction.objects.filter(verb="view").order_by("at", "pk")
    return [(a.actor_text, a.through, a.workflow_id, a.outbox_row_id, a.data["page"]) for a in found]


def test_each_page_with_a_payload_leaves_who_when_and_what(staff: Staff, scene: Scene) -> None:
    client = staff(*EVERYTHING, "view_payload")
    of = scene.workflow.pk
    pages = {
        page_of(scene.workflow): (of, None, "workflow"),
        event_of(scene.workflow, 1): (of, None, "event 1"),
        page_of(scene.row): (of, scene.row.pk, "outbox row"),
        page_of(scene.item): (of, scene.row.pk, "work item"),
        page_of(scene.letter): (of, scene.letter.pk, "dead letter"),
        page_of(scene.message): (of, None, f"message {scene.message.pk}"),
    }
    for url, (workflow, row, what) in pages.items():
        StaffAction.objects.filter(verb="view").delete()
        assert client.get(url).status_code == 200
        assert views() == [("staff", "admin", workflow, row, what)], url


def test_each_download_leaves_who_when_and_what(staff: Staff, scene: Scene) -> None:
    client = staff(*EVERYTHING, "view_payload")
    of = scene.workflow.pk
    files = {
        f"{page_of(scene.workflow)}input/": (of, None, "workflow, input downloaded"),
        f"{page_of(scene.row)}input/": (of, scene.row.pk, "outbox row, input downloaded"),
        f"{page_of(scene.item)}heartbeat/": (of, scene.row.pk, "work item, heartbeat downloaded"),
        f"{page_of(scene.letter)}input/": (of, scene.letter.pk, "dead letter, input downloaded"),
        f"{page_of(scene.message)}payload/": (of, None, f"message {scene.message.pk}, payload downloaded"),
        event_of(scene.workflow, 1) + "payload/": (of, None, "event 1, downloaded"),
    }
    for url, (workflow, row, what) in files.items():
        url = url.replace("/change/", "/payload/")
        StaffAction.objects.filter(verb="view").delete()
        assert client.get(url).status_code in (200, 302), url
        assert views() == [("staff", "admin", workflow, row, what)], url
        with mock.patch("durable.flow.operator.record_view.auditing.record", side_effect=OperationalError("away")):
            assert client.get(url).status_code == 403, url


def test_which_part_of_a_history_was_looked_at_is_told(staff: Staff, scene: Scene) -> None:
    staff(*EVERYTHING, "view_payload").get(page_of(scene.workflow) + "?order=oldest&seq=1")
    assert StaffAction.objects.get(verb="view").data["address"] == "order=oldest&seq=1"


def test_lists_and_pages_without_payloads_leave_nothing(staff: Staff, scene: Scene) -> None:
    client = staff(*EVERYTHING, "view_payload")
    for url in [*map(list_of, ROOMS), page_of(scene.worker), page_of(scene.redrive)]:
        assert client.get(url).status_code == 200
    assert views() == []


@pytest.mark.parametrize("why", ["permission", "redacted", "off"])
def test_who_is_shown_no_payload_leaves_nothing(staff: Staff, scene: Scene, settings: Any, why: str) -> None:
    settings.DURABLE = {"RECORD_VIEWS": why != "off", "REDACT_PAYLOADS": why == "redacted"}
    client = staff(*EVERYTHING, *([] if why == "permission" else ["view_payload"]))
    for row in (scene.workflow, scene.row, scene.item, scene.letter, scene.message):
        client.get(page_of(row))
    client.get(event_of(scene.workflow, 1))
    assert views() == []


def test_what_can_not_be_noted_is_not_shown(staff: Staff, scene: Scene) -> None:
    type(scene.workflow).objects.filter(pk=scene.workflow.pk).update(input='["the secret"]')
    type(scene.row).objects.filter(pk=scene.row.pk).update(input='["the secret"]')
    client = staff(*EVERYTHING, "view_payload")
    assert "the secret" in client.get(page_of(scene.workflow)).text
    with mock.patch("durable.flow.operator.record_view.auditing.record", side_effect=OperationalError("away")):
        for row in (scene.workflow, scene.row, scene.item, scene.letter, scene.message):
            text = client.get(page_of(row)).text
            assert "the secret" not in text
            assert "the record could not be written" in text
        assert "the secret" not in client.get(event_of(scene.workflow, 1)).text
    assert "the secret" in client.get(page_of(scene.workflow)).text


def test_the_command_that_shows_payloads_leaves_who_looked(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "deploy")
    call_command("durable", "show", str(scene.workflow.pk), "--actor", "ops", stdout=StringIO())
    made = StaffAction.objects.get(verb="view")
    assert (made.actor_text, made.through, made.workflow_id) == ("ops", "command", scene.workflow.pk)
    assert made.data == {"page": "durable show", "login": "deploy"}


def test_the_command_leaves_nothing_where_it_shows_none(scene: Scene, settings: Any) -> None:
    settings.DURABLE = {"RECORD_VIEWS": True, "REDACT_PAYLOADS": True}
    call_command("durable", "show", str(scene.workflow.pk), stdout=StringIO())
    assert views() == []


def test_views_are_found_in_the_list_and_not_among_what_was_done(root: Client, scene: Scene) -> None:
    root.get(page_of(scene.letter))
    assert "Payload viewed" in root.get(list_of(StaffAction) + "?verb=view").text
    assert "Payload viewed" not in root.get(page_of(scene.letter)).text
