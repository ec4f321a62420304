"""Dead letters of every state, for bulk verbs and their previews."""

from __future__ import annotations

from typing import Any

from durable.models import OutboxRow
from tests.operations.scenes import alive, dead, history


def held(**values: Any) -> OutboxRow:
    """A held dead letter of a workflow of its own."""
    return dead(history("activity_scheduled 1"), **values)


def one_of_each() -> list[OutboxRow]:
    """A dead letter that may go, and one for each reason why not."""
    return [
        held(),
        dead(history(status="failed")),
        dead(history("activity_failed 1")),
        dead(history("activity_completed 1", "workflow_reopened"), run=1),
        alive(history("activity_scheduled 1"), status="done"),
        held(failure_delivered=True),
    ]
