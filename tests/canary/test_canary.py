"""A secret in arguments, signals, heartbeats, errors and reasons is nowhere but where it may be.

The measure of `CODEC`, `LOG_FAILURES` and the permissions together: every text of every column, every line, every entry
of the admin's log and every page of staff without the permissions is searched for it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection, models
from django.test import Client, override_settings
from django.urls import reverse

from durable import operations, testing
from durable.client.handle import Handle
from durable.kernel.definitions.registry import registry
from durable.kernel.payloads.birthplace import NOWHERE
from durable.models import DeadLetter, Event, FailedAttempt, Message, OutboxRow, Workflow
from tests.canary import code
from tests.canary.code import CANARY

pytestmark = pytest.mark.django_db(transaction=True)

REASON = "reason-canary"
"""A reason is written for people: it is stored and shown as it is, to those who see the workflow."""

VIEWS = [
    *("view_workflow", "view_outboxrow", "view_workitem", "view_message", "view_worker", "view_deadletter"),
    *("view_staffaction", "redrive_deadletter", "discard_deadletter", "cancel_workflow", "terminate_workflow"),
]


class Kept(logging.Handler):
    """Every record below `durable`, as a formatter writes it and with all that it carries."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        values = {name: value for name, value in vars(record).items() if name != "exc_info"}
        self.texts.append(f"{logging.Formatter().format(record)} {values!r}")


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What is logged."""
    logger, kept = logging.getLogger("durable"), Kept()
    before = logger.level
    logger.addHandler(kept)
    logger.setLevel(logging.DEBUG)
    yield kept.texts
    logger.removeHandler(kept)
    logger.setLevel(before)


def play(monkeypatch: pytest.MonkeyPatch) -> dict[str, Handle[Any]]:
    """Each way in which the secret comes in, and each way in which something fails over it."""
    started: dict[str, Handle[Any]] = {
        name: getattr(code, name).start(CANARY)
        for name in ("pay", "fails", "fails_by_activity", "held", "unreadable", "unreadable_key", "changing")
    }
    started["cancelled"] = code.unreadable.start(CANARY)
    started["changed"] = code.changing.start(CANARY)
    started["single"] = code.refuse.enqueue(CANARY)
    started["held_single"] = code.hold.enqueue(CANARY)
    started["undecodable"] = code.take.enqueue(7)
    OutboxRow.objects.filter(workflow_id=started["undecodable"].id).update(input=stored({"card": CANARY}))
    with testing.freeze():
        testing.drain(until=timedelta(seconds=1))
        started["pay"].signal("card", {"number": CANARY})
        started["unreadable"].signal("count", {"number": CANARY})
        started["unreadable_key"].signal("sums", {CANARY: {CANARY: CANARY}})
        started["changing"].signal("card", {"number": CANARY})
        started["changed"].signal("card", {"number": CANARY})
        started["cancelled"].signal("nobody reads it", CANARY)
        monkeypatch.setattr(code, "altered", True)
        with testing.cold():
            testing.drain(until=timedelta(hours=2))
    started["cancelled"].cancel(reason=REASON)
    testing.drain()
    letters = {letter.workflow_id: letter for letter in OutboxRow.objects.dead_letters()}
    operations.redrive(letters[started["held"].id].workflow_id, 1, reason=REASON)
    testing.drain()
    operations.terminate(started["changing"].id, reason=REASON)
    return started


def stored(value: Any) -> str:
    from durable.conf import settings

    return settings.codec().seal(json.dumps(value), path="input", birthplace=NOWHERE)


def columns() -> Iterator[tuple[str, str]]:
    """Each text, JSON or binary column of every table of the project, and all that stands in it as one text."""
    for model in apps.get_models(include_auto_created=True):
        for field in model._meta.local_concrete_fields:
            if isinstance(field, models.CharField | models.TextField | models.JSONField | models.BinaryField):
                quoted = connection.ops.quote_name
                with connection.cursor() as cursor:
                    cursor.execute(f"SELECT {quoted(str(field.column))} FROM {quoted(model._meta.db_table)}")
                    yield f"{model._meta.label}.{field.name}", " ".join(str(row[0]) for row in cursor.fetchall())


def pages() -> Iterator[str]:
    """The address of every page of the app's."""
    for model in apps.get_app_config("durable").get_models():
        try:
            yield reverse(f"admin:durable_{model._meta.model_name}_changelist")
        except Exception:
            continue
        rows: Any = model._default_manager.all()
        for row in rows.dead_letters() if model is DeadLetter else rows:
            yield reverse(f"admin:durable_{model._meta.model_name}_change", args=[row.pk])
    yield reverse("admin:index")
    yield reverse("admin:app_list", args=["durable"])
    for event in Event.objects.all():
        yield reverse("admin:durable_workflow_event", args=[event.workflow_id, event.seq])
    for letter in OutboxRow.objects.dead_letters():
        for action in ("redrive", "discard"):
            yield reverse(f"admin:durable_deadletter_{action}", args=[letter.pk])


def browser(*codenames: str) -> Client:
    user, _made = User.objects.get_or_create(username="staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="durable", codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def found(client: Client, text: str, *, at_most: int | None = None) -> list[str]:
    """The pages that hold a text, or the first of them; all of them have to open."""
    holding: list[str] = []
    for address in pages():
        if len(holding) == at_most:
            break
        answer = client.get(address)
        assert answer.status_code == 200, address
        if text in answer.text:
            holding.append(address)
    return holding


def commands(started: dict[str, Handle[Any]], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    for json_too in ([], ["--json"]):
        for handle in started.values():
            call_command("durable", "show", str(handle.id), *json_too)
        for verb in ("list", "deadletters"):
            call_command("durable", verb, *json_too)
    return capsys.readouterr().out


def outcome(started: dict[str, Handle[Any]]) -> dict[str, str]:
    """What became of each, so that the test cannot pass over a story that did not happen."""
    rows = {row.pk: row for row in Workflow.objects.all()}
    return {
        name: "blocked" if rows[handle.id].blocked_reason else rows[handle.id].status
        for name, handle in started.items()
    }


EXPECTED = {
    "pay": "completed",
    "fails": "failed",
    "fails_by_activity": "failed",
    "held": "running",
    "unreadable": "failed",
    "unreadable_key": "failed",
    "changing": "cancelled",
    "changed": "blocked",
    "cancelled": "cancelled",
    "single": "failed",
    "held_single": "running",
    "undecodable": "running",
}


@override_settings(DURABLE={"CODEC": "tests.canary.shifting.Shifting"})
def test_under_a_codec_no_column_holds_it_and_no_line(monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    assert outcome(play(monkeypatch)) == EXPECTED
    assert FailedAttempt.objects.count() > 3
    assert [name for name, text in columns() if CANARY in text] == []
    assert [line for line in lines if CANARY in line] == []
    markers = [event.data["problem"] for event in Event.objects.filter(type="marker_recorded")]
    assert any("sums[key no. 1][key no. 1]: the stored str is not" in problem for problem in markers), markers
    assert sum("error_type=tests.canary.code.CanaryError" in line for line in lines) > 3


@override_settings(DURABLE={"CODEC": "tests.canary.shifting.Shifting"})
def test_a_reason_is_where_people_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch)
    holding = {name for name, text in columns() if REASON in text}
    assert holding == {"durable.Event.data", "durable.StaffAction.reason"}


@override_settings(DURABLE={"CODEC": "tests.canary.shifting.Shifting"})
def test_pages_show_it_to_nobody_without_the_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch)
    assert found(browser(*VIEWS), CANARY) == []
    assert len(found(browser(*VIEWS, "view_payload"), CANARY, at_most=6)) == 6
    of_failures = found(browser(*VIEWS, "view_failure"), CANARY)
    assert len(of_failures) > 5
    assert not [address for address in of_failures if "/message/" in address or "/workitem/" in address]


@override_settings(DURABLE={"CODEC": "tests.canary.shifting.Shifting"})
def test_what_staff_do_puts_it_into_no_log_entry(monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    play(monkeypatch)
    client = browser(*VIEWS)
    letters = list(OutboxRow.objects.dead_letters())
    assert letters
    form = {"confirmed": "yes", "reason": REASON, "then": "fail"}
    for letter, action in zip(letters, ("discard", "redrive", "discard"), strict=False):
        address = reverse(f"admin:durable_deadletter_{action}", args=[letter.pk])
        answer = client.post(address, form, follow=True)
        assert (answer.status_code, CANARY in answer.text) == (200, False)
    assert LogEntry.objects.count() >= 2
    assert [name for name, text in columns() if CANARY in text] == []
    assert [line for line in lines if CANARY in line] == []


@override_settings(DURABLE={"REDACT_PAYLOADS": True})
def test_redaction_hides_it_from_everybody(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    started = play(monkeypatch)
    assert outcome(started) == EXPECTED
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    assert found(client, CANARY) == []
    assert CANARY not in commands(started, capsys)
    assert [line for line in lines if CANARY in line] == []


def test_the_search_for_the_canary_can_fail(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing is hidden the same searches find it everywhere."""
    started = play(monkeypatch)
    assert outcome(started) == EXPECTED
    holding = {name for name, text in columns() if CANARY in text}
    assert holding >= {
        *("durable.Workflow.input", "durable.Workflow.result", "durable.Workflow.failure"),
        *("durable.Workflow.blocked_reason", "durable.Event.data", "durable.OutboxRow.input"),
        *("durable.OutboxRow.last_heartbeat", "durable.FailedAttempt.error", "durable.Message.payload"),
    }
    assert any(CANARY in line for line in lines)
    assert CANARY in commands(started, capsys)
    assert found(browser(*VIEWS, "view_payload", "view_failure"), CANARY)
    assert Message.objects.exists()
    assert {definition.name for definition in registry.workflows()} >= {"canary.pay"}
