"""All rows, as they are now."""

from __future__ import annotations

from typing import Any

from durable.models import Event, FailedAttempt, Message, OutboxRow, StaffAction, Worker, Workflow, WorkItem


def snapshot() -> list[Any]:
    """Everything that stands in the engine's tables."""
    models: list[Any] = [Workflow, Event, OutboxRow, WorkItem, Message, FailedAttempt, StaffAction, Worker]
    return [list(model.objects.order_by("pk").values()) for model in models]
