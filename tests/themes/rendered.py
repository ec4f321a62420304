"""Every page, as the server sends it: its heading, its status, its buttons, one bar of actions, its ways on."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from durable.admin.lists.room import Room
from durable.models import DeadLetter, Workflow
from tests import factories
from tests.admin.conftest import Scene, list_of, page_of, root, scene  # noqa: F401 - fixtures
from tests.admin.dead_letters import choose, confirm, letter, list_url, status

pytestmark = pytest.mark.django_db


class Reading(HTMLParser):
    """The text that stands inside the page's own content, and the names of the form fields of the whole page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.fields: list[str] = []
        self._in_heading = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "h1":
            self._in_heading = True
            self.headings.append("")
        if tag in ("select", "input", "textarea", "button") and attributes.get("name"):
            self.fields.append(str(attributes["name"]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "h1":
            self._in_heading = False

    def handle_data(self, data: str) -> None:
        if self._in_heading:
            self.headings[-1] += data


def headings(response: Any) -> list[str]:
    """The first-level headings as they are read."""
    return [" ".join(heading.split()) for heading in Reading(response.text).headings if heading.strip()]


def test_the_page_of_a_workflow_shows_its_title_its_status_and_its_verbs(root: Client) -> None:  # noqa: F811
    workflow = factories.WorkflowFactory(status="paused", key="order-42")
    page = root.get(page_of(workflow))
    assert "shop.checkout Paused" in headings(page)
    for verb in ("signal", "resume", "cancel", "terminate"):
        assert f"/durable/workflow/{workflow.pk}/{verb}/" in page.text
    assert "order-42" in page.text


def test_every_page_has_the_apps_styles_and_a_heading_of_its_own(root: Client, scene: Scene) -> None:  # noqa: F811
    row = letter()
    base = f"/admin/durable/deadletter/{row.pk}"
    verb = f"/admin/durable/workflow/{scene.workflow.pk}/terminate/"
    rows = [url for url in scene.pages() if "/change/" in url or "/event/" in url]
    for url in [
        *rows,
        f"{base}/change/",
        f"{base}/redrive/",
        f"{base}/discard/",
        "/admin/durable/deadletter/bulk/",
        verb,
    ]:
        page = root.get(url)
        assert page.status_code == 200, url
        assert "durable/admin.css" in page.text, url
        assert page.text.count('<h1 class="durable-title">') == 1, url


def test_a_list_has_one_bar_of_actions_and_its_headings(root: Client) -> None:  # noqa: F811
    row = letter()
    page = root.get(list_url())
    assert Reading(page.text).fields.count("action") == 1
    for heading in ("Activity", "Why", "Attempts", "Last failure", "Workflow"):
        assert re.search(rf"<th[^>]*>\s*(<[^>]*>)*{heading}<", page.text), heading
    assert f"#{row.pk}" in page.text


def test_pages_past_the_first_are_reached_and_left(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(Room, "list_per_page", 5)
    for _ in range(6):
        letter()
    first = root.get(list_url())
    forward = re.search(r'<a href="([^"]*)" rel="next">', first.text)
    assert forward is not None
    assert 'rel="prev"' not in first.text
    second = root.get(list_url() + forward[1].replace("&amp;", "&"))
    assert len(second.context["cl"].result_list) == 1
    assert 'rel="prev"' in second.text


def test_what_was_chosen_is_asked_done_and_told(root: Client) -> None:  # noqa: F811
    row, other = letter(), letter()
    page = choose(root, "redrive", row)
    assert "will be queued for retry" in page.text
    done = confirm(root, page)
    assert "1 dead letter was queued for retry." in done.text
    assert (status(row), status(other)) == ("pending", "dead")


def test_lists_of_every_kind_open(root: Client, scene: Scene) -> None:  # noqa: F811
    for model in (DeadLetter, Workflow):
        assert root.get(list_of(model)).status_code == 200
    for url in scene.pages():
        assert root.get(url).status_code == 200, url
    assert root.get("/admin/durable/").status_code == 200
