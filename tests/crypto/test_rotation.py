"""Encrypted workflows that live on: through rotations, beside payloads that were moved, and without a key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command

import durable
from durable import testing
from durable.client.find import get_workflow
from durable.flow.looks import look
from durable.models import Event, Message, OutboxRow, Workflow, WorkItem
from durable.operations import unblock
from tests import factories
from tests.client.birthplaces import fail, send, weigh
from tests.crypto.rotating import CANARY, WANTED, mentions, reencrypt
from tests.flow.counting import counted

pytestmark = pytest.mark.django_db

Deploy = Callable[..., None]


def noted(handle: durable.Handle[Any]) -> int:
    return Workflow.objects.get(id=handle.id).history_bytes


def digests() -> dict[Any, str]:
    return {
        (event.workflow_id, event.seq): event.data["digest"]
        for event in Event.objects.filter(type="activity_scheduled")
    }


def half_way() -> durable.Handle[Any]:
    """It has weighed once, has a signal that it has read and one that it has not."""
    handle = send.start(CANARY)
    handle.signal("go", 1)
    testing.drain(until=timedelta(seconds=30))
    handle.signal("go", CANARY)
    return handle


def test_no_column_shows_a_payload(keyed: Deploy) -> None:
    keyed("old")
    handle = half_way()
    assert mentions(CANARY) == 0
    assert testing.run(handle) == WANTED
    assert mentions(CANARY) == 0
    assert mentions("aes1.old.") > 5


def test_a_rotation_step_by_step_while_workflows_live(keyed: Deploy) -> None:
    keyed("old")
    ended, early = send.start(CANARY), half_way()
    assert testing.run(ended, signals=[(timedelta(), "go", 1), (timedelta(), "go", CANARY)]) == WANTED
    keyed("old", "new")
    middle = half_way()
    keyed("new", "old")
    late = half_way()
    known = digests()
    assert mentions("aes1.old.") > 0
    assert reencrypt()["unreadable"] == 0
    assert mentions("aes1.old.") == 0
    assert digests() == known
    keyed("new")
    for handle in (ended, early, middle, late):
        assert testing.run(handle) == WANTED
        assert testing.replay_here(testing.export_history(handle.id)).drift == 0


def test_encryption_can_be_turned_on_over_live_workflows(settings: Any, keyed: Deploy) -> None:
    settings.DURABLE = {}
    handle, other = half_way(), half_way()
    Workflow.objects.filter(id=other.id).update(history_bytes=0)
    assert mentions(CANARY)
    before = noted(handle)
    keyed("new", READ_UNENCRYPTED=True)
    assert reencrypt()["payloads"] > 5
    assert noted(handle) == counted(handle.id) > before + 100, "the history is longer now, and that is counted"
    assert noted(other) == 0, "one that was never counted is left to its next turn"
    assert mentions(CANARY) == 0
    keyed("new")
    assert testing.run(handle) == WANTED


def test_turning_it_on_reaches_what_errors_said_in_plain_before(settings: Any, keyed: Deploy) -> None:
    keyed("middle")
    blocked = half_way()
    settings.DURABLE = {}
    failed, told = fail.enqueue(CANARY), half_way()
    with pytest.raises(durable.WorkflowFailed):
        testing.run(failed)
    with pytest.raises(durable.WorkflowBlocked):
        testing.run(blocked)
    Workflow.objects.filter(pk=blocked.id).update(blocked_reason=f"it has met {CANARY}")
    event = Event.objects.get(workflow=blocked.id, type="workflow_blocked")
    Event.objects.filter(pk=event.pk).update(data={**event.data, "reason": CANARY, "recorded": CANARY})
    keyed("new", "middle", READ_UNENCRYPTED=True, PLAIN_FAILURES=True)
    reencrypt()
    assert mentions(CANARY) > 5, "PLAIN_FAILURES leaves them plain."
    keyed("new", "middle", READ_UNENCRYPTED=True)
    assert reencrypt()["unreadable"] == 0
    assert mentions(CANARY) == 0
    assert reencrypt()["payloads"] == 0
    keyed("new")
    with pytest.raises(durable.WorkflowFailed, match=CANARY):
        get_workflow(failed.id).result(timeout=0)
    assert CANARY in (look.snapshot(blocked.id).blocked_reason or "")
    assert testing.run(told) == WANTED


def test_only_the_payload_within_an_envelope_changes(keyed: Deploy) -> None:
    keyed("old")
    handle = half_way()
    before = {event.seq: event for event in Event.objects.filter(workflow=handle.id)}
    keyed("new", "old")
    reencrypt(str(handle.id))
    for event in Event.objects.filter(workflow=handle.id):
        was = before[event.seq]
        assert (event.type, event.ordinal, event.recorded_at) == (was.type, was.ordinal, was.recorded_at)
        assert list(event.data) == list(was.data)
        changed = {key for key in event.data if event.data[key] != was.data[key]}
        assert changed == {key for key, value in was.data.items() if str(value).startswith("aes1.")}
    workflow = Workflow.objects.get(pk=handle.id)
    assert workflow.last_seq == len(before)


def test_a_rotation_reaches_a_delivery_that_is_out(keyed: Deploy) -> None:
    keyed("old")
    handle = weigh.enqueue(CANARY)
    testing.drain()
    row = OutboxRow.objects.get(workflow=handle.id)
    assert row.last_heartbeat
    factories.WorkItemFactory(outbox_row=row, workflow=row.workflow, heartbeat=row.last_heartbeat)
    keyed("new", "old")
    reencrypt()
    assert mentions("aes1.old.") == 0
    keyed("new")
    WorkItem.objects.all().delete()
    assert testing.run(handle) == len(CANARY)


def test_a_rotation_reaches_what_errors_said(keyed: Deploy) -> None:
    keyed("old")
    handle = fail.enqueue(CANARY)
    with pytest.raises(durable.WorkflowFailed):
        testing.run(handle)
    keyed("middle")
    blocked = half_way()
    keyed("old")
    with pytest.raises(durable.WorkflowBlocked):
        testing.run(blocked)
    assert mentions("sealed:aes1.old.") == 1
    assert mentions(CANARY) == 0
    keyed("new", "old", "middle")
    assert reencrypt()["unreadable"] == 0
    assert mentions("aes1.old.") == mentions("aes1.middle.") == 0
    keyed("new")
    with pytest.raises(durable.WorkflowFailed, match=CANARY):
        get_workflow(handle.id).result(timeout=0)
    assert "with the key 'middle'" in (look.snapshot(blocked.id).blocked_reason or "")


def test_a_second_run_has_nothing_left_to_do_and_a_broken_one_goes_on(keyed: Deploy) -> None:
    keyed("old")
    handles = [half_way() for _ in range(3)]
    keyed("new", "old")
    would = reencrypt("--dry-run")
    assert (would["workflows"], would["looked_at"]) == (3, 3)
    first = reencrypt("--limit", "2")
    assert (first["workflows"], first["last"]) == (2, str(handles[1].id))
    rest = reencrypt("--after", first["last"])
    assert (rest["workflows"], first["payloads"] + rest["payloads"]) == (1, would["payloads"])
    assert reencrypt()["payloads"] == 0


def test_what_cannot_be_read_is_left_counted_and_told(
    keyed: Deploy, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    keyed("old")
    lost, fine = half_way(), half_way()
    keyed("new")
    before = Workflow.objects.get(pk=lost.id).input
    with pytest.raises(SystemExit) as ended:
        call_command("durable", "reencrypt", str(lost.id))
    assert ended.value.code == 1
    assert "cannot be read" in capsys.readouterr().out
    assert "error=EncryptionKeyUnknown key_id=old" in caplog.text
    assert Workflow.objects.get(pk=lost.id).input == before
    keyed("new", "old")
    assert reencrypt()["unreadable"] == 0
    assert testing.run(fine) == WANTED


def test_a_missing_key_blocks_and_fails_nothing(keyed: Deploy) -> None:
    keyed("old")
    handle = half_way()
    keyed("new")
    with pytest.raises(durable.WorkflowBlocked, match="with the key 'old'"):
        testing.run(handle)
    assert get_workflow(handle.id).status() == "running"
    keyed("new", "old")
    unblock(handle.id, actor=None, reason="the key is back")
    assert testing.run(handle) == WANTED


def test_a_heartbeat_that_cannot_be_read_is_no_error_of_the_activity(keyed: Deploy) -> None:
    keyed("old")
    handle = weigh.enqueue(CANARY)
    testing.drain()
    other = weigh.enqueue("other")
    OutboxRow.objects.filter(workflow=handle.id).update(last_heartbeat=OutboxRow.objects.get(workflow=other.id).input)
    testing.drain(until=timedelta(seconds=20))
    row = OutboxRow.objects.get(workflow=handle.id)
    assert (row.attempts, row.cause) == (1, "undecodable_input")
    assert row.delivery_failures > 0
    assert get_workflow(handle.id).status() == "running"


@pytest.mark.parametrize("kind", ["signal", "start"])
def test_a_payload_that_was_copied_to_another_workflow_is_refused(keyed: Deploy, kind: str) -> None:
    keyed("old")
    mine, theirs = send.start(CANARY), send.start("other")
    for handle in (mine, theirs):
        handle.signal("go", handle.id.hex)
    if kind == "signal":
        messages = Message.objects.filter(kind="signal")
        messages.filter(workflow=mine.id).update(payload=messages.get(workflow=theirs.id).payload)
    else:
        event = Event.objects.get(workflow=mine.id, seq=1)
        event.data["input"] = Event.objects.get(workflow=theirs.id, seq=1).data["input"]
        event.save(force_update=True)
    with pytest.raises(durable.WorkflowBlocked, match="was not encrypted for this place"):
        testing.run(mine)
    assert get_workflow(mine.id).status() == "running"


def test_wrong_usage_of_the_command_is_told() -> None:
    with pytest.raises(CommandError, match="is no"):
        call_command("durable", "reencrypt", "--after", "nonsense")
