"""The admin in other languages: no text of a page stays in English, what is stored and logged does, and nothing that a
browser reads changes with the language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import translation

from durable.activities import QUEUE
from durable.admin.words import wording
from durable.kernel.definitions.registry import registry
from durable.kernel.history.events import EventType
from durable.models import Event, Message, StaffAction, Workflow
from durable.outcomes import Cause, OutboxStatus, StaffVerb
from tests import factories
from tests.admin.conftest import ROOMS, Scene, event_of, list_of, page_of
from tests.admin.dead_letters import act, choose, confirm, letter, one_url, records, said
from tests.languages.marked import marked, unmarked

pytestmark = pytest.mark.django_db

VERBS = ("signal", "pause", "resume", "unblock", "cancel", "terminate")
OF_OTHERS = {
    "root", "anna", "UTC", "abc123", "nbsp", "ADMIN_SCOPE", "OSError", "builtins", "approval", "the bank is back",
    "the bank is closed", "shop", "json", "x" * 2_000, '{"ok": true}', QUEUE, "Search",
}  # fmt: skip
"""Words of the rows that tests make, and names. *Search* is the one text that Django itself does not translate."""


def data_of() -> set[str]:
    """Words on pages that nobody translates: what the rows hold, what is registered, and other apps' names."""
    words = {definition.name for definition in (*registry.activities(), *registry.workflows())}
    for model in (*ROOMS, Event):
        for row in model._default_manager.values():
            words |= {str(value) for value in row.values() if isinstance(value, str) and value}
    names = {
        str(name)
        for config in apps.get_app_configs()
        if not config.name.startswith(("durable", "django."))
        for name in (
            config.verbose_name,
            *(name for model in config.get_models() for name in (model._meta.verbose_name_plural,)),
        )
    }
    kept = {word for word in words | OF_OTHERS | {str(event) for event in EventType} if re.search("[A-Za-z]", word)}
    # A project's own title of its admin, once another test of the process has loaded that project.
    names |= {title for title in (admin.site.site_header, admin.site.site_title) if type(title) is str}
    names |= {name.capitalize() for name in names} | {name[:1].upper() + name[1:] for name in names}
    return kept | names | {f"…{word}" for word in kept if len(word) > 40}


def left(page: Any) -> list[str]:
    assert page.status_code == 200, page.status_code
    return unmarked(page.text, data_of())


def test_no_text_of_a_list_or_a_page_stays_in_one_language(root: Client, scene: Scene) -> None:
    records(scene.letter, EventType.ACTIVITY_FAILED)
    with marked():
        found = {url: left(root.get(url)) for url in [*scene.pages(), reverse("admin:app_list", args=["durable"])]}
    assert {url: texts for url, texts in found.items() if texts} == {}


def test_no_text_of_an_empty_list_stays_in_one_language(root: Client) -> None:
    with marked():
        addresses = [list_of(model) for model in ROOMS] + [reverse("admin:app_list", args=["durable"])]
        addresses += [f"{list_of(ROOMS[0])}?q=nothing", f"{list_of(ROOMS[0])}?before={factories.ordered_uuid()}"]
        found = {url: left(root.get(url)) for url in addresses}
    assert {url: texts for url, texts in found.items() if texts} == {}


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "paused"},
        {"status": "completed", "result": "1"},
        {"status": "failed", "failure": {"type": "builtins.OSError", "message": "the bank is closed"}},
        {"status": "cancelled"},
        {"status": "timed_out", "run": 2},
        {"single": True},
        {"blocked_reason": "the bank is back", "error_class": "OSError", "error_group": "0123456789abcdef"},
        {"timers": [{"due": "2026-01-01T00:00:00+00:00"}] * 30, "priority": 5, "poison_turns": 2},
        {"custom_status": "the bank is back", "deadline_at": datetime(2030, 1, 1, tzinfo=UTC)},
    ],
    ids=str,
)
def test_no_text_of_a_workflow_stays_in_one_language(root: Client, columns: dict[str, Any]) -> None:
    workflow = factories.WorkflowFactory(last_seq=0, **columns)
    seq = 0
    for kind in EventType:
        seq += 1
        data = {"actor": "anna", "reason": "the bank is back", "failure": {"type": "OSError"}, "attempts": 2,
                "name": "approval", "type": "shop", "cause": [1]}  # fmt: skip
        factories.EventFactory(workflow=workflow, seq=seq, type=kind.value, ordinal=1, data=data)
    Workflow.objects.filter(pk=workflow.pk).update(last_seq=seq)
    row = factories.OutboxRowFactory(workflow=workflow, status="claimed", attempts=1)
    factories.WorkItemFactory(outbox_row=row, locked_until=factories.now() - timedelta(hours=1),
                              cancel_requested_at=factories.now())  # fmt: skip
    factories.MessageFactory(workflow=workflow, parked=True)
    addresses = [
        page_of(workflow),
        f"{page_of(workflow)}?order=oldest",
        f"{page_of(workflow)}?seq=9999999&order=oldest",
    ]
    addresses += [reverse(f"admin:durable_workflow_{verb}", args=[workflow.pk]) for verb in VERBS]
    addresses += [page_of(row), list_of(Workflow), event_of(workflow, 3)]
    with marked():
        found = {url: left(root.get(url)) for url in addresses}
    assert {url: texts for url, texts in found.items() if texts} == {}


def test_no_text_of_a_family_stays_in_one_language(root: Client) -> None:
    parent = factories.WorkflowFactory()
    factories.history_of(parent, length=1)
    policies = ("cancel", "terminate", "abandon")
    kin = [
        factories.WorkflowFactory(
            parent=parent, parent_run=1, parent_ordinal=number, parent_close=policies[number % 3], status=status
        )
        for number, status in enumerate(["running", "completed", "paused", "running", "failed", "running"], start=1)
    ]
    addresses = [page_of(parent), *map(page_of, kin), f"{list_of(Workflow)}?parent={parent.pk}"]
    addresses += [reverse(f"admin:durable_workflow_{verb}", args=[parent.pk]) for verb in VERBS]
    with marked():
        found = {url: left(root.get(url)) for url in addresses}
    assert {url: texts for url, texts in found.items() if texts} == {}


@pytest.mark.parametrize("begun", [False, True])
def test_no_text_of_a_delivery_that_was_sent_stays_in_one_language(root: Client, begun: bool) -> None:
    at = factories.now() if begun else None
    item = factories.WorkItemFactory(queue="reports", begun_at=at)
    with marked():
        assert [left(root.get(url)) for url in (page_of(item), list_of(type(item)))] == [[], []]


@pytest.mark.parametrize("status", list(OutboxStatus))
@pytest.mark.parametrize("cause", list(Cause))
def test_no_text_of_a_dead_letter_stays_in_one_language(root: Client, status: OutboxStatus, cause: Cause) -> None:
    row = letter(cause=cause.value, status=status.value, failure_delivered=cause is Cause.TIMEOUT, redrive_count=2)
    with marked():
        assert left(root.get(page_of(row))) == []


@pytest.mark.parametrize("action", ["redrive", "force_redrive", "discard"])
def test_no_text_of_an_action_stays_in_one_language(root: Client, action: str) -> None:
    waits, moved = letter(), letter(failure_delivered=True)
    records(moved, EventType.ACTIVITY_FAILED)
    paused = letter(workflow__status="paused")
    with marked():
        one = root.get(one_url(waits, action))
        some = choose(root, action, waits, moved, paused)
        whole = choose(root, action, query="?judged=held&attempts=none&failed=day&queue=default")
        assert [left(page) for page in (one, some, whole)] == [[], [], []]
        wrong = confirm(root, some, reason="x" * 2_000)
        assert left(wrong) == []
        done = confirm(root, some, reason="the bank is back")
        assert said(done)
        assert left(done) == []
        again = confirm(root, some, reason="the bank is back")
        assert said(again)
        assert left(again) == []
        nothing_chosen = choose(root, "").url
        assert left(root.get(nothing_chosen)) == []


def test_no_text_of_a_background_job_stays_in_one_language(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("carrying_out", "confirming"):
        monkeypatch.setattr(f"durable.admin.dead_letters.{name}.AT_MOST_HERE", 1)
    letter(), letter()
    with marked():
        page = choose(root, "redrive")
        assert left(page) == []
        job = confirm(root, page, reason="the bank is back")
        assert left(job) == []
        assert left(root.get(reverse("admin:durable_deadletter_bulk_list"))) == []


def test_no_message_about_a_workflow_stays_in_one_language(root: Client) -> None:
    forms: dict[str, list[dict[str, str]]] = {
        "pause": [{}, {}],
        "resume": [{}],
        "unblock": [{}],
        "signal": [{"signal": "approval"}, {"signal": ""}, {"signal": "x" * 300}, {"signal": "a", "payload": "{"}],
        "cancel": [{"reason": "\0"}, {"reason": "x" * 2_000}, {}],
        "terminate": [{}, {"reason": "the bank is back"}, {"reason": "the bank is back"}],
    }
    workflow = factories.WorkflowFactory()
    factories.history_of(workflow, length=1)
    with marked():
        for verb, sent in forms.items():
            for form in sent:
                url = reverse(f"admin:durable_workflow_{verb}", args=[workflow.pk])
                page = root.post(url, form, follow=True)
                # What a parser of JSON says is its own.
                assert [text for text in left(page) if "Expecting property name" not in text] == [], (verb, form)


@pytest.mark.parametrize("verb", list(StaffVerb))
def test_no_staff_action_stays_in_one_language(root: Client, verb: StaffVerb) -> None:
    row = factories.StaffActionFactory(verb=verb.value, mode="", data={"page": "x", "address": "y", "login": "z"})
    with marked():
        assert left(root.get(page_of(row))) == []


def test_a_text_in_ordinary_letters_is_found() -> None:
    assert unmarked('<p title="Later">Go on</p><pre>data</pre>', {"data"}) == ["Later", "Go on"]
    with marked():
        text = translation.gettext("%(count)s <b>rows</b>") % {"count": "many"}
    assert unmarked(f"<p>{text}</p>", {"nothing"}) == ["many"]
    assert unmarked(f"<p>{text}</p>", {"many"}) == []


@pytest.fixture(params=["de", "fr"])
def language(request: pytest.FixtureRequest) -> Iterable[str]:
    with translation.override(request.param):
        yield request.param


def test_what_is_stored_and_logged_stays_english(
    root: Client, language: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The audit, the history and Django's log have one language, whoever acts."""
    row = letter()
    act(root, "redrive", row, reason="the bank is back")
    workflow = factories.WorkflowFactory()
    factories.history_of(workflow, length=1)
    for verb, form in (
        ("pause", {}),
        ("resume", {}),
        ("signal", {"signal": "approval"}),
        ("terminate", {"reason": "x"}),
    ):
        root.post(reverse(f"admin:durable_workflow_{verb}", args=[workflow.pk]), form)
    entries = {entry.get_change_message() for entry in LogEntry.objects.all()}
    assert entries == {"Redriven: the bank is back", "Paused.", "Resumed.", "Signal approval sent.", "Terminated: x"}
    audits = {(audit.verb, audit.mode, audit.through) for audit in StaffAction.objects.all()}
    assert audits == {
        ("redrive", "eligible", "admin"), ("pause", "", "admin"), ("resume", "", "admin"), ("signal", "", "admin"),
        ("terminate", "", "admin"),
    }  # fmt: skip
    stored = [str(event.data) for event in Event.objects.all()] + [message.payload for message in Message.objects.all()]
    assert not any(word in text for text in stored for word in ("ä", "ö", "ü", "é", "’"))
    assert all(record.getMessage().isascii() for record in caplog.records)
    assert capsys.readouterr().out == ""


def test_a_page_says_what_it_says_in_the_readers_language(root: Client) -> None:
    row = letter()
    with translation.override("de"):
        page = root.get(page_of(row)).text
        list_page = root.get(list_of(type(row))).text
    assert "Der Worker ist gestorben" in page
    assert "Neu einreihen" in page
    assert "<h1>Dead Letters</h1>" in list_page or "Dead Letters" in list_page
    with translation.override("fr"):
        assert "Le worker est mort" in root.get(page_of(row)).text


@pytest.mark.parametrize(
    ("asked", "heading"), [("de-AT,de;q=0.9", "Dead Letters"), ("fr", "Lettres mortes"), ("nl", "Dead letters")]
)
def test_a_browser_is_answered_in_its_language(root: Client, settings: Any, asked: str, heading: str) -> None:
    """As the page on languages says: by Django's own middleware; a language without a catalogue gets English."""
    before, after = settings.MIDDLEWARE[:2], settings.MIDDLEWARE[2:]
    settings.MIDDLEWARE = [*before, "django.middleware.locale.LocaleMiddleware", *after]
    page = root.get(list_of(ROOMS[5]), headers={"accept-language": asked}).text
    assert f'aria-current="page">{heading}' in page or f"<h1>{heading}</h1>" in page, page[:3000]


def test_the_red_button_asks_for_the_end_of_the_workflow_and_the_link_leaves_the_form(root: Client) -> None:
    """In German *Abbrechen* may be either."""
    workflow = factories.WorkflowFactory()
    with translation.override("de"):
        page = root.get(reverse("admin:durable_workflow_cancel", args=[workflow.pk])).text
        buttons = root.get(page_of(workflow)).text
    assert re.search(r'durable-button-danger" href="[^"]*/cancel/" role="button">Abbruch anfordern<', buttons)
    assert re.search(r'cancel-link" href="[^"]*" role="button">Zurück, nichts ändern<', page)
    assert "Abbrechen" not in page
    assert "Abbrechen" not in buttons


@pytest.mark.parametrize(
    ("language", "within", "alone"),
    [
        ("en", "3\xa0days ago", "3\xa0days"),
        ("de", "vor 3\xa0Tagen", "3\xa0Tage"),
        ("fr", "il y a 3\xa0jours", "3\xa0jours"),
    ],
)
def test_a_length_of_time_stands_in_the_case_that_its_sentence_wants(language: str, within: str, alone: str) -> None:
    now = datetime(2026, 12, 10, tzinfo=UTC)
    with translation.override(language):
        assert wording.relative(now - timedelta(days=3), now, units=1) == within
        assert wording.span_alone(timedelta(days=3)) == alone


@pytest.mark.parametrize(
    ("language", "text"),
    [("en", "3 May 2026, 14:05:00"), ("de", "3. Mai 2026, 14:05:00"), ("fr", "3 mai 2026, 14:05:00")],
)
def test_a_moment_is_written_as_the_language_writes_it(language: str, text: str, settings: Any) -> None:
    settings.TIME_ZONE = "UTC"
    with translation.override(language):
        assert wording.moment_text(datetime(2026, 5, 3, 14, 5, tzinfo=UTC)) == text


def attributes(page: Any) -> list[tuple[str, str]]:
    """What browsers, scripts and style sheets read of a page, without what differs from one look to the next."""
    shown = re.sub(r'<input type="submit"[^>]*>', "", page.text)
    found = re.findall(r'\b(class|id|name|value|href|datetime|maxlength|action|method|data-[a-z-]+)="([^"]*)"', shown)
    spoken = {"data-label", "data-filter-title"}
    return [
        (name, value) for name, value in found
        if name not in spoken and not re.fullmatch(r"[0-9a-f-]{32,36}|[A-Za-z0-9]{64}", value)
    ]  # fmt: skip


@pytest.mark.parametrize("language", ["de", "fr"])
def test_what_a_browser_reads_is_the_same_in_every_language(
    root: Client, scene: Scene, language: str, settings: Any, frozen_clock: Any
) -> None:
    """Also where numbers are grouped: an address, a class or a value of a form is no text."""
    settings.USE_THOUSAND_SEPARATOR = True
    Workflow.objects.filter(pk=scene.workflow.pk).update(last_seq=1_234_567)
    factories.EventFactory(workflow=scene.workflow, seq=1_234_567, type=EventType.WORKFLOW_BEGUN.value)
    pages: list[Callable[[], Any]] = [
        *((lambda url=url: root.get(url)) for url in [*scene.pages(), event_of(scene.workflow, 1_234_567)]),
        lambda: choose(root, "discard", scene.letter),
    ]
    for page in pages:
        with translation.override("en"):
            wanted = attributes(page())
        with translation.override(language):
            assert sorted(attributes(page())) == sorted(wanted)
