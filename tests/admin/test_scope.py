"""`ADMIN_SCOPE`: staff who may see only some rows see no others on any way, and can do nothing to them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from durable.admin.dead_letters.actions import ACTIONS
from durable.admin.workflows.verbs import VERBS
from durable.models import Worker
from tests import factories
from tests.admin.conftest import ROOMS, address, event_of, list_of, page_of
from tests.admin.dead_letters import choose, confirm, letter, list_url, one_url, said, status
from tests.admin.permissions import FORM, OF_ACTION, OF_VERB, ROLES
from tests.admin.snapshots import snapshot
from tests.admin.worlds import EVERYTHING, World, use, world

pytestmark = pytest.mark.django_db
Enter = Callable[..., Client]
HOOKS = ["by_queue", "by_join"]


@pytest.fixture
def mail(db: None) -> World:
    return world("mail")


@pytest.fixture
def pay(db: None) -> World:
    return world("pay")


@pytest.fixture(autouse=True)
def scoped(settings: Any) -> None:
    use(settings, "by_queue")


@pytest.fixture
def enter(db: None) -> Enter:
    """`enter("view_workflow", …)` is the browser of somebody who may see the queue “mail” and has these permissions."""

    def come(*codenames: str, queue: str = "mail") -> Client:
        user = User.objects.create_user(f"of-{queue}", is_staff=True, first_name=queue)
        user.user_permissions.set(Permission.objects.filter(content_type__app_label="durable", codename__in=codenames))
        client = Client()
        client.force_login(user)
        return client

    return come


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("room", ROOMS)
def test_every_list_shows_what_is_within_and_nothing_else(
    enter: Enter, mail: World, pay: World, settings: Any, room: Any, hook: str
) -> None:
    use(settings, hook)
    text = enter(*EVERYTHING, "view_payload").get(list_of(room)).text
    if room is Worker:
        return
    within, without = ([row for row in each.rows() if type(row) is room] for each in (mail, pay))
    assert within
    assert without
    for row in within:
        assert f'{page_of(row)}"' in text or f"{page_of(row)}?" in text
    for part in [*map(page_of, without), "pay_", "pay-1", "of pay", str(pay.workflow.pk)[-8:]]:
        assert part not in text


@pytest.mark.parametrize("hook", HOOKS)
def test_a_page_of_what_is_within_opens(enter: Enter, mail: World, pay: World, settings: Any, hook: str) -> None:
    use(settings, hook)
    client = enter(*EVERYTHING, "view_payload")
    for row in mail.rows():
        assert client.get(page_of(row)).status_code == 200, row
    assert client.get(event_of(mail.workflow, 1)).status_code == 200


def test_an_address_of_what_is_not_seen_answers_as_one_of_nothing(enter: Enter, mail: World, pay: World) -> None:
    client = enter(*EVERYTHING, "view_payload", *OF_ACTION.values(), *OF_VERB.values())
    unknown = {"workflow": factories.ordered_uuid(), "staffaction": factories.ordered_uuid()}
    pairs: list[tuple[str, str, str, str]] = []
    for row in pay.rows():
        key: Any = unknown.get(row._meta.model_name, 10**9)
        pairs.append((page_of(row), address(type(row), key), str(row.pk), str(key)))
        name = f"admin:durable_{row._meta.model_name}_history"
        pairs.append((reverse(name, args=[row.pk]), reverse(name, args=[key]), str(row.pk), str(key)))
    theirs, nobodys = str(pay.workflow.pk), str(unknown["workflow"])
    pairs += [
        (reverse(f"admin:{name}", args=[theirs]), reverse(f"admin:{name}", args=[nobodys]), theirs, nobodys)
        for name in [*(f"durable_workflow_{verb}" for verb in VERBS), "durable_deadletter_bulk"]
    ]
    columns = ("input", "input", "heartbeat", "payload", "input")
    for row, column in zip(pay.rows(), columns, strict=False):
        key = unknown.get(row._meta.model_name, 10**9)
        name = f"admin:durable_{row._meta.model_name}_payload"
        urls = (reverse(name, args=[row.pk, column]), reverse(name, args=[key, column]))
        pairs.append((*urls, str(row.pk), str(key)))
    name = "admin:durable_workflow_event_payload"
    pairs.append((reverse(name, args=[theirs, 1]), reverse(name, args=[nobodys, 1]), theirs, nobodys))
    event = event_of(pay.workflow, 1)
    pairs.append((event, event.replace(theirs, nobodys), theirs, nobodys))
    for name in ACTIONS:
        name = f"admin:durable_deadletter_{name}"
        one = str(pay.letter.pk)
        pairs.append((reverse(name, args=[one]), reverse(name, args=[10**9]), one, str(10**9)))
    before = snapshot()
    for theirs_url, nobodys_url, its, other in pairs:
        for ask in (client.get, lambda url: client.post(url, FORM)):
            answer, unknown_answer = ask(theirs_url), ask(nobodys_url)
            assert answer.status_code == unknown_answer.status_code in (302, 403), theirs_url
            if answer.status_code == 302:
                assert answer["Location"] == unknown_answer["Location"]
                told, nothing_told = said(client.get(answer["Location"]))
                assert told.replace(its, "KEY") == nothing_told.replace(other, "KEY")
    assert snapshot() == before


@pytest.mark.parametrize("action", list(OF_ACTION))
@pytest.mark.parametrize("role", list(ROLES))
def test_the_matrix_of_permissions_for_what_is_within_and_what_is_not(enter: Enter, role: str, action: str) -> None:
    """Forged POSTs: within, it is the permission that decides; without, nothing moves, whatever one has."""
    own, other = letter(queue="mail"), letter(queue="pay")
    client = enter(*ROLES[role])
    may = OF_ACTION[action] in ROLES[role]
    forged = [
        lambda: client.post(list_url(), {**FORM, "action": action, "_selected_action": [other.pk]}),
        lambda: client.post(one_url(other, action), FORM),
        lambda: client.post(list_url("?activity=" + other.activity), {**FORM, "action": action, "select_across": "1"}),
        lambda: client.post(list_url(), {**FORM, "action": action, "_selected_action": [own.pk, other.pk]}),
    ]
    assert {way().status_code for way in forged} == {302 if may else 403}
    assert status(other) == "dead"
    assert (status(own) != "dead") == may
    from durable.models import Event, StaffAction

    assert not StaffAction.objects.filter(outbox_row=other.pk).exists()
    assert Event.objects.filter(workflow=other.workflow_id).count() == 2


@pytest.mark.parametrize("verb", list(OF_VERB))
@pytest.mark.parametrize("role", list(ROLES))
def test_the_matrix_of_verbs_for_workflows_that_are_not_seen(enter: Enter, role: str, verb: str) -> None:
    states = {"resume": {"status": "paused"}, "unblock": {"blocked_reason": "the code has changed"}}
    own, other = (factories.WorkflowFactory(queue=queue, **states.get(verb, {})) for queue in ("mail", "pay"))
    client = enter(*ROLES[role])
    may = OF_VERB[verb] in ROLES[role]
    before = snapshot()
    assert client.post(reverse(f"admin:durable_workflow_{verb}", args=[other.pk]), FORM).status_code == (
        302 if may else 403
    )
    assert snapshot() == before
    client.post(reverse(f"admin:durable_workflow_{verb}", args=[own.pk]), FORM)
    assert (snapshot() != before) == may


def test_ids_that_were_posted_by_hand_are_refused_as_ones_that_are_not_there(enter: Enter) -> None:
    own, other = letter(queue="mail"), letter(queue="pay", activity="shop.secret")
    client = enter("view_deadletter", "redrive_deadletter")
    page = client.post(list_url(), {"action": "redrive", "_selected_action": [own.pk, other.pk]})
    assert "shop.secret" not in page.text
    assert "No longer there" in page.text
    told = said(confirm(client, page))
    assert [text.split(".")[0] for text in told] == [
        "1 dead letter was queued for retry",
        "1 was refused",
    ]
    assert "shop.secret" not in "".join(told)
    assert (status(own), status(other)) == ("pending", "dead")


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("action", list(ACTIONS))
def test_all_that_match_means_all_that_are_seen(enter: Enter, settings: Any, hook: str, action: str) -> None:
    use(settings, hook)
    own = [letter(queue="mail", workflow__queue="mail") for _ in range(3)]
    other = [letter(queue="pay", workflow__queue="pay") for _ in range(2)]
    client = enter("view_deadletter", OF_ACTION[action])
    page = choose(client, action)
    assert "3 dead letters" in page.text
    confirm(client, page, reason="because", then="fail")
    assert "dead" not in {status(row) for row in own}
    assert {status(row) for row in other} == {"dead"}


def test_filters_offer_no_names_of_what_is_not_seen(enter: Enter, mail: World, pay: World) -> None:
    client = enter(*EVERYTHING)
    for room in ROOMS:
        text = client.get(list_of(room)).text
        for name in ("shop.pay_order", "shop.pay_it", "shop.pay_dead", ">pay<", "tests.", "durable.change"):
            assert name not in text, (room, name)
    assert "shop.mail_dead" in client.get(list_url()).text
    assert "shop.mail_order" in client.get(list_of(type(mail.workflow))).text


@pytest.mark.parametrize("term", ["key", "id", "type", "dispatch"])
def test_a_search_finds_nothing_of_what_is_not_seen(enter: Enter, mail: World, pay: World, term: str) -> None:
    client = enter(*EVERYTHING)

    def find(of: World) -> list[str]:
        what = {
            "key": of.workflow.key,
            "id": str(of.workflow.pk),
            "type": of.workflow.type,
            "dispatch": of.letter.dispatch_key,
        }[term]
        rooms = {"type": [type(of.workflow)], "dispatch": [type(of.letter)]}.get(
            term, [type(of.workflow), type(of.letter)]
        )
        return [client.get(list_of(room), {"q": what}).text for room in rooms]

    assert all("Nothing matches." in text for text in find(pay))
    assert not any("Nothing matches." in text for text in find(mail))


def test_a_key_that_two_have_finds_the_one_that_is_seen(enter: Enter) -> None:
    own = letter(queue="mail", workflow__queue="mail", workflow__key="order-1", workflow__type="shop.a")
    letter(queue="pay", workflow__queue="pay", workflow__key="order-1", workflow__type="shop.b")
    text = enter("view_deadletter").get(list_url("?q=order-1")).text
    assert page_of(own) in text


def test_a_list_narrowed_to_a_workflow_that_is_not_seen_is_empty(enter: Enter, mail: World, pay: World) -> None:
    client = enter(*EVERYTHING)
    for row in (pay.row, pay.item, pay.message, pay.letter, pay.audit):
        text = client.get(list_of(type(row)), {"workflow": str(pay.workflow.pk)}).text
        assert "Nothing matches." in text
        assert page_of(row) not in text


def test_autocompletion_names_only_what_is_seen(enter: Enter, mail: World, pay: World) -> None:
    client = enter(*EVERYTHING)
    asked = {"app_label": "durable", "model_name": "outboxrow", "field_name": "workflow", "term": ""}
    found = json.loads(client.get(reverse("admin:autocomplete"), asked).content)
    assert [result["id"] for result in found["results"]] == [str(mail.workflow.pk)]


def test_the_head_of_the_apps_page_counts_only_what_is_seen(enter: Enter, mail: World, pay: World) -> None:
    long_ago = factories.now() - timedelta(minutes=50)
    for queue in ("mail", "pay", "pay"):
        factories.WorkflowFactory(queue=queue, blocked_reason="the code has changed")
        closed = {"closed_at": factories.now()}
        factories.WorkflowFactory(queue=queue, status="failed", **closed)
        row = factories.OutboxRowFactory(queue=queue, status="claimed")
        factories.WorkItemFactory(outbox_row=row, locked_until=long_ago)
        factories.OutboxRowFactory(queue=queue, visible_after=long_ago)
        factories.WorkflowFactory(queue=queue, wake_at=long_ago)
    client = enter(*EVERYTHING)
    text = client.get(reverse("admin:app_list", args=["durable"])).text
    cards = re.findall(r'card-figure">(.*?)</span> <span class="durable-card-label">(.*?)</span>', text)
    figures = {label: figure for figure, label in cards}
    assert figures == {
        "dead letter": "1",
        "blocked workflow": "1",
        "workflow failed since yesterday": "1",
        "stale claim": "1",
        "due in “mail”, and no worker": "3",
    }


def test_the_page_of_a_worker_names_only_deliveries_that_are_seen(enter: Enter, mail: World, pay: World) -> None:
    worker = factories.WorkerFactory(name="worker-1")
    text = enter(*EVERYTHING).get(page_of(worker)).text
    assert str(mail.workflow.pk) in text
    assert str(pay.workflow.pk) not in text


def test_the_page_of_a_workflow_does_not_tell_of_relatives_that_are_not_seen(
    enter: Enter, mail: World, pay: World
) -> None:
    child = factories.WorkflowFactory(queue="mail", parent=pay.workflow)
    hidden = factories.OutboxRowFactory(workflow=child, queue="pay", activity="shop.secret")
    text = enter(*EVERYTHING).get(page_of(child)).text
    assert "shop.pay_order" not in text
    assert page_of(hidden) not in text
    assert "shop.secret" not in text
