"""Two people at once, a database that does not answer, and a host that wraps its views in transactions."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client
from django.urls import resolve, reverse

from durable.admin.dead_letters import previews
from durable.admin.dead_letters.actions import ACTIONS
from durable.admin.workflows.verbs import VERBS
from durable.errors import StoreUnavailable
from durable.flow.operator import redrive as redriving
from durable.models import OutboxRow, StaffAction, Workflow
from durable.workflows import change_dead_letters
from tests import factories
from tests.admin.conftest import page_of
from tests.admin.dead_letters import choose, confirm, form_of, letter, list_url, one_url, said, status
from tests.waiting import PATIENCE


def enter() -> Client:
    """Another browser of the same superuser."""
    client = Client()
    client.force_login(User.objects.get_or_create(username="root", is_superuser=True, is_staff=True)[0])
    return client


def together(second_connection: Any, barrier: Any, count: int, page: Any, where: str) -> list[list[str]]:
    """Send one form so many times at the same moment; what each sender is told."""
    meeting = barrier(count)
    browsers = [enter() for _ in range(count)]
    form = form_of(page)

    def send(client: Client) -> list[str]:
        meeting.wait()
        return said(client.post(where, form, follow=True))

    futures = [second_connection(send, client) for client in browsers]
    return [future.result(timeout=PATIENCE) for future in futures]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", ["one", "ticked", "all"])
def test_one_form_sent_twice_at_the_same_moment_is_one_redrive_and_one_already_done(
    second_connection: Any, barrier: Any, way: str
) -> None:
    """Faults A12."""
    row = letter()
    client = enter()
    if way == "one":
        page, where = client.get(one_url(row, "redrive")), one_url(row, "redrive")
    else:
        page, where = choose(client, "redrive", *([row] if way == "ticked" else [])), list_url()
    told = together(second_connection, barrier, 2, page, where)
    done = [said for answers in told for said in answers if "was queued for retry" in said]
    already = [said for answers in told for said in answers if said.startswith("1 was already done.")]
    assert (len(done), len(already)) == (1, 1)
    assert StaffAction.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_one_form_for_many_sent_at_the_same_moment_begins_one_work(
    second_connection: Any, barrier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("durable.admin.dead_letters.carrying_out.AT_MOST_HERE", 1)
    for _ in range(2):
        letter()
    told = together(second_connection, barrier, 3, choose(enter(), "redrive"), list_url())
    assert sum("The job has been queued for the workers." in answers[0] for answers in told) == 1
    assert sum(answers[0].startswith("Already done") for answers in told) == 2
    assert Workflow.objects.filter(type=change_dead_letters.name).count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_forms_of_two_people_move_each_row_once(second_connection: Any, barrier: Any) -> None:
    """Specification B9.10."""
    rows = [letter() for _ in range(5)]
    pages = [choose(enter(), "redrive", *rows) for _ in range(2)]
    meeting = barrier(2)

    def send(page: Any) -> list[str]:
        client = enter()
        meeting.wait()
        return said(client.post(list_url(), form_of(page), follow=True))

    enter()
    for future in [second_connection(send, page) for page in pages]:
        assert future.result(timeout=PATIENCE)
    assert {OutboxRow.objects.get(pk=row.pk).redrive_count for row in rows} == {1}
    assert StaffAction.objects.count() == 5


@pytest.mark.django_db
@pytest.mark.parametrize("error", [OperationalError("too slow"), StoreUnavailable(OSError("x"), outcome_unknown=False)])
def test_a_preview_that_fails_blocks_nothing(root: Client, error: Exception) -> None:
    """Faults A16."""
    row = letter()
    with mock.patch.object(previews, "preview_redrive", side_effect=error):
        page = choose(root, "redrive")
    assert "could not be counted" in page.text
    (told,) = said(confirm(root, page))
    assert told.startswith("1 dead letter was queued for retry")
    assert status(row) == "pending"


@pytest.mark.django_db
def test_the_page_of_a_dead_letter_opens_though_the_gates_can_not_be_asked(root: Client) -> None:
    row = letter()
    with mock.patch.object(redriving, "verdicts", side_effect=OperationalError("gone")):
        assert one_url(row, "redrive") in root.get(page_of(row)).text


@pytest.mark.django_db
def test_rows_that_can_not_be_read_are_told_and_the_form_stays(root: Client) -> None:
    row = letter()
    page = choose(root, "redrive")
    gone = StoreUnavailable(OSError("x"), outcome_unknown=False)
    with mock.patch("durable.admin.dead_letters.carrying_out.look.dead_letters_matching", side_effect=gone):
        again = confirm(root, page, reason="the bank is back")
    assert "nothing was changed" in again.text
    assert "the bank is back" in again.text
    assert form_of(again)["request_id"] == form_of(page)["request_id"]
    assert status(row) == "dead"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("unknown", "text"), [(False, "nothing was changed"), (True, "the change may or may not have been made")]
)
def test_a_row_that_the_database_did_not_carry_out_is_told_with_what_is_known(
    root: Client, unknown: bool, text: str
) -> None:
    """Faults A17."""
    row, page = letter(), None
    page = choose(root, "redrive", row)
    gone = StoreUnavailable(OSError("x"), outcome_unknown=unknown)
    with mock.patch("durable.admin.dead_letters.carrying_out.redrive_many", return_value=[gone]):
        told = said(confirm(root, page))
    assert text in told[0]
    assert status(row) == "dead"


@pytest.mark.django_db
def test_no_view_that_changes_something_is_wrapped_in_a_transaction_of_the_hosts() -> None:
    """Under ATOMIC_REQUESTS the engine's own transactions could not begin."""
    row = letter()
    urls = [list_url(), page_of(row)] + [one_url(row, action) for action in ACTIONS]
    urls += [reverse(f"admin:durable_workflow_{verb}", args=[row.workflow_id]) for verb in VERBS]
    for url in urls:
        assert "default" in resolve(url).func._non_atomic_requests  # type: ignore[attr-defined]


@pytest.mark.django_db(transaction=True)
def test_the_admin_works_under_atomic_requests() -> None:
    row = letter()
    other = factories.WorkflowFactory()
    client = enter()
    with mock.patch.dict(connection.settings_dict, {"ATOMIC_REQUESTS": True}):
        (told,) = said(confirm(client, choose(client, "redrive", row)))
        assert told.startswith("1 dead letter was queued for retry")
        client.post(reverse("admin:durable_workflow_terminate", args=[other.pk]), {"reason": "stuck"})
    other.refresh_from_db()
    assert (status(row), other.status) == ("pending", "cancelled")


@pytest.mark.django_db
def test_a_log_that_can_not_be_written_hides_no_outcome(root: Client) -> None:
    row = letter()
    page = choose(root, "redrive", row)
    with mock.patch("django.contrib.admin.models.LogEntryManager.log_actions", side_effect=OperationalError("full")):
        (told,) = said(confirm(root, page))
    assert told.startswith("1 dead letter was queued for retry")
    assert StaffAction.objects.count() == 1


NONSENSE: list[dict[str, Any]] = [
    {"request_id": "x"}, {"failed_before": "yesterday"}, {"failed_before": "0001-01-01T00:00:00+14:00"},
    {"could_go": "a,b,,9" * 5}, {"previewed": "-1"}, {"previewed": "9" * 40}, {"reason": ["a", "b"]},
]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("fields", NONSENSE, ids=str)
@pytest.mark.parametrize("way", ["ticked", "all"])
def test_nonsense_in_a_form_is_no_server_error(root: Client, fields: dict[str, Any], way: str) -> None:
    row = letter()
    scope = {"_selected_action": [row.pk, "x", "9" * 40]} if way == "ticked" else {"select_across": "1"}
    data = {"action": "redrive", "confirmed": "yes", **scope, **fields}
    assert root.post(list_url(), data, follow=True).status_code == 200


@pytest.mark.django_db
def test_more_keys_than_a_page_has_are_refused(root: Client, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = None
    keys = list(range(1, 1_100))
    assert root.post(list_url(), {"action": "redrive", "_selected_action": keys}).status_code == 400
