"""Names that look like others, or turn the rest of a line around, are shown as what they are."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

import durable
from durable.errors.showing import visible
from durable.kernel.definitions.registry import registry
from durable.models import DeadLetter, OutboxRow, Workflow
from tests import factories
from tests.admin.conftest import ROOMS, event_of, list_of, page_of
from tests.management.ran import Ran

pytestmark = pytest.mark.django_db(transaction=True)

HIDDEN = "\u202e\u2066\u200b\u200f\ufeff\x1b\x7f\x85\u2028\u3164\U000e0041\u00ad"
NAME = f"order-{HIDDEN}1"
SHOWN = r"order-\u202e\u2066\u200b\u200f\ufeff\x1b\x7f\x85\u2028\u3164\U000e0041\xad1"
COMPOSED, APART = "caf\u00e9", "cafe\u0301"
INVISIBLE = re.compile(f"[{HIDDEN}]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (NAME, SHOWN),
        ("a\nb\tc", r"a\nb\tc"),
        ("a\u00a0b", r"a\xa0b"),
        (COMPOSED, COMPOSED),
        (APART, r"cafe\u0301"),
        ("\u212b", r"\u212b"),
        ("\u1100\u1161", "\u1100" + r"\u1161"),
        ("שלום 注文 🦊", "שלום 注文 🦊"),
        ("C:\\new", "C:\\new"),
        ("\ud800", r"\ud800"),
        ("", ""),
    ],
)
def test_what_makes_no_mark_is_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(visible(text)) == shown


def test_a_text_of_several_lines_keeps_them_and_nothing_that_deceives() -> None:
    assert visible(f"one\n\ttwo\u3000{HIDDEN}", lines=True) == "one\n\ttwo\u3000" + SHOWN[len("order-") : -1]


def rows() -> tuple[Any, ...]:
    """A row of every kind that is named so wherever it has a name."""
    failure = {"type": NAME, "message": NAME, "traceback": NAME}
    workflow = factories.WorkflowFactory(
        type=NAME, key=NAME, queue=NAME, input=json.dumps(NAME, ensure_ascii=False), custom_status=NAME,
        blocked_reason=NAME, status="failed", failure=failure,
    )  # fmt: skip
    data = {"type": NAME, "name": NAME, "payload": NAME, "actor": NAME, "reason": NAME, "failure": failure}
    kinds = ("workflow_started", "signal_received", "cancel_requested", "activity_failed", "workflow_blocked")
    for seq, kind in enumerate(kinds, 1):
        factories.EventFactory(workflow=workflow, seq=seq, type=kind, ordinal=1, data=data)
    Workflow.objects.update(last_seq=len(kinds))
    row = factories.OutboxRowFactory(
        workflow=workflow, activity=NAME, queue=NAME, node=NAME, status="dead", dead_lettered_at=factories.now()
    )
    factories.FailedAttemptFactory(outbox_row=row, worker=NAME, error=failure)
    item = factories.WorkItemFactory(outbox_row=row, worker=NAME)
    signal = json.dumps({"name": NAME, "payload": "1"}, ensure_ascii=False)
    message = factories.MessageFactory(workflow=workflow, kind="signal", payload=signal, dedup=NAME)
    worker = factories.WorkerFactory(name=NAME, queues=[NAME])
    return workflow, row, item, message, worker, DeadLetter.objects.get(pk=row.pk)


def test_no_page_shows_a_name_as_what_it_is_not(root: Client) -> None:
    workflow, row, item, message, _worker, letter = rows()
    pages = [page_of(each) for each in (workflow, row, item, message, letter)]
    pages += [page_of(letter).replace("/change/", f"/{action}/") for action in ("redrive", "force_redrive", "discard")]
    pages += [page_of(workflow).replace("/change/", f"/{verb}/") for verb in ("signal", "cancel", "terminate")]
    pages += [list_of(model) for model in ROOMS] + [event_of(workflow, seq) for seq in range(1, 6)]
    for url in pages:
        text = re.sub(r'(?:href|value|title|name)="[^"]*"', "", root.get(url).text)
        found = INVISIBLE.search(text)
        assert found is None, (url, ascii(text[max(found.start() - 80, 0) : found.end() + 20]))
    assert SHOWN in root.get(page_of(workflow)).text


def test_names_among_words_have_a_direction_of_their_own(root: Client) -> None:
    workflow = factories.WorkflowFactory(type="הזמנה", key="הזמנה-1", last_seq=1)
    factories.EventFactory(workflow=workflow, seq=1, type="signal_received", data={"name": "אישור"})
    text = root.get(page_of(workflow)).text
    for part in ("<bdi>הזמנה</bdi>", "<bdi>הזמנה-1</bdi>", "Signal “<bdi>אישור</bdi>” received"):
        assert part in text, part


def test_the_command_shows_a_name_as_what_it_is_in_tables_and_in_json() -> None:
    workflow, *_rest = rows()
    for verb in (["list"], ["show", str(workflow.pk)], ["deadletters"]):
        text, data = Ran(*verb).out, Ran(*verb, "--json")
        assert SHOWN in text, verb
        assert INVISIBLE.search(text) is None, verb
        assert INVISIBLE.search(data.out) is None, verb
        assert data.out.isascii()
    assert Ran("list", "--json").data[0]["key"] == NAME, "what is read is what is stored"
    assert len(Ran("list", "--key", NAME, "--json").data) == 1


def test_json_keeps_what_can_be_read() -> None:
    factories.WorkflowFactory(key="注文 café שלום")
    assert "注文 café שלום" in Ran("list", "--json").out


@pytest.mark.parametrize("char", ["\n", "\r", "\t", "\x1b", "\x7f", "\x85", "\u2028", "\u2029"])
def test_a_key_with_a_control_character_is_refused(char: str) -> None:
    with registry.isolated():

        @durable.workflow(name="keys.wait")
        async def wait() -> None: ...

        @durable.activity(name="keys.work")
        def work() -> None: ...

        key = f"order{char}1"
        for begin in (lambda: wait.options(key=key).start(), lambda: work.options(key=key).enqueue(),
                      lambda: wait.start_many([()], keys=[key])):  # fmt: skip
            with pytest.raises(durable.KeyInvalid, match="a control character or a line break") as refused:
                begin()
            assert char not in str(refused.value)
        factories.WorkflowFactory(type="keys.wait", key=key)
        assert wait.get(key).status() == "running", "what was begun before is found all the same"


def test_keys_that_look_alike_are_two_keys_and_look_apart(root: Client) -> None:
    """Decided: keys are compared by their characters and stored as they are given. Nothing is normalised."""
    with registry.isolated():

        @durable.workflow(name="keys.wait")
        async def wait() -> None: ...

        first, second = wait.options(key=COMPOSED).start(), wait.options(key=APART).start()
        assert first.id != second.id
        with pytest.raises(durable.KeyTaken):
            wait.options(key=APART).start()
        assert (wait.get(COMPOSED).id, wait.get(APART).id) == (first.id, second.id)
    assert [len(Ran("list", "--key", key, "--json").data) for key in (COMPOSED, APART)] == [1, 1]
    text = root.get(list_of(Workflow)).text
    assert COMPOSED in text
    assert r"cafe\u0301" in text


@pytest.mark.parametrize(
    ("stored", "typed"),
    [
        (NAME, NAME),
        (NAME, SHOWN),
        (" order 1 ", " order 1 "),
        ("order 1", " order 1 "),
        (APART, APART),
        (APART, r"cafe\u0301"),
        (APART, COMPOSED),
        (COMPOSED, APART),
        (r"C:\new", r"C:\new"),
    ],
)
def test_a_key_is_found_as_it_is_stored_and_as_it_is_shown(root: Client, stored: str, typed: str) -> None:
    workflow = factories.WorkflowFactory(key=stored)
    factories.WorkflowFactory(key="another")
    factories.OutboxRowFactory(workflow=workflow, status="dead", dead_lettered_at=factories.now())
    for model in (Workflow, DeadLetter):
        found = root.get(f"{list_of(model)}?q={quote(typed)}").context["cl"].result_list
        assert len(found) == 1, model
    assert OutboxRow.objects.count() == 1


def test_djangos_own_log_of_what_staff_did_deceives_nobody(root: Client) -> None:
    workflow = factories.WorkflowFactory()
    url = page_of(workflow).replace("/change/", "/terminate/")
    root.post(url, {"reason": f"stuck{HIDDEN}", "request_id": ""})
    assert INVISIBLE.search(LogEntry.objects.get().change_message) is None
