"""Answers of the command stay small whatever a workflow holds, and say what they left out."""

from __future__ import annotations

import json

import pytest

from durable.models import Workflow
from tests import factories
from tests.management.ran import Ran

pytestmark = pytest.mark.django_db(transaction=True)


def test_show_reads_so_much_of_a_history_at_once_and_says_where_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """One event is always there, however long it is."""
    # No setting: a short history is long.
    monkeypatch.setattr("durable.management.subcommands.show._MOST_CHARACTERS", 2_500)
    workflow = factories.WorkflowFactory()
    for seq, length in enumerate((1_000, 1_000, 1_000, 9_000, 10), 1):
        data = {"payload": "x" * length}
        factories.EventFactory(workflow=workflow, seq=seq, type="signal_received", data=data)
    pages, after = [], 0
    while after is not None:
        data = Ran("show", str(workflow.pk), "--after", str(after), "--json").data
        pages.append([event["seq"] for event in data["history"]])
        after = data["history_goes_on_after"]
    assert pages == [[1, 2], [3], [4], [5]]
    assert "… and more: --after 2" in Ran("show", str(workflow.pk)).out


def test_show_leaves_out_what_nobody_has_read_once_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = factories.WorkflowFactory(status="completed")
    for _ in range(3):
        payload = json.dumps({"name": "news", "payload": "x" * 1_000})
        factories.MessageFactory(workflow=workflow, payload=payload, parked=True)
    monkeypatch.setattr("durable.management.subcommands.show._MOST_CHARACTERS", 2_500)
    unread = Ran("show", str(workflow.pk), "--json").data["unread"]
    assert [message["data"] is None for message in unread] == [False, False, True]
    assert {message["characters"] for message in unread} == {len(payload)}
    assert f"({len(payload):,} characters)" in Ran("show", str(workflow.pk)).out


def test_a_long_or_deep_answer_in_json_is_not_indented() -> None:
    """A line for each bracket makes seventy megabytes of one."""
    workflow = factories.WorkflowFactory(status="completed", result="[" * 90 + ",".join(["[]"] * 60_000) + "]" * 90)
    ran = Ran("show", str(workflow.pk), "--json")
    assert len(ran.out) < 1_000_000
    assert isinstance(ran.data["result"], list)
    for deep in (600, 5_000, 50_000):
        Workflow.objects.update(result="[" * deep + "]" * deep)
        assert Ran("show", str(workflow.pk), "--json").data["result"]
        assert "result" in Ran("show", str(workflow.pk)).out
