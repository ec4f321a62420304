"""Dead letters for the commands, and the options that they need."""

from __future__ import annotations

from typing import Any

from durable.models import OutboxRow
from tests.operations.scenes import dead, history

FORCE = ["--force", "--reason", "because"]


REASON = ["--reason", "because"]


def held(**values: Any) -> OutboxRow:
    """A held dead letter of a workflow of its own."""
    return dead(history("activity_scheduled 1"), **values)
