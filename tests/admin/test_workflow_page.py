"""The page of a workflow says what it is, why it stands where it stands, and what it waits for."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils.html import strip_tags

from durable.kernel.history.events import EventType
from durable.models import Event, Message, OutboxRow, Workflow, WorkItem
from tests import factories
from tests.admin.conftest import Scene, engine_statements, event_of, list_of, page_of, statements
from tests.admin.reading import words

pytestmark = pytest.mark.django_db


def seqs(client: Client, url: str) -> list[int]:
    """The events on a page of the history, in their order."""
    return [entry.seq for entry in client.get(url).context["history"].entries]


def test_the_page_needs_the_same_statements_however_much_there_is(root: Client, scene: Scene) -> None:
    """Faults A3."""
    few = len(statements(root, page_of(scene.workflow)))
    Event.objects.filter(workflow=scene.workflow).delete()
    factories.history_of(scene.workflow, length=150)
    for _ in range(70):
        row = factories.OutboxRowFactory(workflow=scene.workflow)
        factories.FailedAttemptFactory.create_batch(2, outbox_row=row)
        factories.MessageFactory(workflow=scene.workflow)
    for _ in range(20):
        factories.WorkItemFactory(outbox_row__workflow=scene.workflow)
    assert len(statements(root, page_of(scene.workflow))) == few
    assert few <= 12


def test_every_other_page_needs_a_fixed_number_of_statements(root: Client, scene: Scene) -> None:
    """Faults A3."""
    pages = [page_of(row) for row in (scene.row, scene.item, scene.message, scene.worker)]
    before = [len(statements(root, url)) for url in pages]
    for _ in range(60):
        factories.FailedAttemptFactory(outbox_row=scene.row)
        factories.WorkItemFactory(worker=scene.worker.name)
    assert [len(statements(root, url)) for url in pages] == before
    assert max(before) <= 8


def test_a_history_of_10_000_events_opens_with_one_page_of_them(root: Client) -> None:
    """Faults G7."""
    workflow = factories.WorkflowFactory()
    factories.history_of(workflow, length=10_000)
    made = engine_statements(root, page_of(workflow))
    assert len(made) <= 20
    assert not [sql for sql in made if "COUNT(" in sql.upper() or " OFFSET " in sql]
    assert seqs(root, page_of(workflow)) == list(range(10_000, 9_900, -1))
    assert "Events 9,901 to 10,000 of 10,000" in words(root, page_of(workflow))


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("length", [1, 99, 100, 101, 250, 300])
def test_the_pager_leads_through_the_whole_history_and_back(root: Client, order: str, length: int) -> None:
    workflow = factories.WorkflowFactory()
    factories.history_of(workflow, length=length)
    onward, back = ("Older", "Newer") if order == "newest" else ("Newer", "Older")
    url = f"{page_of(workflow)}?order={order}"
    pages = []
    while True:
        history = root.get(url).context["history"]
        pages.append([entry.seq for entry in history.entries])
        links = {link.label: link.address for link in history.links}
        if not links[onward]:
            break
        url = page_of(workflow) + links[onward]
    expected = list(range(1, length + 1))
    assert [seq for page in pages for seq in page] == (expected[::-1] if order == "newest" else expected)
    assert bool(links[back]) == (len(pages) > 1)
    if len(pages) > 1:
        assert seqs(root, page_of(workflow) + links[back]) == pages[-2]


def test_the_order_of_the_history_can_be_turned_around(root: Client, scene: Scene) -> None:
    history = root.get(page_of(scene.workflow)).context["history"]
    assert [entry.seq for entry in history.entries] == [2, 1]
    assert seqs(root, page_of(scene.workflow) + history.turn_around.address) == [1, 2]


EVENTS = [
    ("workflow_started", None, {"type": "shop.checkout"}, "Started as shop.checkout"),
    ("workflow_begun", None, {}, "Its code started running"),
    ("activity_scheduled", 1, {"activity": "shop.charge"}, "Activity 1 (shop.charge) was scheduled"),
    ("activity_completed", 1, {"result": "1"}, "Activity 1 (shop.charge) completed"),
    ("activity_failed", 2, {"failure": {"type": "OSError", "message": "closed"}, "attempts": 3},
     "Activity 2 (shop.ship) failed with OSError: closed (after 3 attempts)"),
    ("activity_cancelled", 2, {}, "Activity 2 (shop.ship) was cancelled"),
    ("activity_redriven", 2, {"actor": "anna", "mode": "forced", "reason": "bank is back"},
     "Activity 2 (shop.ship) was redriven by force by anna: bank is back"),
    ("activity_discarded", 2, {"actor": "anna", "reason": "paid by hand"},
     "Activity 2 (shop.ship) was discarded by anna: paid by hand"),
    ("child_started", 3, {"child": "c-1", "type": "shop.parcel"}, "Child shop.parcel started as c-1"),
    ("child_completed", 3, {"child": "c-1", "result": "1"}, "Child c-1 completed"),
    ("child_failed", 3, {"child": "c-1", "status": "timed_out"}, "Child c-1 timed out"),
    ("child_cancelled", 3, {"child": "c-1"}, "Child c-1 is no longer awaited"),
    ("signal_sent", 4, {"to": "w-1", "name": "go"}, "Signal “go” sent to w-1"),
    ("signal_answered", 4, {}, "The other workflow has accepted what was sent"),
    ("timer_fired", None, {"timer": [4, 1]}, "The timer set by event 4 fired"),
    ("signal_received", None, {"name": "approval", "payload": "true"}, "Signal “approval” received"),
    ("cancel_requested", None, {"actor": "anna", "reason": "changed my mind"},
     "Cancellation requested by anna: changed my mind"),
    ("workflow_paused", None, {"actor": "anna"}, "Paused by anna"),
    ("workflow_resumed", None, {}, "Resumed"),
    ("workflow_reopened", None, {"reason": "again"}, "Reopened: again"),
    ("workflow_blocked", None, {"reason": "Event 3: …"}, "Blocked: Event 3: …"),
    ("workflow_unblocked", None, {"actor": "anna", "reason": "deployed"}, "Unblocked by anna: deployed"),
    ("workflow_completed", None, {"result": "1"}, "Completed"),
    ("workflow_failed", None, {"failure": {"type": "ValueError", "message": ""}}, "Failed with ValueError"),
    ("workflow_cancelled", None, {"terminated": True, "actor": "anna", "reason": "stuck"}, "Terminated by anna: stuck"),
    ("workflow_cancelled", None, {"reason": "customer"}, "Cancelled: customer"),
    ("workflow_timed_out", None, {}, "Timed out"),
    ("marker_recorded", None, {}, "Marker recorded"),
    ("marker_recorded", None, {"kind": "unreadable", "seq": 4, "problem": "signal go: the stored str is not text"},
     "The code could not read the signal of event 4: signal go: the stored str is not text"),
    ("kind_of_a_later_release", None, {}, "Kind of a later release"),
]  # fmt: skip


def test_each_event_is_a_sentence(root: Client) -> None:
    workflow = factories.WorkflowFactory()
    factories.OutboxRowFactory(workflow=workflow, ordinal=2, activity="shop.ship")
    for seq, (kind, ordinal, data, _sentence) in enumerate(EVENTS, 1):
        factories.EventFactory(workflow=workflow, seq=seq, type=kind, ordinal=ordinal, data=data)
    Workflow.objects.update(last_seq=len(EVENTS))
    entries = root.get(f"{page_of(workflow)}?order=oldest").context["history"].entries
    assert [strip_tags(entry.sentence) for entry in entries] == [sentence for *_rest, sentence in EVENTS]


def test_an_ordinal_that_is_used_again_in_a_later_run_does_not_name_the_earlier_one(root: Client) -> None:
    workflow = factories.WorkflowFactory(run=2, run_seq=3, last_seq=4)
    factories.OutboxRowFactory(workflow=workflow, run=2, ordinal=1, activity="shop.refund")
    factories.EventFactory(workflow=workflow, seq=2, type="activity_completed", ordinal=1)
    factories.EventFactory(workflow=workflow, seq=3, type="workflow_reopened")
    factories.EventFactory(workflow=workflow, seq=4, type="activity_completed", ordinal=1)
    sentences = [strip_tags(entry.sentence) for entry in root.get(page_of(workflow)).context["history"].entries]
    assert sentences == ["Activity 1 (shop.refund) completed", "Reopened", "Activity 1 completed"]


def test_long_data_of_an_event_is_on_a_page_of_its_own_and_not_loaded_with_the_history(root: Client) -> None:
    workflow = factories.WorkflowFactory()
    factories.EventFactory(workflow=workflow, seq=1, type="activity_completed", data={"result": f'"{"x" * 15_000}"'})
    text = root.get(page_of(workflow)).text
    assert "xxxxx" not in text
    assert event_of(workflow, 1) in text
    assert "x" * 15_000 in root.get(event_of(workflow, 1)).text


def test_data_beyond_what_a_person_reads_is_cut_and_says_so(root: Client) -> None:
    workflow = factories.WorkflowFactory(input=f'"{"x" * 100_000}"')
    text = words(root, page_of(workflow))
    assert "Cut: only the beginning of 100,002 characters is shown." in text
    assert "x" * 20_001 not in text


def test_a_blocked_workflow_shows_what_was_expected_and_what_was_found(root: Client) -> None:
    """Faults R1."""
    workflow = factories.WorkflowFactory(blocked_reason="Event 7: other code", blocked_version="v9", last_seq=8)
    report = {"reason": "Event 7: other code", "position": 7, "recorded": "shop.charge", "asked": "shop.refund"}
    factories.EventFactory(workflow=workflow, seq=8, type="workflow_blocked", data=report)
    text = words(root, page_of(workflow))
    for part in ("Why Event 7: other code", "Expected (in the history) shop.charge",
                 "Found (in the deployed code) shop.refund", "At event 7", "Code version v9"):  # fmt: skip
        assert part in text


def test_a_workflow_with_a_bug_shows_where_it_was_raised_to_those_who_may_see_failures(
    root: Client, staff: Callable[..., Client]
) -> None:
    """The event may be long: it is read all the same."""
    in_two_days = factories.now() + timedelta(days=2)
    workflow = factories.WorkflowFactory(
        blocked_reason="The workflow's code raised KeyError: 'cup'", blocked_version="v9", last_seq=8,
        error_class="KeyError", deadline_at=in_two_days,
    )  # fmt: skip
    trace = "x" * 15_000 + '\n  price = PRICES["cup"]\nKeyError: <cup>'
    report = {"reason": "…", "error_type": "KeyError", "traceback": trace}
    factories.EventFactory(workflow=workflow, seq=8, type="workflow_blocked", data=report)
    text = html.unescape(words(root, page_of(workflow)))
    for part in ("Why The workflow's code raised KeyError: 'cup'", 'price = PRICES["cup"] KeyError: <cup>',
                 "Deploy a repaired version.", "The time for which it is blocked is added"):  # fmt: skip
        assert part in text
    text = words(staff("view_workflow"), page_of(workflow))
    assert "PRICES" not in text
    assert "'cup'" not in text
    assert "KeyError" in text


def test_the_history_shows_the_traceback_of_a_bug_by_itself(root: Client) -> None:
    """Inside JSON its lines could not be read."""
    workflow = factories.WorkflowFactory(last_seq=2)
    report = {"reason": "…", "error_type": "KeyError", "traceback": "line one\nline two"}
    factories.EventFactory(workflow=workflow, seq=2, type="workflow_blocked", data=report)
    text = words(root, page_of(workflow))
    assert "line one line two" in text
    assert r"line one\nline two" not in text


def test_a_blocked_workflow_whose_event_is_gone_still_says_why(root: Client) -> None:
    workflow = factories.WorkflowFactory(blocked_reason="Event 7: other code")
    assert "Why Event 7: other code" in words(root, page_of(workflow))


def test_the_header_tells_key_timers_deadline_and_parent(root: Client) -> None:
    parent = factories.WorkflowFactory(type="shop.campaign")
    in_two_days = factories.now() + timedelta(days=2, minutes=1)
    workflow = factories.WorkflowFactory(
        key="order-42", parent=parent, deadline_at=in_two_days, custom_status="Waiting for the courier",
        timers=[{"id": [1, 1], "due": in_two_days.isoformat()}],
    )  # fmt: skip
    text = words(root, page_of(workflow))
    assert "Key order-42" in text
    assert "Status message Waiting for the courier" in text
    assert text.count("(in 2 days") == 2
    assert page_of(parent) in root.get(page_of(workflow)).text


def test_a_failed_workflow_shows_the_error_and_its_traceback(root: Client) -> None:
    failure = {"type": "shop.CardDeclined", "message": "no funds", "traceback": "line 1\nline 2"}
    workflow = factories.WorkflowFactory(status="failed", failure=failure)
    text = words(root, page_of(workflow))
    assert "shop.CardDeclined: no funds" in text
    assert "line 1 line 2" in text


def test_pending_work_shows_attempt_next_try_worker_cancel_and_last_error(root: Client, scene: Scene) -> None:
    """Faults N4."""
    WorkItem.objects.update(cancel_requested_at=factories.now())
    waiting = factories.OutboxRowFactory(
        workflow=scene.workflow, activity="shop.ship", attempts=1, deliveries=2, delivery_failures=1,
        visible_after=factories.now() + timedelta(minutes=5, seconds=30),
    )  # fmt: skip
    dead = factories.OutboxRowFactory(workflow=scene.workflow, activity="shop.refund", status="dead")
    factories.FailedAttemptFactory(outbox_row=dead, cause="worker_died", error=None)
    text = words(root, page_of(scene.workflow))
    for part in ("3 of 5, running now", "Requested, not yet seen", "worker-1", "builtins.OSError: the bank is closed",
                 "1 of 5 made", "2; 1 of 8 lost", "(in 5 minutes)", "Dead letter", "The worker died"):  # fmt: skip
        assert part in text
    source = root.get(page_of(scene.workflow)).text
    for row in (scene.row, waiting, dead):
        assert page_of(row) in source


def test_pending_work_is_that_of_the_current_run(root: Client, scene: Scene) -> None:
    Workflow.objects.update(run=2)
    assert "No activity is open." in words(root, page_of(scene.workflow))


def test_waiting_messages_are_listed_with_their_state(root: Client, scene: Scene) -> None:
    factories.MessageFactory(workflow=scene.workflow, kind="completed", ordinal=7, parked=True)
    text = words(root, page_of(scene.workflow))
    assert "Signal “approval” Due" in text
    assert "Result of an activity Parked 7" in text


def test_an_ended_workflows_page_shows_by_name_what_it_was_sent_and_has_not_read(root: Client) -> None:
    """Also under a name that reads like markup or JSON; the payload stays out of the list."""
    closed = factories.WorkflowFactory(status="completed", closed_at=factories.now())
    for name in ("news", '<b>"x"</b>', "ä" * 200):
        told = json.dumps({"name": name, "payload": '"secret-17"'}, ensure_ascii=False, separators=(",", ":"))
        factories.MessageFactory(workflow=closed, payload=told, parked=True)
    factories.MessageFactory(workflow=closed, kind="cancel", payload="{broken", parked=True)
    text = words(root, page_of(closed))
    assert "Unread messages" in text
    assert "The workflow ended before it read these. They are kept with it." in text
    for kind in ("Signal “news”", "Signal “&lt;b&gt;&quot;x&quot;&lt;/b&gt;”", "Cancel request"):
        assert f"{kind} Never read" in text
    assert "secret-17" not in root.get(page_of(closed)).text
    assert words(root, list_of(Message)).count("Never read") == 4


def test_more_rows_than_a_page_shows_are_reached_through_their_own_list(root: Client, scene: Scene) -> None:
    for _ in range(60):
        factories.OutboxRowFactory(workflow=scene.workflow)
        factories.MessageFactory(workflow=scene.workflow)
    source = root.get(page_of(scene.workflow)).text
    for model in (OutboxRow, Message):
        url = f"{list_of(model)}?workflow={scene.workflow.pk}"
        assert url in source
        assert len(root.get(url).context["cl"].result_list) == (62 if model is OutboxRow else 61)


def test_a_single_activity_is_called_one(root: Client) -> None:
    assert "Single activity" in words(root, page_of(factories.WorkflowFactory(single=True)))


def test_every_kind_of_event_has_a_sentence_of_its_own() -> None:
    assert {kind for kind, *_rest in EVENTS} >= {kind.value for kind in EventType}
