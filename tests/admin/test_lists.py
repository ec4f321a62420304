"""Lists open at once, however many rows there are, and find what staff look for."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from durable.models import DeadLetter, Message, OutboxRow, StaffAction, Worker, Workflow, WorkItem
from durable.outcomes import OutboxStatus, WorkflowStatus
from tests import factories
from tests.admin.conftest import ROOMS, Scene, engine_statements, list_of, page_of, statements

pytestmark = pytest.mark.django_db

MAKERS: dict[Any, Callable[[], Any]] = {
    Workflow: factories.WorkflowFactory,
    OutboxRow: factories.OutboxRowFactory,
    WorkItem: factories.WorkItemFactory,
    Message: factories.MessageFactory,
    Worker: factories.WorkerFactory,
    DeadLetter: factories.DeadLetterFactory,
    StaffAction: factories.StaffActionFactory,
}
HEAVY = ("input", "result", "failure", "timers", "options", "last_heartbeat", "heartbeat", "payload", "error")


def shown(client: Client, url: str) -> list[str]:
    """The keys of the rows on a page of a list, in order."""
    response = client.get(url)
    assert response.status_code == 200
    return [str(row.pk) for row in response.context["cl"].result_list]


@pytest.mark.parametrize("model", ROOMS)
def test_a_list_needs_the_same_statements_for_one_row_as_for_many(root: Client, model: Any) -> None:
    """Faults A3."""
    MAKERS[model]()
    few = len(statements(root, list_of(model)))
    for _ in range(30):
        MAKERS[model]()
    assert len(statements(root, list_of(model))) == few
    assert few <= 6


@pytest.mark.parametrize("model", ROOMS)
@pytest.mark.parametrize("query", ["", "?all=1", "?p=3", "?_facets=1", "?o=1.-2", "?q=17"])
def test_no_list_counts_its_table(root: Client, scene: Scene, model: Any, query: str) -> None:
    """Faults A1, A2."""
    made = engine_statements(root, list_of(model) + query)
    assert made
    for sql in made:
        assert "COUNT(" not in sql.upper()
        assert " LIMIT " in sql
        assert " OFFSET " not in sql


@pytest.mark.parametrize("model", ROOMS)
def test_a_list_never_selects_payloads_results_and_tracebacks(root: Client, scene: Scene, model: Any) -> None:
    """Faults P8. A worker's list of queues is no payload."""
    for sql in engine_statements(root, list_of(model)):
        for column in HEAVY:
            assert f'"{column}"' not in sql


def test_pages_follow_one_another_without_gap_or_overlap_in_both_directions(root: Client) -> None:
    keys = [str(factories.WorkflowFactory().pk) for _ in range(250)][::-1]
    pages, url = [], "?"
    while url is not None:
        response = root.get(list_of(Workflow) + url)
        pages.append([str(row.pk) for row in response.context["cl"].result_list])
        url = response.context["cl"].forward_url
    assert [len(page) for page in pages] == [100, 100, 50]
    assert [key for page in pages for key in page] == keys
    back = response.context["cl"].backward_url
    assert shown(root, list_of(Workflow) + back) == pages[1]
    first = root.get(list_of(Workflow) + root.get(list_of(Workflow) + back).context["cl"].backward_url)
    assert [str(row.pk) for row in first.context["cl"].result_list] == pages[0]
    assert first.context["cl"].backward_url is None


def test_a_page_stays_where_it_is_while_new_workflows_arrive(root: Client) -> None:
    for _ in range(150):
        factories.WorkflowFactory()
    onward = root.get(list_of(Workflow)).context["cl"].forward_url
    before = shown(root, list_of(Workflow) + onward)
    for _ in range(20):
        factories.WorkflowFactory()
    assert shown(root, list_of(Workflow) + onward) == before


def test_filters_keep_through_pages_and_begin_at_the_first_one(root: Client) -> None:
    for _ in range(120):
        factories.WorkflowFactory(status="completed")
        factories.WorkflowFactory()
    first = root.get(list_of(Workflow) + "?status=completed")
    second = root.get(list_of(Workflow) + first.context["cl"].forward_url)
    assert {row.status for row in second.context["cl"].result_list} == {"completed"}
    assert len(second.context["cl"].result_list) == 20
    filters = [link for link in re.findall(r'href="(\?[^"]*)"', second.text) if "status=running" in link]
    assert filters
    assert all("before" not in link for link in filters)


def test_workers_are_listed_by_name(root: Client) -> None:
    for name in ("b", "c", "a"):
        factories.WorkerFactory(name=name)
    assert shown(root, list_of(Worker)) == ["a", "b", "c"]
    assert shown(root, list_of(Worker) + "?before=a") == ["b", "c"]
    assert shown(root, list_of(Worker) + "?after=c") == ["a", "b"]


@pytest.mark.parametrize("status", list(WorkflowStatus))
def test_workflows_are_filtered_by_status(root: Client, status: WorkflowStatus) -> None:
    rows = {each: factories.WorkflowFactory(status=each.value) for each in WorkflowStatus}
    assert shown(root, f"{list_of(Workflow)}?status={status}") == [str(rows[status].pk)]


def test_workflows_are_filtered_by_the_blocked_mark_which_the_list_shows(root: Client) -> None:
    blocked = factories.WorkflowFactory(blocked_reason="the code has changed")
    factories.WorkflowFactory()
    response = root.get(list_of(Workflow) + "?blocked=yes")
    assert [row.pk for row in response.context["cl"].result_list] == [blocked.pk]
    assert "Blocked</span>" in response.text


def test_from_the_page_of_one_a_link_leads_to_all_that_failed_by_the_same_kind_of_error(
    staff: Callable[..., Client],
) -> None:
    """By class and group, which are for everybody who sees the row; what the errors said is not shown for it."""
    group, text = "0123456789abcdef", "canary-4711"
    kind = {"error_class": "shop.CardDeclined", "error_group": group}
    failure = {"type": "shop.CardDeclined", "message": text, "traceback": ""}
    now = factories.now()
    failed = factories.WorkflowFactory(status="failed", closed_at=now, failure=failure, **kind)
    blocked = factories.WorkflowFactory(blocked_reason=text, **kind)
    factories.WorkflowFactory(status="failed", closed_at=now, failure=failure, error_group="0123456789abcde0")
    letters = [
        factories.DeadLetterFactory(workflow=blocked, ordinal=9 + n, status="dead", dead_lettered_at=now, **kind)
        for n in range(2)
    ]
    factories.OutboxRowFactory(workflow=blocked, ordinal=20, status="dead", dead_lettered_at=now)
    client = staff("view_workflow", "view_deadletter")
    for model, row, wanted in (
        (Workflow, failed, {str(failed.pk), str(blocked.pk)}),
        (Workflow, blocked, {str(failed.pk), str(blocked.pk)}),
        (DeadLetter, letters[0], {str(letter.pk) for letter in letters}),
    ):
        address = f"{list_of(model)}?error_group={group}"
        page = client.get(page_of(row)).text
        assert f'href="{address}"' in page
        assert "shop.CardDeclined" in page
        assert set(shown(client, address)) == wanted
        assert text not in page + client.get(address).text


def test_workflows_are_filtered_by_type_also_by_one_that_is_not_among_the_choices(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("durable.admin.workflows.room._TYPES_OFFERED", 1_000)  # this suite's own types are many
    one = factories.WorkflowFactory(type="shop.refund")
    factories.WorkflowFactory(type="shop.checkout")
    assert "?type=shop.refund" in root.get(list_of(Workflow)).text
    assert shown(root, list_of(Workflow) + "?type=shop.refund") == [str(one.pk)]
    assert shown(root, list_of(Workflow) + "?type=shop.unheard_of") == []


def test_search_finds_a_workflow_by_its_whole_id_or_key(root: Client) -> None:
    one = factories.WorkflowFactory(key="order 42")
    other = factories.WorkflowFactory(key=str(one.pk))
    factories.WorkflowFactory(key="order 421")
    assert shown(root, list_of(Workflow) + "?q=order+42") == [str(one.pk)]
    assert shown(root, f"{list_of(Workflow)}?q={one.pk}") == [str(other.pk), str(one.pk)]


def test_search_finds_workflows_by_the_beginning_of_their_type(root: Client) -> None:
    one = factories.WorkflowFactory(type="shop.checkout")
    factories.WorkflowFactory(type="workshop.checkout")
    assert shown(root, list_of(Workflow) + "?q=shop.") == [str(one.pk)]
    assert shown(root, list_of(Workflow) + "?q=checkout") == []


STATES = {
    "waiting": {OutboxStatus.PENDING},
    "working": {OutboxStatus.CLAIMED},
    "dead": {OutboxStatus.DEAD},
    "finished": {OutboxStatus.DONE, OutboxStatus.CANCELLED},
}


@pytest.mark.parametrize("state", list(STATES))
def test_outbox_rows_are_filtered_by_state(root: Client, state: str) -> None:
    rows = [factories.OutboxRowFactory(status=status.value) for status in OutboxStatus]
    expected = [str(row.pk) for row in reversed(rows) if row.status in STATES[state]]
    assert shown(root, f"{list_of(OutboxRow)}?state={state}") == expected


def test_search_finds_outbox_rows_by_workflow_by_id_and_by_dispatch_key(root: Client) -> None:
    workflow = factories.WorkflowFactory()
    first, second = (factories.OutboxRowFactory(workflow=workflow) for _ in range(2))
    factories.OutboxRowFactory()
    assert shown(root, f"{list_of(OutboxRow)}?q={workflow.pk}") == [str(second.pk), str(first.pk)]
    assert shown(root, f"{list_of(OutboxRow)}?workflow={workflow.pk}") == [str(second.pk), str(first.pk)]
    assert shown(root, f"{list_of(OutboxRow)}?q={first.pk}") == [str(first.pk)]
    assert shown(root, f"{list_of(OutboxRow)}?q={second.dispatch_key}") == [str(second.pk)]
    for nonsense in ("charge", "9" * 30, f"{uuid.uuid4()}:1:1", "x:1:1", "²"):
        assert shown(root, f"{list_of(OutboxRow)}?q={nonsense}") == []


@pytest.mark.parametrize("model", ROOMS)
def test_an_empty_list_says_so_in_words(root: Client, model: Any) -> None:
    response = root.get(list_of(model))
    assert "durable-empty" in response.text
    assert str(response.context["empty_text"]).split(".")[0].split("“")[0] in response.text


def test_a_search_without_a_find_offers_the_whole_list(root: Client, scene: Scene) -> None:
    response = root.get(list_of(Workflow) + "?q=nothing+of+this+name")
    assert "Nothing matches." in response.text
    assert 'href="?"' in response.text


@pytest.mark.parametrize(
    "query",
    [
        "before=x",
        "after=%00",
        "before=",
        "status=nonsense",
        "status=%00",
        "type=%00",
        "q=%00",
        "blocked=1",
        "error_group=%00",
    ],
)
@pytest.mark.parametrize("model", ROOMS)
def test_nonsense_in_a_lists_address_is_no_server_error(root: Client, scene: Scene, model: Any, query: str) -> None:
    response = root.get(f"{list_of(model)}?{query}", follow=True)
    assert response.status_code in (200, 400)


@pytest.mark.parametrize("cursor", ["before", "after"])
def test_a_cursor_that_no_key_can_be_leads_back_to_the_first_page(root: Client, scene: Scene, cursor: str) -> None:
    response = root.get(f"{list_of(OutboxRow)}?{cursor}={'9' * 40}")
    assert (response.status_code, response["Location"]) == (302, f"{list_of(OutboxRow)}?e=1")


@pytest.mark.parametrize("lookup", ["result__contains=a", "input__startswith=a", "type__contains=a", "workflow__key=a"])
def test_lookups_that_the_list_does_not_offer_are_refused(root: Client, scene: Scene, lookup: str) -> None:
    """They would read hidden payloads letter by letter, and scan the table doing so."""
    for model in (Workflow, OutboxRow):
        assert root.get(f"{list_of(model)}?{lookup}").status_code == 400
