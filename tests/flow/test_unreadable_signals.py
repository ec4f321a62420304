"""A signal that is not of the type asked for, through whole turns: it blocks nobody, whoever sent it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import durable
from durable.decorators.workflows import workflow
from durable.errors import SignalUnreadable
from durable.flow.caller import signal
from durable.models import Event
from tests.flow import driver as rows_of
from tests.flow.driver import Driver, history

pytestmark = pytest.mark.django_db


@dataclass
class Node:
    children: list[Node | Leaf]


@dataclass
class Leaf:
    children: list[Node | Leaf]
    number: int = 0


TREE: Any = Node | Leaf


@workflow(name="unreadable.flow")
async def flow() -> int:
    refused = 0
    while True:
        try:
            tree = await durable.wait_for_signal("tree", as_type=TREE)
        except SignalUnreadable:
            refused += 1
        else:
            return refused + len(tree.children)


@pytest.mark.parametrize("cached", [0, 10])
def test_hostile_signals_are_recorded_as_unreadable_and_the_workflow_goes_on(cached: int) -> None:
    driver = Driver(cached=cached)
    workflow_id = driver.start(flow)
    driver.turn()
    for payload in ('"text"', '{"children":[' * 40 + "7" + "]}" * 40, '{"children":1e400}'):
        signal.signal(workflow_id, "tree", payload=payload)
        driver.turn()
    found = rows_of.workflow(workflow_id)
    assert (found.status, found.blocked_reason) == ("running", "")
    assert [event.data["kind"] for event in Event.objects.filter(type="marker_recorded")] == ["unreadable"] * 3
    deep = Event.objects.filter(type="marker_recorded").order_by("seq")[1]
    assert "takes more than" in deep.data["problem"]
    signal.signal(workflow_id, "tree", payload='{"children":[]}')
    driver.turn()
    assert rows_of.workflow(workflow_id).result == "3"
    assert history(workflow_id)[-2:] == ["signal_received", "workflow_completed"]
