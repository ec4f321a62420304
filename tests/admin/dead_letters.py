"""Dead letters as tests of the admin make them, and how a person sends the admin's forms."""

from __future__ import annotations

import html
import re
from typing import Any

from django.test import Client
from django.urls import reverse

from durable.kernel.history.events import EventType
from durable.models import DeadLetter, OutboxRow
from tests import factories

LIST = "admin:durable_deadletter_changelist"


def letter(**columns: Any) -> Any:
    """A dead letter of a running workflow with a history that has scheduled it; `workflow__…` are the workflow's."""
    workflow_columns = {key[10:]: columns.pop(key) for key in list(columns) if key.startswith("workflow__")}
    workflow = columns.pop("workflow", None) or factories.WorkflowFactory(last_seq=2, **workflow_columns)
    columns.setdefault("ordinal", 1)
    row = factories.DeadLetterFactory(workflow=workflow, **columns)
    if not workflow.event_set.exists():
        factories.EventFactory(workflow=workflow, seq=1, type=EventType.WORKFLOW_STARTED.value)
        factories.EventFactory(
            workflow=workflow, seq=2, type=EventType.ACTIVITY_SCHEDULED.value, ordinal=1,
            data={"activity": row.activity},
        )  # fmt: skip
    return row


def records(row: Any, kind: EventType) -> None:
    """The history of the row's workflow goes on with this event of the activity."""
    workflow = row.workflow
    workflow.refresh_from_db()
    seq = workflow.last_seq + 1
    factories.EventFactory(workflow=workflow, seq=seq, type=kind.value, ordinal=row.ordinal)
    type(workflow).objects.filter(pk=workflow.pk).update(last_seq=seq)


def status(row: Any) -> str:
    """How the row stands now."""
    found: str = OutboxRow.objects.values_list("status", flat=True).get(pk=row.pk)
    return found


def list_url(query: str = "") -> str:
    """The address of the list."""
    return reverse(LIST) + query


def one_url(row: Any, action: str) -> str:
    """The address of the question before an action on one row."""
    return reverse(f"admin:durable_deadletter_{action}", args=[row.pk])


def choose(client: Client, action: str, *rows: Any, query: str = "", **fields: str) -> Any:
    """Tick rows of the list (all that match, without any) and press the button: the page that asks."""
    data: dict[str, Any] = {"action": action, **fields}
    if rows:
        data |= {"_selected_action": [row.pk for row in rows], "index": "0"}
    else:
        data["select_across"] = "1"
    return client.post(list_url(query), data)


def form_of(page: Any) -> dict[str, Any]:
    """The fields of the form that a page asks with, as a browser would send them."""
    text = page.text[page.text.index('name="confirmed"') - 100 :]
    fields: dict[str, Any] = {}
    for tag in re.findall(r"<input[^>]*>", text):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        if name is None or value is None or ('type="radio"' in tag and "checked" not in tag):
            continue
        fields.setdefault(name[1], []).append(html.unescape(value[1]))
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


def confirm(client: Client, page: Any, **answers: str) -> Any:
    """Send the form of a page that asks, to where it was shown, and follow to what is said then."""
    where = page.wsgi_request.get_full_path()
    return client.post(where, {**form_of(page), **answers}, follow=True)


def said(response: Any) -> list[str]:
    """The messages of a page, without markup."""
    found = re.search(r'<ul class="messagelist">(.*?)</ul>', response.text, re.DOTALL)
    messages = re.findall(r"<li[^>]*>(.*?)</li>", found[1], re.DOTALL) if found else []
    return [html.unescape(re.sub(r"<[^>]+>", "", message)).strip() for message in messages]


def act(client: Client, action: str, *rows: Any, query: str = "", **answers: str) -> list[str]:
    """Choose, confirm, and answer what was said."""
    page = choose(client, action, *rows, query=query)
    assert page.status_code == 200, page.status_code
    return said(confirm(client, page, **answers))


def fresh(row: Any) -> Any:
    """The row as it stands now."""
    return DeadLetter.objects.get(pk=row.pk)
