"""Pages stay small whatever they show, say what they left out, and offer it as a file to those who may have it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from durable.admin.lists import downloads
from durable.admin.words import payloads
from durable.models import Message, OutboxRow, Workflow, WorkItem
from tests import factories
from tests.admin.conftest import Scene, event_of, page_of
from tests.admin.payloads import VIEWS
from tests.conftest import ROOT

pytestmark = pytest.mark.django_db

FRAME = 150_000
"""Bytes of a page that are not payloads: Django's frame, and what a hundred events say of themselves."""

NESTED = "[" * 100 + ",".join(["[]"] * 3_000) + "]" * 100
"""Indented, each of its lists takes a line of two hundred blanks."""

FULL = "There is more than this page can show."


def nested_signals(number: int = 100) -> Workflow:
    """A workflow that was sent so many nested signals."""
    workflow = factories.WorkflowFactory(last_seq=number)
    for seq in range(1, number + 1):
        data = {"name": "news", "payload": NESTED}
        factories.EventFactory(workflow=workflow, seq=seq, type="signal_received", data=data)
    return workflow


def payload_of(row: Any, column: str) -> str:
    """The address of a payload as a file."""
    return reverse(f"admin:durable_{row._meta.model_name}_payload", args=[row.pk, column])


def payload_of_event(workflow: Workflow, seq: int) -> str:
    return reverse("admin:durable_workflow_event_payload", args=[workflow.pk, seq])


def downloaded(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200, (url, response.status_code)
    assert response["Content-Disposition"].startswith("attachment")
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response.streaming
    return b"".join(response).decode()


def test_a_hundred_nested_signals_make_a_small_page_that_says_so(root: Client) -> None:
    workflow = nested_signals()
    for order in ("newest", "oldest"):
        response = root.get(f"{page_of(workflow)}?order={order}")
        assert len(response.content) < payloads.PAGE_BYTES + FRAME
        assert FULL in response.text
        assert response.text.count("Cut: the page has no room for these") > 50
        assert "Cut: only the beginning of" in response.text
    assert len(root.get(event_of(workflow, 1)).content) < payloads.PAGE_BYTES + FRAME


def test_a_small_page_does_not_speak_of_room(root: Client, scene: Scene) -> None:
    for url in scene.pages():
        assert FULL not in root.get(url).text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NESTED, id="nested"),
        pytest.param('"' + '\\"' * 100_000 + '"', id="quotes"),
        pytest.param('"' + "🦊" * 120_000 + '"', id="foxes"),
        pytest.param("[" * 5_000 + "]" * 5_000, id="deep"),
        pytest.param("<&'\">" * 40_000, id="markup"),
    ],
)
def test_pages_with_payloads_of_any_kind_stay_small(root: Client, scene: Scene, text: str) -> None:
    failure = {"type": "x", "message": text, "traceback": text}
    Workflow.objects.update(
        input=text, result=text, status="completed", closed_at=factories.now(), last_seq=9, blocked_reason=text,
        failure=failure, timers=[text],
    )  # fmt: skip
    OutboxRow.objects.update(input=text, last_heartbeat=text, options={text: text})
    WorkItem.objects.update(heartbeat=text)
    Message.objects.update(payload=text)
    for number in range(5, 55):
        factories.FailedAttemptFactory(outbox_row=scene.row, number=number, error=failure)
    for seq, kind in ((3, "workflow_started"), (4, "activity_completed"), (5, "signal_received"), (6, "new_one")):
        data = {"input": text, "name": "n", "unread": [{"payload": text}], "failure": failure}
        factories.EventFactory(workflow=scene.workflow, seq=seq, type=kind, data=data)
    for url in [*scene.pages(), *(event_of(scene.workflow, seq) for seq in (3, 4, 5, 6))]:
        assert len(root.get(url).content) < payloads.PAGE_BYTES + FRAME, url


def test_what_is_cut_is_one_click_away(root: Client, scene: Scene) -> None:
    text = '"' + "x" * 300_000 + 'end"'
    Workflow.objects.update(input=text)
    OutboxRow.objects.update(input=text, last_heartbeat=text)
    WorkItem.objects.update(heartbeat=text)
    Message.objects.update(payload=json.dumps({"name": "n", "payload": text}))
    factories.EventFactory(workflow=scene.workflow, seq=3, type="signal_received", data={"name": "n", "payload": text})
    places = [
        (page_of(scene.workflow), payload_of(scene.workflow, "input")),
        (page_of(scene.row), payload_of(scene.row, "input")),
        (page_of(scene.row), payload_of(scene.row, "last_heartbeat")),
        (page_of(scene.item), payload_of(scene.item, "heartbeat")),
        (page_of(scene.message), payload_of(scene.message, "payload")),
        (page_of(scene.letter), payload_of(scene.letter, "input")),
        (event_of(scene.workflow, 3), payload_of_event(scene.workflow, 3)),
    ]
    for page, file in places:
        shown = root.get(page).text
        assert f'<a href="{file}">Download all</a>' in shown, page
        assert re.search(r"(Cut: only the beginning of|Not shown: it has) 300,0\d\d characters", shown)
        assert "xend" not in shown
        assert downloaded(root, file) == text


@pytest.mark.parametrize("length", [0, 1, downloads.PIECE - 1, downloads.PIECE, downloads.PIECE + 1])
def test_a_file_is_read_piece_by_piece_and_has_all_of_it(
    root: Client, scene: Scene, length: int, django_assert_max_num_queries: Any
) -> None:
    text = ("äx🦊" * (length // 3 + 1))[:length]
    Workflow.objects.update(input=text)
    with django_assert_max_num_queries(5):
        assert downloaded(root, payload_of(scene.workflow, "input")) == text


def test_a_file_needs_the_permission_to_view_payloads(staff: Callable[..., Client], scene: Scene) -> None:
    factories.EventFactory(workflow=scene.workflow, seq=3, type="signal_received", data={"payload": '"x"'})
    files = [
        payload_of(scene.workflow, "input"), payload_of(scene.row, "input"), payload_of(scene.item, "heartbeat"),
        payload_of(scene.message, "payload"), payload_of(scene.letter, "input"), payload_of_event(scene.workflow, 3),
    ]  # fmt: skip
    allowed = staff(*VIEWS, "view_deadletter", "view_payload")
    WorkItem.objects.update(heartbeat='"x"')
    for url in files:
        assert downloaded(allowed, url)
        assert allowed.post(url).status_code == 403
        with override_settings(DURABLE={"REDACT_PAYLOADS": True}):
            assert allowed.get(url).status_code == 403
        assert Client().get(url).status_code == 302


@pytest.mark.parametrize("missing", ["view_payload", "view_workflow"])
def test_a_file_is_refused_without_either_permission(staff: Callable[..., Client], scene: Scene, missing: str) -> None:
    factories.EventFactory(workflow=scene.workflow, seq=3, type="signal_received", data={"payload": '"x"'})
    client = staff(*({*VIEWS, "view_payload"} - {missing}))
    assert client.get(payload_of(scene.workflow, "input")).status_code == 403
    assert client.get(payload_of_event(scene.workflow, 3)).status_code == 403


def test_a_file_of_what_is_not_there_leads_back(root: Client, scene: Scene) -> None:
    for url in (
        payload_of(scene.workflow, "result"),
        payload_of(scene.workflow, "key"),
        payload_of(scene.workflow, "input").replace(str(scene.workflow.pk), "nothing"),
        payload_of_event(scene.workflow, 99),
        payload_of_event(scene.workflow, 2**40),
        payload_of(scene.item, "token"),
    ):
        assert root.get(url).status_code == 302, url


@override_settings(DURABLE={"CODEC": "tests.admin.payloads.Reversing"})
def test_a_file_is_what_the_codec_reads_and_a_page_shows_no_part_that_it_cannot_read(
    root: Client, scene: Scene
) -> None:
    text = '"' + "ab" * 100_000 + '"'
    Workflow.objects.update(input=text[::-1])
    shown = root.get(page_of(scene.workflow)).text
    assert "Not shown: it has 200,002 characters." in shown
    assert "bababa" not in shown
    assert downloaded(root, payload_of(scene.workflow, "input")) == text


LOOK = """
import django, resource
django.setup()
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.create_superuser("looker"))
client.get({urls[0]!r})
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + {spare}, resource.RLIM_INFINITY))
for url in {urls!r}:
    response = client.get(url)
    size = sum(map(len, response)) if response.streaming else len(response.content)
    print(response.status_code, size)
"""


@pytest.mark.django_db(transaction=True)
def test_pages_and_files_take_little_memory(subprocess_environment: dict[str, str]) -> None:
    """A hundred nested signals took 568 MB; a payload of twenty megabytes is never whole in ours."""
    workflow = nested_signals()
    large = factories.WorkflowFactory(input='"' + "x" * 20_000_000 + '"')
    urls = [page_of(workflow), page_of(large), payload_of(large, "input")]
    ran = subprocess.run(
        [sys.executable, "-c", LOOK.format(urls=urls, spare=112 * 1024 * 1024)],
        env=subprocess_environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2_000:]
    sizes = [int(size) for size in re.findall(r"^200 (\d+)$", ran.stdout, re.MULTILINE)]
    assert sizes[0] < payloads.PAGE_BYTES + FRAME
    assert sizes[1] < payloads.PAGE_BYTES + FRAME
    assert sizes[2] == 20_000_002
