"""Every address of the app's rooms, as the resolver has them, by everybody who may not: nothing moves, nothing is seen.

One that is added later is attacked here without a word of anybody's. That the attack can succeed is a test too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import models
from django.test import Client
from django.urls import URLPattern, URLResolver, reverse

from durable.admin.dead_letters.actions import ACTIONS
from durable.admin.workflows.verbs import VERBS
from durable.models import DeadLetter, Event, FailedAttempt, OutboxRow, Workflow, WorkItem
from tests import factories
from tests.admin.conftest import ROOMS
from tests.admin.dead_letters import letter
from tests.admin.permissions import FORM
from tests.admin.snapshots import snapshot
from tests.admin.worlds import use

pytestmark = pytest.mark.django_db

CANARY = "canary-4711"
KEY = "key-of-others"
QUERIES = ("", "?q=pay&o=1", "?action=redrive&select_across=1&confirmed=yes&reason=because&then=fail")


class Address(NamedTuple):
    """One address of a room, with the row that it is about put in."""

    name: str
    path: str


def patterns(model: Any) -> list[URLPattern]:
    """What the resolver has under the room of a model."""
    room = f"durable/{model._meta.model_name}/"
    found = [one for one in admin.site.get_urls() if isinstance(one, URLResolver) and str(one.pattern) == room]
    assert len(found) == 1
    return [one for one in found[0].url_patterns if isinstance(one, URLPattern)]


def addresses(model: Any, row: Any, workflow: Any) -> list[Address]:
    """Each address of a room about a row. A part that no test knows a value for fails here, and wants one."""
    texts = (models.TextField, models.CharField, models.JSONField)
    columns = [field.name for field in model._meta.get_fields() if isinstance(field, texts)]
    values = {
        "object_id": [str(row.pk)],
        "workflow_id": [str(workflow.pk)],
        "seq": ["1", "2"],
        "column": columns,
    }
    base = reverse(f"admin:durable_{model._meta.model_name}_changelist")
    made: list[Address] = []
    for pattern in patterns(model):
        route = str(pattern.pattern)
        paths = [route]
        for part in re.findall(r"<(?:\w+:)?(\w+)>", route):
            paths = [re.sub(rf"<(?:\w+:)?{part}>", value, path) for path in paths for value in values[part]]
        made += [Address(pattern.name or f"{model._meta.model_name}: {route}", base + path) for path in paths]
    return made


def posts(address: Address, row: Any) -> list[dict[str, Any]]:
    """Forms that do something, to those who may send them."""
    form = {**FORM, "post": "yes", "_save": "Save"}
    if not address.name.endswith("_changelist"):
        return [form]
    chosen = [{**FORM, "action": name, "_selected_action": row.pk} for name in (*ACTIONS, "delete_selected")]
    return [form, *chosen, {**FORM, "action": "redrive", "select_across": "1"}]


@pytest.fixture
def theirs(settings: Any) -> dict[Any, Any]:
    """A row for each room, all of a queue that the attackers of the scope may not see, with a text that must not be."""
    use(settings, "by_queue")
    dead = letter(queue="pay", workflow__queue="pay", workflow__key=KEY)
    workflow = dead.workflow
    row = factories.OutboxRowFactory(workflow=workflow, queue="pay", status="claimed", ordinal=2)
    secret = f'{{"pin":"{CANARY}"}}'
    failure = {"type": "OSError", "message": CANARY, "traceback": CANARY}
    rows = {
        Workflow: workflow,
        OutboxRow: row,
        DeadLetter: dead,
        WorkItem: factories.WorkItemFactory(outbox_row=row, heartbeat=secret),
    }
    for room in ROOMS:
        if room not in rows:
            made = {"workflow": workflow} if room.__name__ == "Message" else {}
            made |= {"outbox_row": dead, "reason": CANARY} if room.__name__ == "StaffAction" else {}
            made |= {"payload": f'{{"name":"approval","payload":"{CANARY}"}}'} if room.__name__ == "Message" else {}
            rows[room] = getattr(factories, f"{room.__name__}Factory")(**made)
    for one in (row, dead):
        factories.FailedAttemptFactory(outbox_row=one, error=failure)
    OutboxRow.objects.update(input=secret, last_heartbeat=secret)
    Workflow.objects.update(input=secret, custom_status=CANARY, failure=failure)
    for event in Event.objects.all():
        Event.objects.filter(pk=event.pk).update(data={**event.data, "input": secret, "failure": failure})
    assert FailedAttempt.objects.count() == 2
    return rows


def anonymous() -> Client:
    return Client()


def without_permission() -> Client:
    return entered(User.objects.create_user("nobody", is_staff=True, first_name="pay"))


def out_of_scope() -> Client:
    """May everything, to the rows of another queue."""
    user = User.objects.create_user("of-mail", is_staff=True, first_name="mail")
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="durable"))
    return entered(user)


def no_staff() -> Client:
    user = User.objects.create_user("customer", first_name="pay")
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="durable"))
    return entered(user)


def entered(user: User, **how: Any) -> Client:
    client = Client(**how)
    client.force_login(user)
    return client


def everything() -> Any:
    return [snapshot(), list(LogEntry.objects.values())]


def attempts(client: Client, address: Address, row: Any) -> Iterator[Any]:
    """The answers to all that somebody may try at one address."""
    url = address.path
    for query in QUERIES if address.name.endswith("_changelist") else QUERIES[-1:]:
        yield client.get(url + query)
    for form in posts(address, row):
        yield client.post(url, form)
    for other in (client.head, client.put, client.patch, client.delete, client.options):
        yield other(url)


def content(answer: Any) -> bytes:
    """What was answered, downloads included."""
    return b"".join(answer) if answer.streaming else bytes(answer.content)


@pytest.mark.parametrize("attacker", [anonymous, without_permission, no_staff])
@pytest.mark.parametrize("room", ROOMS)
def test_whoever_may_not_look_moves_nothing_and_sees_nothing(
    theirs: dict[Any, Any], room: Any, attacker: Callable[[], Client]
) -> None:
    client = attacker()
    before = everything()
    for address in addresses(room, theirs[room], theirs[Workflow]):
        for answer in attempts(client, address, theirs[room]):
            assert answer.status_code in (302, 403), address
            assert answer.status_code == 403 or re.search(r"/login/|/change/$", answer["Location"]), address
            assert CANARY.encode() not in content(answer), address
    assert everything() == before


@pytest.mark.parametrize("room", ROOMS)
def test_whoever_may_everything_to_rows_of_others_moves_nothing_and_sees_nothing_of_these(
    theirs: dict[Any, Any], room: Any
) -> None:
    """Pages of workers are for all: they show no row of anybody's."""
    client = out_of_scope()
    before = everything()
    for address in addresses(room, theirs[room], theirs[Workflow]):
        for answer in attempts(client, address, theirs[room]):
            assert answer.status_code in (200, 302, 400, 403), address
            text = content(answer)
            assert CANARY.encode() not in text, address
            assert KEY.encode() not in text, address
    assert everything() == before


@pytest.mark.parametrize("room", ROOMS)
def test_looking_changes_nothing_whatever_the_address_says(theirs: dict[Any, Any], room: Any) -> None:
    """A link, an image or a prefetch sends a GET with the cookie of a superuser."""
    client = entered(User.objects.create_superuser("root"))
    before = everything()
    for address in addresses(room, theirs[room], theirs[Workflow]):
        for form in posts(address, theirs[room]):
            assert client.get(address.path, form).status_code in (200, 302, 400, 403), address
        assert client.head(address.path, FORM).status_code in (200, 302, 400, 403), address
    assert everything() == before


@pytest.mark.parametrize("room", ROOMS)
def test_a_form_of_another_site_is_refused(theirs: dict[Any, Any], room: Any) -> None:
    """It is sent with the cookie of a superuser, and without the token."""
    client = entered(User.objects.create_superuser("root"), enforce_csrf_checks=True)
    before = everything()
    for address in addresses(room, theirs[room], theirs[Workflow]):
        for form in posts(address, theirs[room]):
            assert client.post(address.path, form).status_code == 403, address
        for other in (client.put, client.patch, client.delete):
            assert other(address.path).status_code == 403, address
    assert everything() == before


VERBS_THAT_FIT = [f"durable_workflow_{verb}" for verb in VERBS if verb not in ("resume", "unblock")]
ACTIONS_OF_ONE = [f"durable_deadletter_{name}" for name in ACTIONS]


@pytest.mark.parametrize("name", [*VERBS_THAT_FIT, *ACTIONS_OF_ONE, "durable_deadletter_changelist"])
def test_the_same_forms_by_somebody_who_may_do_move_something(theirs: dict[Any, Any], name: str) -> None:
    """Else the tests above could not fail."""
    client = entered(User.objects.create_superuser("root"))
    before = everything()
    for room in (Workflow, DeadLetter):
        for address in addresses(room, theirs[room], theirs[Workflow]):
            if address.name == name:
                for form in posts(address, theirs[room]):
                    client.post(address.path, form)
    assert everything() != before


def test_the_same_addresses_do_show_what_must_not_be_seen_to_somebody_who_may(theirs: dict[Any, Any]) -> None:
    client = entered(User.objects.create_superuser("root"))
    shown = {
        address.name
        for room in ROOMS
        for address in addresses(room, theirs[room], theirs[Workflow])
        if CANARY.encode() in content(client.get(address.path))
    }
    pages = {f"durable_{room._meta.model_name}_change" for room in ROOMS if room.__name__ != "Worker"}
    payloads = {f"durable_{room._meta.model_name}_payload" for room in (Workflow, OutboxRow, WorkItem, DeadLetter)}
    assert shown >= pages | payloads | {"durable_workflow_event", "durable_workflow_event_payload"}
