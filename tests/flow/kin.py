"""What the tests of parents and children look at."""

from __future__ import annotations

import json
import uuid
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from durable.flow.caller import signal
from durable.models import Event, Workflow
from tests.flow.driver import workflow


def result(workflow_id: uuid.UUID) -> Any:
    row = workflow(workflow_id)
    assert row.status == "completed", (row.status, row.failure, row.blocked_reason)
    return json.loads(row.result or "null")


def children(workflow_id: uuid.UUID) -> list[Workflow]:
    return list(Workflow.objects.filter(parent_id=workflow_id).order_by("parent_ordinal"))


def only_child(workflow_id: uuid.UUID) -> Workflow:
    (child,) = children(workflow_id)
    return child


def event(workflow_id: uuid.UUID, type: str) -> Event:
    return Event.objects.get(workflow_id=workflow_id, type=type)


def send(workflow_id: uuid.UUID, name: str, value: Any = None) -> None:
    signal.signal(workflow_id, name, payload=json.dumps(value))


def statements(turn: Any) -> int:
    with CaptureQueriesContext(connection) as captured:
        turn()
    return len(captured)
