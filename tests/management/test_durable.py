"""`manage.py durable`: data on stdout, words and logs on stderr, and an exit code that scripts can trust."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError

import durable
from durable import clock
from durable.conf import settings
from durable.flow.looks import look
from durable.kernel.codec import decode_arguments
from durable.models import Event, Message, OutboxRow, Workflow
from tests import factories
from tests.conftest import ROOT
from tests.management.ran import Ran, started

pytestmark = pytest.mark.django_db(transaction=True)


def test_start_prints_the_id_of_the_workflow_that_it_began(shop: dict[str, Any]) -> None:
    ran = Ran("start", "shop.checkout", "--args", "[42]", "--key", "order-42")
    workflow = Workflow.objects.get()
    assert (ran.code, ran.out.strip()) == (0, str(workflow.pk))
    assert (workflow.type, workflow.key) == ("shop.checkout", "order-42")


def test_start_reads_the_arguments_by_the_hints_of_the_function(shop: dict[str, Any]) -> None:
    ran = Ran("start", "shop.checkout", "--args", '[42, "9.90", 1, 2]', "--json")
    workflow = Workflow.objects.get(pk=ran.data["id"])
    assert json.loads(workflow.input) == {"order_id": 42, "amount": "9.90", "*lines": [1, 2]}
    args, kwargs = decode_arguments(shop["checkout"], workflow.input, codec=settings.codec(), workflow_id=workflow.id)
    assert (args, kwargs) == ((42, Decimal("9.90"), 1, 2), {})


def test_a_parameter_that_is_called_as_an_option_of_the_engine_is_the_functions(shop: dict[str, Any]) -> None:
    @durable.workflow(name="shop.unlock")
    async def unlock(door: int, key: str = "") -> None: ...

    assert Ran("start", "shop.unlock", "--kwargs", '{"key": "brass", "door": 1}').code == 0
    workflow = Workflow.objects.get()
    assert (json.loads(workflow.input), workflow.key) == ({"door": 1, "key": "brass"}, None)


def test_start_takes_arguments_by_name(shop: dict[str, Any]) -> None:
    Ran("start", "shop.checkout", "--kwargs", '{"order_id": 42, "amount": "9.90"}')
    assert json.loads(Workflow.objects.get().input) == {"order_id": 42, "amount": "9.90"}


def test_start_enqueues_a_single_activity_by_its_name(shop: dict[str, Any]) -> None:
    ran = Ran("start", "shop.charge", "--args", "[42]", "--json")
    assert OutboxRow.objects.get(workflow=ran.data["id"]).activity == "shop.charge"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["start", "shop.unheard_of"], "not_registered"),
        (["start", "shop.checkout", "--args", "[42"], "wrong_usage"),
        (["start", "shop.checkout", "--args", "{}"], "wrong_usage"),
        (["start", "shop.checkout", "--kwargs", "[]"], "wrong_usage"),
        (["start", "shop.checkout"], "arguments_mismatch"),
        (["start", "shop.checkout", "--args", '["many"]'], "payload_error"),
        (["start", "shop.checkout", "--args", "[42]", "--key", "x" * 1_001], "key_invalid"),
        (["show", "42"], "key_invalid"),
        (["signal", "nonsense", "approval"], "key_invalid"),
        (["signal", str(uuid.uuid4()), "approval", "--payload", "yes"], "wrong_usage"),
        (["cancel", "nonsense"], "key_invalid"),
        (["terminate", str(uuid.uuid4()), "--reason", "  "], "wrong_usage"),
        (["list", "--limit", "0"], "wrong_usage"),
        (["show", str(uuid.uuid4()), "--after", "-1"], "wrong_usage"),
    ],
)
def test_wrong_usage_exits_2_and_names_the_cure(shop: dict[str, Any], arguments: list[str], code: str) -> None:
    ran = Ran(*arguments, "--json")
    assert ran.code == 2
    assert ran.data["error"]["code"] == code
    assert ran.data["error"]["message"] in ran.said
    assert not Workflow.objects.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["signal"],
        ["cancel"],
        ["terminate", "--reason", "x"],
        ["unblock"],
    ],
)
def test_an_id_of_no_workflow_is_refused_with_1(arguments: list[str]) -> None:
    verb, *options = arguments
    more = ["approval"] if verb == "signal" else []
    ran = Ran(verb, str(uuid.uuid4()), *more, *options, "--json")
    assert ran.code == 1
    if verb == "cancel":
        assert ran.data["answer"] == "not_found"
    else:
        assert ran.data["error"]["code"] == "workflow_not_found"


def test_a_key_that_is_taken_is_refused_with_the_holder(shop: dict[str, Any]) -> None:
    holder = started(key="order-42")
    ran = Ran("start", "shop.checkout", "--args", "[42]", "--key", "order-42")
    assert ran.code == 1
    assert str(holder.pk) in ran.said
    assert ran.said.endswith("[key_taken]")


def test_the_holder_of_a_key_is_printed_where_it_is_asked_for(shop: dict[str, Any]) -> None:
    """For a cron job whose last workflow is still at work."""
    holder = started(key="order-42")
    for name, arguments in (("shop.checkout", "[42]"), ("shop.checkout", "[43]")):
        ran = Ran("start", name, "--args", arguments, "--key", "order-42", "--on-conflict", "existing")
        assert (ran.code, ran.out.strip()) == (0, str(holder.pk))
    assert Workflow.objects.count() == 1


@pytest.mark.parametrize("typed", ["charge", "shop.chrage"])
def test_an_unknown_name_is_refused_with_those_that_are_like_it(shop: dict[str, Any], typed: str) -> None:
    ran = Ran("start", typed)
    assert ran.code == 2
    assert f"No workflow or activity named {typed!r}" in ran.said
    assert "Registered is shop.charge" in ran.said


def test_a_signal_is_accepted_with_its_payload(shop: dict[str, Any]) -> None:
    workflow = started()
    ran = Ran("signal", str(workflow.pk), "approval", "--payload", '{"ok": true}', "--json")
    assert (ran.code, ran.data["answer"]) == (0, "accepted")
    assert json.loads(json.loads(Message.objects.get(kind="signal").payload)["payload"]) == {"ok": True}


def test_a_signal_for_which_there_is_no_room_is_refused(shop: dict[str, Any], settings: Any) -> None:
    workflow = started()
    Ran("signal", str(workflow.pk), "approval")
    settings.DURABLE = {"MAX_UNREAD_SIGNALS": 1}
    ran = Ran("signal", str(workflow.pk), "approval")
    assert (ran.code, Message.objects.filter(kind="signal").count()) == (1, 1)
    assert "accepts no signals now: 1 signals" in ran.said


def test_cancel_says_what_it_did_and_refuses_what_is_over(shop: dict[str, Any]) -> None:
    """Faults N2, N5."""
    workflow = started()
    asked = Ran("cancel", str(workflow.pk), "--reason", "customer called", "--actor", "anna", "--json")
    assert (asked.code, asked.data["answer"], asked.data["status"]) == (0, "asked", "running")
    told = json.loads(Message.objects.get(kind="cancel").payload)
    assert (told["reason"], told["actor"]) == ("customer called", "anna")
    Ran("terminate", str(workflow.pk), "--reason", "stuck")
    over = Ran("cancel", str(workflow.pk))
    assert (over.code, over.out.strip()) == (1, "Already ended: it is cancelled.")


def test_cancel_of_a_single_activity_says_what_is_true_of_one(shop: dict[str, Any]) -> None:
    waits = factories.OutboxRowFactory(workflow__single=True)
    factories.history_of(waits.workflow, length=1)
    done = Ran("cancel", str(waits.workflow_id))
    assert (done.code, done.out.strip()) == (0, "Cancelled: it had not started, and will not start.")
    runs = factories.WorkItemFactory(outbox_row__workflow__single=True)
    factories.history_of(runs.workflow, length=1)
    asked = Ran("cancel", str(runs.workflow_id))
    assert asked.code == 0
    assert asked.out.startswith("Requested: the running handler sees it when it next checks")


def test_terminate_ends_a_workflow_with_reason_and_actor_once(shop: dict[str, Any]) -> None:
    workflow = started()
    ran = Ran("terminate", str(workflow.pk), "--reason", "stuck", "--actor", "anna", "--json")
    assert (ran.code, ran.data["answer"]) == (0, "terminated")
    event = Event.objects.get(workflow=workflow, type="workflow_cancelled")
    assert (event.data["reason"], event.data["actor"]) == ("stuck", "anna")
    again = Ran("terminate", str(workflow.pk), "--reason", "stuck", "--json")
    assert (again.code, again.data["error"]["code"]) == (1, "workflow_closed")


def test_terminate_without_a_reason_is_wrong_usage() -> None:
    with pytest.raises(CommandError, match="--reason"):
        call_command("durable", "terminate", str(uuid.uuid4()))


def test_unblock_takes_the_mark_and_refuses_a_workflow_that_has_none(shop: dict[str, Any]) -> None:
    workflow = started()
    refused = Ran("unblock", str(workflow.pk), "--json")
    assert (refused.code, refused.data["error"]["code"]) == (1, "workflow_not_blocked")
    Workflow.objects.update(blocked_reason="other code")
    assert Ran("unblock", str(workflow.pk), "--reason", "deployed", "--actor", "anna").code == 0
    assert Workflow.objects.get().blocked_reason == ""


def test_list_filters_and_shows_the_newest_first(shop: dict[str, Any]) -> None:
    first, second = started(key="a"), started(key="b")
    ended = started(key="c")
    Ran("terminate", str(ended.pk), "--reason", "stuck")
    Workflow.objects.filter(pk=second.pk).update(blocked_reason="other code")

    def ids(*options: str) -> list[str]:
        return [row["id"] for row in Ran("list", *options, "--json").data]

    assert ids() == [str(ended.pk), str(second.pk), str(first.pk)]
    assert ids("--status", "cancelled") == [str(ended.pk)]
    assert ids("--key", "a") == [str(first.pk)]
    assert ids("--blocked") == [str(second.pk)]
    assert ids("--type", "shop.refund") == []
    assert ids("--limit", "1") == [str(ended.pk)]
    text = Ran("list").out
    assert "running (blocked)" in text
    assert text.startswith("ID ")


def test_list_of_nothing_says_so() -> None:
    assert Ran("list").out == "No workflow matches.\n"
    assert Ran("list", "--json").data == []


def test_show_tells_state_pending_work_and_history(shop: dict[str, Any]) -> None:
    handle = shop["charge"].enqueue(42)
    row = OutboxRow.objects.get()
    factories.FailedAttemptFactory(outbox_row=row)
    data = Ran("show", str(handle.id), "--json").data
    assert (data["id"], data["status"], data["single"]) == (str(handle.id), "running", True)
    assert data["pending"][0]["activity"] == "shop.charge"
    assert data["pending"][0]["last_error"]["message"] == "the bank is closed"
    assert [event["type"] for event in data["history"]] == ["workflow_started"]
    assert data["history_goes_on_after"] is None
    text = Ran("show", str(handle.id)).out
    assert "shop.charge" in text
    assert "the bank is closed" in text
    assert "workflow_started" in text


def test_show_calls_a_dead_letter_so_and_leaves_the_data_as_stored() -> None:
    row = factories.DeadLetterFactory()
    ran, text = Ran("show", str(row.workflow_id), "--json"), Ran("show", str(row.workflow_id)).out
    assert ran.data["pending"][0]["status"] == "dead"
    assert "dead letter" in text
    assert "dead " not in text.replace("dead letter", "")


def test_show_tells_what_an_ended_workflow_was_sent_and_has_not_read(shop: dict[str, Any]) -> None:
    """By name; a damaged message as it stands. Of a live one nothing is unread."""
    handle = started()
    Ran("signal", str(handle.pk), "news", "--payload", "42")
    assert Ran("show", str(handle.pk), "--json").data["unread"] == []
    Ran("terminate", str(handle.pk), "--reason", "stuck")
    (unread,) = Ran("show", str(handle.pk), "--json").data["unread"]
    assert (unread["kind"], unread["data"]["name"]) == ("signal", "news")
    Message.objects.filter(pk=unread["message"]).update(payload="{no\x1b[31m")
    text = Ran("show", str(handle.pk)).out
    assert "Never read" in text
    assert "\x1b" not in text
    assert Ran("show", str(handle.pk), "--json").data["unread"][0]["data"] == "{no\x1b[31m"


def test_show_pages_through_a_long_history() -> None:
    workflow = factories.WorkflowFactory()
    factories.history_of(workflow, length=30)
    first = Ran("show", str(workflow.pk), "--limit", "20", "--json").data
    assert (first["history"][-1]["seq"], first["history_goes_on_after"]) == (20, 20)
    rest = Ran("show", str(workflow.pk), "--after", "20", "--json").data
    assert [event["seq"] for event in rest["history"]] == list(range(21, 31))


def test_show_gives_the_result_as_json_and_one_that_can_not_be_read_as_it_stands() -> None:
    workflow = factories.WorkflowFactory(status="completed", result='{"number":1}')
    factories.history_of(workflow, length=1)
    assert Ran("show", str(workflow.pk), "--json").data["result"] == {"number": 1}
    Workflow.objects.update(result="{broken")
    assert Ran("show", str(workflow.pk), "--json").data["result"] == "{broken"


def test_what_would_steer_a_terminal_is_shown_escaped() -> None:
    evil = "\x1b[2J\r\nroot"
    workflow = factories.WorkflowFactory(type=evil, key=evil, queue=evil, blocked_reason=evil)
    factories.EventFactory(workflow=workflow, seq=1, data={"type": evil})
    for text in (Ran("list").out, Ran("show", str(workflow.pk)).out):
        assert "\x1b" not in text
        assert "\\x1b[2J\\r\\nroot" in text


def test_health_is_well_when_nothing_waits() -> None:
    ran = Ran("health", "--json")
    assert (ran.code, ran.data["healthy"], ran.data["problems"]) == (0, True, [])
    assert Ran("health").out.startswith("All is well")


def test_health_exits_1_with_reasons_in_words() -> None:
    """Faults A19."""
    factories.OutboxRowFactory(queue="slow")
    factories.WorkflowFactory(blocked_reason="other code")
    ran = Ran("health", "--json")
    assert ran.code == 1
    assert any("No live worker for queue 'slow': 1 due" in problem for problem in ran.data["problems"])
    assert ran.data["blocked"] == 1
    assert "No live worker for queue 'slow'" in Ran("health").out


def test_health_tells_a_worker_that_is_silent_from_one_that_never_was() -> None:
    long_ago = clock.host_now() - 3 * settings.lease_for
    factories.WorkerFactory(name="w-slow", queues=["slow"], beat_at=long_ago)
    factories.WorkerFactory(name="w-other", queues=["other"], beat_at=long_ago)
    assert Ran("health").out.startswith("All is well (nothing waits for a worker; silent: w-other, w-slow")
    factories.OutboxRowFactory(queue="slow")
    ran = Ran("health", "--json")
    [problem] = ran.data["problems"]
    assert "Silent: w-slow for 3 min; such a worker waits for the database, or has died." in problem
    assert [one["worker"] for one in ran.data["silent_workers"]] == ["w-other", "w-slow"]


def test_deep_health_finds_nothing_in_what_the_engine_wrote(shop: dict[str, Any]) -> None:
    started()
    Ran("terminate", str(started().pk), "--reason", "stuck")
    assert Ran("health", "--deep", "--json").data["contradictions"] == 0
    assert Ran("health", "--json").data["contradictions"] is None


def test_deep_health_proves_each_status_against_its_history(shop: dict[str, Any]) -> None:
    false, short, orphaned = started(), started(), started()
    open_row = shop["charge"].enqueue(42)
    Workflow.objects.filter(pk=false.pk).update(status="completed", closed_at=factories.now())
    Workflow.objects.filter(pk=short.pk).update(last_seq=7)
    Workflow.objects.filter(pk=orphaned.pk)._raw_delete("default")
    Workflow.objects.filter(pk=open_row.id).update(status="failed", closed_at=factories.now())
    ran = Ran("health", "--deep", "--json")
    assert ran.code == 1
    text = "\n".join(ran.data["problems"])
    assert f"Workflow {false.pk}: it is completed, but its history ends with workflow_started." in text
    assert f"Workflow {short.pk}: it counts 7 events; its history holds 1, up to number 1." in text
    assert f"Workflow {open_row.id}: it is failed, and activities of it are still open: 1." in text
    assert "its workflow is gone." in text


def test_a_store_that_is_away_exits_3(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(**_options: Any) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(look, "listing", away)
    ran = Ran("list", "--json")
    assert (ran.code, ran.data["error"]["code"]) == (3, "store_unavailable")
    assert "The database is not available: connection refused" in ran.said


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["list", "--json"], 0), (["show", str(uuid.uuid4()), "--json"], 1), (["show", "x", "--json"], 2), (["dance"], 2)],
)
def test_as_a_process_data_is_alone_on_stdout_and_the_code_is_the_exit_code(
    subprocess_environment: dict[str, str], arguments: list[str], code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "durable", *arguments],
        cwd=ROOT, env=subprocess_environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    if arguments[-1] == "--json":
        json.loads(done.stdout)
    assert bool(done.stderr) == (code != 0)
