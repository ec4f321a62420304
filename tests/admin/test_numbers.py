"""Numbers: one form on a page, the reader's; and none at all where a browser, an address or a form reads them."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from durable.kernel.history.events import EventType
from durable.models import DeadLetter, OutboxRow
from tests import factories
from tests.admin.conftest import address, event_of, page_of
from tests.admin.dead_letters import choose, confirm, form_of, letter, said

pytestmark = pytest.mark.django_db

SITES = [("en", False, ","), ("en", True, ","), ("nl", False, "."), ("nl", True, "."), ("sv", True, "\xa0")]
"""Languages that write numbers in other ways, and have no catalogue of ours: their pages speak English."""
GROUPED = r"\d[.,\xa0'\u202f’]\d{3}(?!\d)"


class Page(HTMLParser):
    """The texts of a page, and all values of its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self._skipped = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped = tag in ("script", "style")
        self.attributes += [(tag, name, value or "") for name, value in attrs if tag != "path"]

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All of it, each run of white space as one space; hard spaces stay."""
        return re.sub(r"[ \n\t]+", " ", "".join(self.texts))


@pytest.fixture(params=SITES, ids=lambda site: f"{site[0]}-{site[1]}")
def separator(request: pytest.FixtureRequest, settings: Any) -> Any:
    """The site's language and its setting; the separator that follows from them."""
    language, separated, character = request.param
    settings.USE_THOUSAND_SEPARATOR = separated
    settings.LANGUAGE_CODE = language
    with translation.override(language):
        yield character


def opened(client: Client, url: str) -> Page:
    response = client.get(url)
    assert response.status_code == 200, url
    return Page(response.text)


def assert_one_form(page: Page, separator: str) -> None:
    for tag, name, value in page.attributes:
        assert not re.search(GROUPED, value), (tag, name, value)
    found = re.findall(GROUPED, page.text)
    assert {match[1] for match in found} <= {separator}, found


def a_long_workflow() -> Any:
    workflow = factories.WorkflowFactory(last_seq=10_241, priority=1_500)
    for seq in range(10_140, 10_242):
        factories.EventFactory(
            workflow=workflow, seq=seq, type=EventType.ACTIVITY_SCHEDULED.value, ordinal=seq,
            data={"activity": "shop.charge", "more": "x" * (12_345 if seq == 10_241 else 1)},
        )  # fmt: skip
    return workflow


def test_a_history_counts_in_one_form_and_its_attributes_stay_numbers(root: Client, separator: str) -> None:
    workflow = a_long_workflow()
    factories.OutboxRowFactory(
        workflow=workflow, ordinal=10_241, status="claimed", attempts=1_499, attempt_budget=2_000, deliveries=1_600
    )
    page = opened(root, page_of(workflow))
    assert_one_form(page, separator)
    number = f"10{separator}241"
    assert f"Events 10{separator}142 to {number} of {number}" in page.text
    assert f"Activity {number} (shop.charge) was scheduled" in page.text
    assert f"1{separator}500 of 2{separator}000, running now" in page.text
    assert f"12{separator}" in page.text.partition("characters of data")[0][-20:]
    assert ("li", "value", "10241") in page.attributes
    assert "10241" not in page.text
    assert f"/durable/workflow/{workflow.pk}/event/10241/" in str(page.attributes)
    event = opened(root, event_of(workflow, 10_240))
    assert_one_form(event, separator)
    assert f"Event 10{separator}240" in event.text


def test_a_row_of_any_number_is_addressed_by_its_key(root: Client, separator: str) -> None:
    workflow = factories.WorkflowFactory()
    row = letter(
        pk=1_234_567, workflow=workflow, ordinal=4_321, attempts=1_499, attempt_budget=2_000, deliveries=1_600,
        delivery_budget=2_000, delivery_failures=1_234, redrive_count=1_111, priority=1_700,
    )  # fmt: skip
    message = factories.MessageFactory(pk=2_345_678, workflow=workflow, ordinal=4_321)
    for url in (page_of(row), address(OutboxRow, row.pk), page_of(message), page_of(workflow),
                "/admin/durable/deadletter/", "/admin/durable/outboxrow/", "/admin/durable/message/",
                f"/admin/durable/deadletter/{row.pk}/redrive/"):  # fmt: skip
        assert_one_form(opened(root, url), separator)
    page = opened(root, page_of(row))
    assert "#1234567" in page.text
    assert f"1{separator}600; 1{separator}234 of 2{separator}000 lost" in page.text
    assert f"run 1, activity 4{separator}321" in page.text
    assert f"1{separator}111×" in page.text


def many_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a thousand of one workflow, which one request may do."""
    for module in ("carrying_out", "confirming"):
        monkeypatch.setattr(f"durable.admin.dead_letters.{module}.AT_MOST_HERE", 2_000)
    workflow = letter().workflow
    rows = [factories.DeadLetterFactory.build(workflow=workflow, ordinal=ordinal) for ordinal in range(2, 1_051)]
    DeadLetter.objects.bulk_create(rows)


def test_a_preview_of_many_says_and_carries_their_number(
    root: Client, separator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_letters(monkeypatch)
    response = choose(root, "discard")
    page = Page(response.text)
    assert_one_form(page, separator)
    assert f"1{separator}050 dead letters" in page.text
    assert form_of(response)["previewed"] == "1050"
    assert "in the background" not in page.text.partition("Selection")[2]


def test_what_became_of_many_is_told_in_the_readers_form(
    root: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.USE_THOUSAND_SEPARATOR = True
    settings.LANGUAGE_CODE = "nl"
    with translation.override("nl"):
        many_letters(monkeypatch)
        told = said(confirm(root, choose(root, "discard"), reason="paid by hand"))
    assert told[0].startswith("1.050 dead letters were discarded. They will not run again.")
    assert "and 1.045 more" in told[0]
    assert len(told) == 1


def test_ticked_rows_of_high_numbers_come_back_from_the_form(root: Client, separator: str) -> None:
    rows = [letter(pk=1_234_567), letter(pk=1_234_568)]
    page = choose(root, "redrive", *rows)
    assert_one_form(Page(page.text), separator)
    assert sorted(form_of(page)["_selected_action"]) == ["1234567", "1234568"]
    assert form_of(page)["could_go"] == "1234567,1234568"
    assert said(confirm(root, page))[0].startswith("2 dead letters were queued for retry")
