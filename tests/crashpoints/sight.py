"""What there is to see: the rows that the story's people look at before they do something. Read past the wire."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection

from durable.models.fields import moment_from_database


@dataclass
class Seen:
    """One workflow, by its key."""

    id: uuid.UUID
    status: str
    blocked: bool
    poison: int
    events: list[str] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)
    parked: list[bool] = field(default_factory=list)
    """Of each waiting message, whether it is parked."""

    @property
    def over(self) -> bool:
        return self.status not in ("running", "paused")


@dataclass(frozen=True)
class Row:
    """One outbox row."""

    id: int
    status: str
    attempts: int
    redrives: int
    out: bool
    """With a worker, or to be delivered alone since a worker died with it, or left open by an ended workflow."""


@dataclass
class Sight:
    """Everything, at one moment."""

    workflows: dict[str, Seen]
    ledger: set[str]

    def __getitem__(self, key: str) -> Seen:
        return self.workflows[key]


_EVERYTHING = """
SELECT 1, CAST(id AS text), poison_turns, key, status, blocked_reason, 0, 0 FROM durable_workflow
UNION ALL SELECT 2, CAST(workflow_id AS text), seq, type, '', '', 0, 0 FROM durable_event
UNION ALL SELECT 3, CAST(workflow_id AS text), ordinal, CAST(id AS text), status,
    CASE WHEN suspect THEN 'suspect' ELSE '' END, attempts, redrive_count FROM durable_outboxrow
UNION ALL SELECT 4, CAST(workflow_id AS text), 0, CASE WHEN parked THEN 'parked' ELSE '' END, '', '', 0, 0
    FROM durable_message
UNION ALL SELECT 5, '', 0, label, '', '', 0, 0 FROM ledger_entry
ORDER BY 1, 2, 3
"""


def look() -> Sight:
    """Read it all, in one statement."""
    workflows: dict[str, Seen] = {}
    owners: dict[str, Seen] = {}
    ledger: set[str] = set()
    with connection.cursor() as cursor:
        cursor.execute(_EVERYTHING)
        found: list[tuple[Any, ...]] = cursor.fetchall()
    for what, owner, number, text, status, mark, attempts, redrives in found:
        match what:
            case 1:
                workflows[text] = owners[owner] = Seen(uuid.UUID(owner), status, bool(mark), number)
            case 2:
                owners[owner].events.append(text)
            case 3:
                left_open = owners[owner].over and status == "dead"
                out = status == "claimed" or bool(mark) or left_open
                owners[owner].rows[number] = Row(int(text), status, attempts, redrives, out)
            case 4:
                owners[owner].parked.append(bool(text))
            case _:
                ledger.add(text)
    return Sight(workflows, ledger)


_MOMENTS = """
SELECT (SELECT min(wake_at) FROM durable_workflow WHERE wake_at IS NOT NULL AND status = 'running'),
    (SELECT min(visible_at) FROM durable_message WHERE NOT parked),
    (SELECT min(visible_after) FROM durable_outboxrow WHERE status = 'pending' AND NOT paused AND NOT waiting),
    (SELECT min(locked_until) FROM durable_workitem)
"""


def next_moment() -> datetime | None:
    """When something will be due, or a lease run out; None: never."""
    with connection.cursor() as cursor:
        cursor.execute(_MOMENTS)
        found = [moment_from_database(value) for value in cursor.fetchone()]
    return min((moment for moment in found if moment is not None), default=None)
