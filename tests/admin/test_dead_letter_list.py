"""The list of dead letters: what it shows, what it can be narrowed by, in which order, and at what cost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.options import IncorrectLookupParameters
from django.test import Client

from durable.admin.dead_letters.filters import filter_of
from durable.flow.looks import look
from durable.models import OutboxRow, Workflow
from durable.scope import Scope
from tests import factories
from tests.admin.conftest import engine_statements, list_of, page_of, statements
from tests.admin.dead_letters import choose, letter, list_url, one_url

pytestmark = pytest.mark.django_db


def shown(client: Client, query: str = "") -> list[int]:
    response = client.get(list_url(query))
    assert response.status_code == 200, response
    return [row.pk for row in response.context["cl"].result_list]


def test_only_dead_letters_are_shown_the_latest_first(root: Client) -> None:
    ages = [3, 1, 2]
    rows = [letter(dead_lettered_at=factories.now() - timedelta(hours=hours)) for hours in ages]
    factories.OutboxRowFactory(status="pending")
    assert shown(root) == [rows[1].pk, rows[2].pk, rows[0].pk]


def test_pages_follow_one_another_though_many_died_at_one_moment(root: Client) -> None:
    moment = factories.now()
    rows = [letter(dead_lettered_at=moment) for _ in range(230)]
    seen: list[int] = []
    url: str | None = list_url("?cause=worker_died")
    backward = None
    while url is not None:
        response = root.get(url)
        changes = response.context["cl"]
        seen += [row.pk for row in changes.result_list]
        url = None if changes.forward_url is None else list_url(changes.forward_url)
        backward = changes.backward_url
    assert seen == [row.pk for row in reversed(rows)]
    assert shown(root, str(backward)) == seen[100:200]


def test_what_it_says_of_a_dead_letter(root: Client) -> None:
    row = letter(cause="ack_abandoned", attempts=2, redrive_count=3, workflow__key="order-42", queue="payments")
    factories.FailedAttemptFactory(outbox_row=row, number=1, ended_at=factories.now() - timedelta(days=2))
    text = root.get(list_url()).text
    for part in ("The result could not be stored", "2 of 5", "8 deliveries", "redriven 3×", "order-42", "payments",
                 "Waiting", "first "):  # fmt: skip
        assert part in text


def hours_ago(hours: float) -> Any:
    return factories.now() - timedelta(hours=hours)


FILTERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("cause=lease_lost", {"cause": "lease_lost"}, {}),
    ("judged=judged", {"failure_delivered": True}, {}),
    ("judged=held", {}, {"failure_delivered": True}),
    ("activity=shop.ship", {"activity": "shop.ship"}, {}),
    ("type=shop.refund", {"workflow__type": "shop.refund"}, {}),
    ("error_group=0123456789abcdef", {"error_group": "0123456789abcdef"}, {"error_group": "0123456789abcde0"}),
    ("queue=payments", {"queue": "payments"}, {}),
    ("failed=hour", {}, {"dead_lettered_at": 2}),
    ("failed=older", {"dead_lettered_at": 200}, {}),
    ("attempts=none", {}, {"attempts": 1}),
    ("attempts=few", {"attempts": 5}, {"attempts": 1}),
    ("attempts=many", {"attempts": 6}, {"attempts": 5}),
    ("deliveries=one", {"deliveries": 1}, {"deliveries": 2}),
    ("deliveries=few", {"deliveries": 8}, {"deliveries": 9}),
    ("deliveries=many", {"deliveries": 9}, {"deliveries": 8}),
    ("redriven=never", {}, {"redrive_count": 1}),
    ("redriven=again", {"redrive_count": 2}, {}),
]


@pytest.mark.parametrize(("query", "wanted", "other"), FILTERS)
def test_filters(root: Client, query: str, wanted: dict[str, Any], other: dict[str, Any]) -> None:
    for columns in (wanted, other):
        if "dead_lettered_at" in columns:
            columns = columns | {"dead_lettered_at": hours_ago(columns["dead_lettered_at"])}
        letter(**columns)
    first, _second = OutboxRow.objects.order_by("pk")
    assert shown(root, f"?{query}") == [first.pk]
    assert [row.pk for row in look.dead_letters_matching(_asked(query), limit=9)] == [first.pk]


def _asked(query: str) -> Any:
    name, value = query.split("=")
    return filter_of({name: value}, at=factories.now() + timedelta(seconds=1), scope=Scope(None))


def test_filter_by_the_first_failure(root: Client) -> None:
    early, late = letter(), letter()
    factories.FailedAttemptFactory(outbox_row=early, number=1, ended_at=hours_ago(30))
    factories.FailedAttemptFactory(outbox_row=early, number=2)
    factories.FailedAttemptFactory(outbox_row=late, number=1)
    assert shown(root, "?first=day") == [late.pk]
    assert shown(root, "?first=week") == [late.pk, early.pk]
    assert shown(root, "?first=older") == []


def test_filters_combine_and_a_search_finds_a_workflow_by_id_key_or_dispatch_key(root: Client) -> None:
    row = letter(activity="shop.ship", workflow__key="order-42")
    other = letter(workflow=row.workflow, ordinal=2, activity="shop.charge")
    letter(activity="shop.ship")
    assert shown(root, f"?activity=shop.ship&workflow={row.workflow_id}") == [row.pk]
    for term in (str(row.workflow_id), "order-42", row.dispatch_key):
        assert sorted(shown(root, f"?q={term}")) == sorted([row.pk, other.pk])
        assert shown(root, f"?q={term}&activity=shop.ship") == [row.pk]
    assert shown(root, "?q=nothing+of+this+name") == []


def test_the_search_is_part_of_all_that_match(root: Client) -> None:
    letter(workflow__key="order-42")
    letter(workflow__key="order-43")
    assert "<strong>1 dead letter</strong>" in choose(root, "redrive", query="?q=order-42").text
    assert "<strong>0 dead letters</strong>" in choose(root, "redrive", query="?q=order-44").text


def test_a_search_within_one_workflow_stays_within_it(root: Client) -> None:
    row, other = letter(), letter()
    found = filter_of(
        {"workflow": str(row.workflow_id), "q": str(other.workflow_id)}, at=factories.now(), scope=Scope(None)
    )
    assert look.dead_letters_matching(found, limit=9) == []


@pytest.mark.parametrize("action", ["redrive", "force_redrive", "discard"])
@pytest.mark.parametrize(
    "query", ["?cause=nonsense", "?workflow=x", "?judged=x", "?failed=x", "?q=%00", "?queue=%00", "?error_group=x"]
)
def test_a_filter_that_says_nothing_is_refused_and_means_not_everything(root: Client, query: str, action: str) -> None:
    row = letter()
    response = root.post(list_url(query), {"action": action, "select_across": "1", "confirmed": "yes", "reason": "x"})
    assert response.status_code == 400
    assert OutboxRow.objects.get(pk=row.pk).status == "dead"
    with pytest.raises(IncorrectLookupParameters):
        filter_of({"cause": "nonsense"}, at=factories.now(), scope=Scope(None))


def test_dead_letters_of_ticked_workflows_are_listed(root: Client) -> None:
    rows = [letter() for _ in range(3)]
    wanted = rows[:2]
    data = {"action": "list_dead_letters", "_selected_action": [row.workflow_id for row in wanted], "index": "0"}
    response = root.post(list_of(Workflow), data)
    assert response.status_code == 302
    assert sorted(shown(root, "?" + response["Location"].partition("?")[2])) == [row.pk for row in wanted]


def test_ticking_nothing_or_choosing_nothing_changes_nothing_and_says_so(root: Client) -> None:
    row = letter()
    for data in ({"action": "redrive", "index": "0"}, {"action": "", "_selected_action": row.pk}):
        response = root.post(list_url("?cause=worker_died"), data, follow=True)
        assert "Nothing was changed." in response.text
        assert response.wsgi_request.get_full_path() == list_url("?cause=worker_died")
    response = root.post(list_of(Workflow), {"action": "", "_selected_action": row.workflow_id}, follow=True)
    assert "Choose an action" in response.text


PAGES = ["list", "detail", "one", "some", "all", "force", "discard"]


@pytest.mark.parametrize("page", PAGES)
def test_pages_need_a_fixed_number_of_statements_none_of_them_a_count(root: Client, page: str) -> None:
    """Faults A2, A3."""

    def asked(rows: list[Any]) -> list[str]:
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        match page:
            case "list":
                return statements(root, list_url())
            case "detail":
                return statements(root, page_of(rows[0]))
            case "one":
                return statements(root, one_url(rows[0], "redrive"))
            case _:
                pass
        action = {"force": "force_redrive", "discard": "discard"}.get(page, "redrive")
        with CaptureQueriesContext(connection) as queries:
            assert choose(root, action, *(rows if page == "some" else [])).status_code == 200
        return [query["sql"] for query in queries]

    def with_an_attempt(rows: list[Any]) -> list[Any]:
        for row in rows:
            factories.FailedAttemptFactory(outbox_row=row)
        return rows

    rows = with_an_attempt([letter(), letter(failure_delivered=True)])
    few = asked(rows)
    rows += with_an_attempt([letter() for _ in range(30)] + [letter(failure_delivered=True) for _ in range(9)])
    many = asked(rows)
    assert len(many) <= len(few) <= 12
    # Where many are ticked, the question does without the names and errors of those that it does not list.
    assert len(many) == len(few) or page == "some"
    assert not [sql for sql in many if '"durable_' in sql and "COUNT(" in sql.upper()]


def test_the_confirmation_looks_at_no_more_than_ten_thousand(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults A16."""
    monkeypatch.setattr("durable.flow.operator.redrive.PREVIEW_LIMIT", 3)
    for _ in range(5):
        letter()
    text = choose(root, "redrive").text
    assert "<strong>3+ dead letters</strong>" in text
    assert "There are more" in text


def test_every_statement_of_the_list_is_bounded(root: Client) -> None:
    letter()
    for sql in engine_statements(root, list_url("?cause=worker_died&judged=held")):
        assert " LIMIT " in sql
