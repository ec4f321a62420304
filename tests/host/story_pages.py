"""Every admin page opens, in German, with naive or aware moments, and has nothing inline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.test import Client

from tests import factories
from tests.admin.dead_letters import letter
from tests.host.crew import chief, collected, staff

__all__ = ["chief", "collected", "staff"]

pytestmark = pytest.mark.django_db(transaction=True)


class Inline(HTMLParser):
    """What a strict policy forbids: scripts and styles in the page, `style=`, `on…=`, `javascript:`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in names and names.get("type") != "application/json"):
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            if name == "style" or name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                self.found.append(f"<{tag} {name}={value}>")


def furnish() -> None:
    """A row of each kind, and histories that are long."""
    workflow = factories.WorkflowFactory(timers=[{"id": [1, 1], "due": factories.now().isoformat()}])
    factories.history_of(workflow, length=150)
    row = factories.OutboxRowFactory(workflow=workflow, status="claimed")
    factories.FailedAttemptFactory(outbox_row=row)
    factories.WorkItemFactory(outbox_row=row)
    factories.MessageFactory(workflow=workflow)
    factories.WorkerFactory()
    factories.WorkflowFactory(blocked_reason="an error", status="running")
    letter()


def pages(rows_of_each: int = 3) -> Iterator[str]:
    """Every page of the app's, by its registered models, so many of their rows, and their verbs."""
    yield "/admin/"
    yield "/admin/durable/"
    yield "/admin/durable/deadletter/bulk/"
    for model in admin.site._registry:
        if model._meta.app_label != "durable":
            continue
        place = f"/admin/durable/{model._meta.model_name}/"
        yield place
        for row in model._default_manager.all()[:rows_of_each]:
            yield f"{place}{row.pk}/change/"
            if model._meta.model_name == "deadletter":
                yield from (f"{place}{row.pk}/{verb}/" for verb in ("redrive", "force_redrive", "discard"))
            if model._meta.model_name == "workflow":
                yield from (f"{place}{row.pk}/{verb}/" for verb in ("pause", "terminate", "signal", "cancel"))
                yield f"{place}{row.pk}/event/1/"


def test_every_page_opens_and_holds_nothing_inline_and_its_files_are_collected(staff: Client) -> None:
    furnish()
    wrong: dict[str, Any] = {}
    files: set[str] = set()
    opened_pages = list(pages())
    for page in opened_pages:
        response = staff.get(page, follow=True)
        if response.status_code != 200:
            wrong[page] = response.status_code
            continue
        assert "'self'" in response["Content-Security-Policy"]
        inline = Inline()
        inline.feed(response.text)
        if inline.found:
            wrong[page] = inline.found
        files |= set(re.findall(rf'(?:href|src)="({settings.STATIC_URL}[^"]+)"', response.text))
    assert wrong == {}
    assert len(opened_pages) > 25
    ours = [file for file in files if "/durable/" in file]
    assert ours
    assert all(re.search(r"\.[0-9a-f]{12}\.css$", file) for file in ours), "by the names of the manifest"
    missing = [
        file for file in files if not Path(str(settings.STATIC_ROOT), file[len(settings.STATIC_URL) :]).is_file()
    ]
    assert missing == []
