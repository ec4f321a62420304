"""Each payload is written and read under one birthplace, wherever a copy of it stands."""

from __future__ import annotations

import io
import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

import durable
from durable import PayloadError, testing
from durable.client.find import get_workflow
from durable.kernel.payloads import birthplace
from durable.models import Event, Message, OutboxRow, Workflow
from tests.admin.conftest import event_of, page_of
from tests.client.birthplaces import Binding, send, weigh

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def bound(settings: Any) -> None:
    settings.DURABLE = {"CODEC": "tests.client.birthplaces.Binding"}
    Binding.seen.clear()


def finished() -> Workflow:
    handle = send.start("tea")
    handle.signal("go", 1)
    testing.run(handle, signals=[(timedelta(), "go", {"n": 2})])
    return Workflow.objects.get(pk=handle.id)


def test_whatever_is_read_is_told_where_it_was_made() -> None:
    workflow = finished()
    assert get_workflow(workflow.id).result(timeout=0) == {"weights": [3, 4], "words": [1, {"n": 2}]}
    assert {kind for kind, _path in Binding.seen} == {
        "arguments",
        "result",
        "signal",
        "heartbeat",
        "digest_key",
        "failure",
    }
    assert {path for kind, path in Binding.seen if kind == "result"} == {"workflow", "activity 1", "activity 2"}


def test_a_history_replays_under_its_own_birthplaces() -> None:
    exported = testing.export_history(finished().id)
    assert testing.replay_here(exported).closed is not None
    with pytest.raises(durable.WorkflowBlocked, match="was not made as arguments"):
        testing.replay_here(exported | {"workflow_id": str(uuid.uuid4())})


def test_a_single_activity_has_the_result_of_its_activity() -> None:
    handle = weigh.enqueue("tea")
    assert testing.run(handle) == 3
    workflow, row = Workflow.objects.get(pk=handle.id), OutboxRow.objects.get(workflow=handle.id)
    assert workflow.input == row.input
    assert workflow.result == f"~result (activity 1) of workflow {handle.id}~3"


def test_many_starts_have_a_birthplace_each() -> None:
    handles = send.start_many([("a",), ("b",)]) + weigh.enqueue_many([("c",)])
    assert [Workflow.objects.get(pk=handle.id).input.partition("~{")[0] for handle in handles] == [
        f"~arguments ({name}) of workflow {handle.id}"
        for name, handle in zip((send.name, send.name, weigh.name), handles, strict=True)
    ]


def test_a_payload_copied_from_another_workflow_blocks_and_fails_nothing() -> None:
    one, other = send.start("tea"), send.start("coffee")
    for handle in (one, other):
        handle.signal("go", handle.id.hex)
    mine, theirs = (Message.objects.get(workflow=handle.id, kind="signal") for handle in (one, other))
    Message.objects.filter(pk=mine.pk).update(payload=theirs.payload)
    with pytest.raises(durable.WorkflowBlocked):
        testing.run(one)
    workflow = Workflow.objects.get(pk=one.id)
    assert workflow.status == "running"
    assert f"was not made as signal (go) of workflow {one.id}" in workflow.blocked_reason


def test_a_result_of_one_activity_is_none_of_another() -> None:
    exported = testing.export_history(finished().id)
    first, second = (event for event in exported["events"] if event["type"] == "activity_completed")
    first["data"], second["data"] = second["data"], first["data"]
    with pytest.raises(durable.WorkflowBlocked, match=r"was not made as result \(activity 1\)"):
        testing.replay_here(exported)


def test_pages_and_commands_open_every_copy(client: Client, admin_client: Client) -> None:
    workflow = finished()
    shown = [page_of(workflow), *(event_of(workflow, event.seq) for event in Event.objects.filter(workflow=workflow))]
    shown += [page_of(row) for row in OutboxRow.objects.filter(workflow=workflow)]
    waiting = send.start("tea")
    waiting.signal("go", "waits")
    shown += [page_of(Message.objects.get(workflow=waiting.id, kind="signal"))]
    for address in shown:
        answer = admin_client.get(address)
        assert answer.status_code == 200
        assert ") of workflow " not in answer.text, address
    out = io.StringIO()
    call_command("durable", "show", str(workflow.id), "--json", stdout=out)
    assert json.loads(out.getvalue())["result"] == {"weights": [3, 4], "words": [1, {"n": 2}]}


def test_a_birthplace_reads_as_a_sentence_says_it() -> None:
    nobody = uuid.UUID(int=0)
    assert str(birthplace.failure(nobody, 3)) == f"failure (activity 3) of workflow {nobody}"
    with pytest.raises(PayloadError, match="unwrap failed with ValueError"):
        Binding().decode("1", path="value")
