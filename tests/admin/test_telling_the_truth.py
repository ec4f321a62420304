"""Trouble in the middle of many: what was done is told, what was not is never told as done, one bad row stops none."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.contrib.admin.models import LogEntry
from django.db import InterfaceError, OperationalError, connection
from django.test import Client
from django.urls import reverse

from durable.admin.dead_letters import carrying_out
from durable.errors import StoreUnavailable
from durable.models import StaffAction, Workflow
from durable.operations import redrive, terminate
from durable.testing import drain
from durable.workflows import change_dead_letters
from tests import factories
from tests.admin.conftest import page_of
from tests.admin.dead_letters import act, choose, confirm, form_of, letter, list_url, said, status

pytestmark = pytest.mark.django_db
Staff = Callable[..., Client]

UNREADABLE = ["{broken", "null", '{"retry": 5}', '{"retry": {"max_attempts": 3}}', '{"start_to_close": "soon"}']


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows are many already, and a piece has two."""
    monkeypatch.setattr(carrying_out, "AT_MOST_HERE", 2)
    monkeypatch.setattr("durable.admin.dead_letters.confirming.AT_MOST_HERE", 2)
    monkeypatch.setattr("durable.activities.AT_ONCE", 2)


def resting(**columns: Any) -> Any:
    """A dead letter whose paused workflow does nothing by itself while other work is carried on."""
    return letter(workflow__status="paused", **columns)


def spoil(row: Any, text: str) -> None:
    """Put text into the column of the options that no version of the product has written."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE durable_outboxrow SET options = %s WHERE id = %s", [text, row.pk])


def words(page: Any) -> str:
    """The text of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"</?bdi>", "", page.text)))


@pytest.mark.parametrize("whole", [False, True], ids=["ticked", "all"])
@pytest.mark.parametrize("text", UNREADABLE)
def test_a_row_that_can_not_be_read_stops_none_of_the_others(root: Client, text: str, whole: bool) -> None:
    """Faults A14, A17."""
    rows = [letter() for _ in range(3)]
    spoil(rows[1], text)
    told = act(root, "redrive", *([] if whole else rows))
    assert told[0].startswith("2 dead letters were queued for retry")
    assert told[1].startswith("1 was refused. Its stored data is damaged")
    assert len(told) == 2  # nothing has changed since the preview
    assert [status(row) for row in rows] == ["pending", "dead", "pending"]
    assert root.get(page_of(rows[1])).status_code == 200
    (told_then,) = act(root, "discard", rows[1], reason="damaged")
    assert told_then.startswith("1 dead letter was discarded")


@pytest.mark.usefixtures("few_at_once")
def test_a_row_that_can_not_be_read_is_counted_in_the_background(root: Client) -> None:
    rows = [resting() for _ in range(3)]
    spoil(rows[0], "{broken")
    answer = confirm(root, choose(root, "redrive"))
    drain(until=timedelta(hours=1))
    text = words(root.get(answer.wsgi_request.path))
    assert "2 Queued for retry" in text
    assert "1 It cannot be read" in text


@pytest.mark.parametrize("error", [InterfaceError, OperationalError])
def test_a_connection_that_is_lost_at_the_log_hides_no_outcome(root: Client, error: type[Exception]) -> None:
    row = letter()
    page = choose(root, "redrive", row)
    with mock.patch("django.contrib.admin.models.LogEntryManager.log_actions", side_effect=error("closed")):
        (told,) = said(confirm(root, page))
    assert told.startswith("1 dead letter was queued for retry")
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(
    ("whole", "reads"), [(False, "letters"), (True, "look.by_key"), (True, "look.dead_letters_matching"),
                         (True, "_done_before")],
)  # fmt: skip
def test_what_has_to_be_read_is_read_before_the_first_change(root: Client, whole: bool, reads: str) -> None:
    """A page that fails behind a change would leave the person without a word of it."""
    row = letter()
    page = choose(root, "redrive", *([] if whole else [row]))
    with mock.patch(f"durable.admin.dead_letters.carrying_out.{reads}", side_effect=OperationalError("gone")):
        answer = confirm(root, page, reason="the bank is back")
    assert "The database did not carry this out: nothing was changed." in answer.text
    assert form_of(answer)["request_id"] == form_of(page)["request_id"]
    assert status(row) == "dead"


@pytest.mark.usefixtures("few_at_once")
def test_work_of_which_it_is_not_known_whether_it_began_can_be_sent_again(root: Client) -> None:
    for _ in range(3):
        resting()
    page = choose(root, "redrive")
    begin = change_dead_letters.options

    def begin_and_lose(**options: Any) -> Any:
        class Lost:
            def start(self, job: Any) -> None:
                begin(**options).start(job)
                raise OperationalError("server closed the connection unexpectedly")

        return Lost()

    losing = mock.Mock(options=begin_and_lose)
    losing.name = change_dead_letters.name
    with mock.patch.object(carrying_out, "change_dead_letters", losing):
        answer = confirm(root, page)
    assert "the job may or may not have started" in answer.text
    assert said(confirm(root, answer)) == ["Already done: this form has started the job before."]
    assert Workflow.objects.filter(type=change_dead_letters.name).count() == 1


@pytest.mark.usefixtures("few_at_once")
def test_an_outcome_that_is_not_known_is_not_told_as_nothing_changed(root: Client) -> None:
    """Specification B3: a refusal of the store says whether the outcome is known."""
    for _ in range(3):
        resting()
    answer = confirm(root, choose(root, "redrive"))
    lost = StoreUnavailable(OSError("x"), outcome_unknown=True)
    with mock.patch("durable.activities.redrive_many", side_effect=lambda places, **_: [lost] * len(places)):
        drain(until=timedelta(hours=1))
    text = words(root.get(answer.wsgi_request.path))
    assert "3 Outcome unknown" in text
    assert "nothing was changed" not in text


@pytest.mark.usefixtures("few_at_once")
def test_work_that_was_ended_before_it_began_says_that_nothing_was_changed(root: Client) -> None:
    for _ in range(3):
        resting()
    answer = confirm(root, choose(root, "redrive"))
    terminate(Workflow.objects.get(type=change_dead_letters.name).pk, reason="a mistake")
    text = words(root.get(answer.wsgi_request.path))
    assert "Nothing was changed." in text
    assert "Nothing matches any longer." not in text


@pytest.mark.usefixtures("few_at_once")
def test_work_that_was_ended_over_a_piece_counts_what_that_piece_has_done(root: Client) -> None:
    for _ in range(5):
        resting()
    answer = confirm(root, choose(root, "redrive"))
    work = Workflow.objects.get(type=change_dead_letters.name)

    def stopped(places: Any, *, mode: Any, actor: Any, reason: str, request: Any) -> list[Any]:
        if not places:
            return []
        for place in places:
            redrive(place.workflow_id, place.ordinal, mode=mode, actor=actor, reason=reason, request=None)
        StaffAction.objects.update(request=request)
        terminate(work.pk, reason="enough")
        raise ValueError("killed")

    with mock.patch("durable.activities.redrive_many", side_effect=stopped):
        drain(until=timedelta(hours=1))
    text = words(root.get(answer.wsgi_request.path))
    assert "It ended before it was finished." in text
    assert "2 Queued for retry" in text


@pytest.mark.usefixtures("few_at_once")
def test_work_whose_result_can_not_be_read_does_not_say_that_nothing_matched(root: Client) -> None:
    """Faults A14."""
    work = factories.WorkflowFactory(type=change_dead_letters.name, status="completed", input="{}", last_seq=2)
    factories.EventFactory(workflow=work, seq=2, type="activity_completed", data={"result": "{not json"})
    text = words(root.get(reverse("admin:durable_deadletter_bulk", args=[work.pk])))
    assert "The result cannot be read here" in text
    assert "Nothing matches" not in text


def test_a_ceiling_in_the_future_lets_in_nothing_that_fails_later(root: Client) -> None:
    """A form edited by hand, or a host whose clock is ahead of the database's."""
    row = letter()
    page = choose(root, "redrive", failed_before="2999-01-01T00:00:00+00:00")
    late = letter(dead_lettered_at=factories.now() + timedelta(minutes=5))
    (told,) = said(confirm(root, page, failed_before="2999-01-01T00:00:00+00:00"))
    assert told.startswith("1 dead letter was queued for retry")
    assert (status(row), status(late)) == ("pending", "dead")


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("whole", [False, True], ids=["ticked", "all"])
def test_trouble_with_the_database_is_not_told_as_a_change_of_the_rows(
    root: Client, whole: bool, unknown: bool
) -> None:
    row = letter()
    page = choose(root, "redrive", *([] if whole else [row]))
    gone = StoreUnavailable(OSError("x"), outcome_unknown=unknown)
    with mock.patch("durable.admin.dead_letters.carrying_out.redrive_many", return_value=[gone]):
        told = said(confirm(root, page))
    assert len(told) == 1


def test_a_filter_that_the_list_does_not_have_does_not_mean_all(root: Client) -> None:
    row = letter()
    answer = root.post(list_url("?activty=shop.charge"), {"action": "redrive", "select_across": "1", "confirmed": "y"})
    assert answer.status_code == 400
    assert status(row) == "dead"
