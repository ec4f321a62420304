"""Claims and deliveries without a database."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from durable.outcomes import Claim
from durable.worker.handlers.delivery import Delivery

CREATED = datetime(2030, 1, 1, 12, tzinfo=UTC)


def claim(row_id: int = 1, **changed: Any) -> Claim:
    """A claim of a first delivery, as the database would give it."""
    values: dict[str, Any] = {
        "row_id": row_id,
        "token": uuid.UUID(int=row_id),
        "workflow_id": uuid.UUID(int=1000 + row_id),
        "run": 1,
        "ordinal": 1,
        "activity": "tests.act",
        "payload": "{}",
        "options": {},
        "delivery": 1,
        "delivery_failures": 0,
        "delivery_budget": 8,
        "attempts": 0,
        "attempt_budget": 5,
        "last_heartbeat": None,
        "created_at": CREATED,
        "worker": "here",
    }
    return Claim(**(values | changed))


def delivery(row_id: int = 1, **changed: Any) -> Delivery:
    """A delivery of such a claim."""
    return Delivery(claim(row_id, **changed))


class CountedTime:
    """A clock that stands still but for waits, which it counts instead of waiting. In microseconds."""

    def __init__(self) -> None:
        self.at = 5_000_000
        self.waits: list[int] = []
        self.during_wait: Callable[[], None] = lambda: None

    def now(self) -> int:
        return self.at

    def wait(self, condition: threading.Condition, microseconds: int | None) -> None:
        assert microseconds is not None, "The thread would wait for ever."
        self.waits.append(microseconds)
        self.at += microseconds
        self.during_wait()
