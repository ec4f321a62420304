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
    created_at: datetime
    out: bool
    """With a worker, or to be delivered alone since a worker died with it, or left open by an ended workflow."""


@dataclass
class Sight:
    """Everything, at one moment."""

    workflows: dict[str, Seen]
    ledger: set[str]

    def __getitem__(self, key: str) -> Seen:
        return self.workflows[key]


def look() -> Sight:
    """Read it all, in four statements."""
    workflows: dict[str, Seen] = {}
    owners: dict[str, Seen] = {}
    with connection.cursor() as cursor:

        def rows(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return cursor.fetchall()

        for id, key, status, reason, poison in rows(
            "SELECT id, key, status, blocked_reason, poison_turns FROM durable_workflow"
        ):
            seen = Seen(id if isinstance(id, uuid.UUID) else uuid.UUID(id), status, bool(reason), poison)
            workflows[key] = owners[str(id)] = seen
        for owner, kind in rows("SELECT workflow_id, type FROM durable_event ORDER BY workflow_id, seq"):
            owners[str(owner)].events.append(kind)
        for owner, ordinal, id, status, attempts, redrives, created, suspect in rows(
            "SELECT workflow_id, ordinal, id, status, attempts, redrive_count, created_at, suspect "
            "FROM durable_outboxrow"
        ):
            at, seen = moment_from_database(created), owners[str(owner)]
            assert at is not None
            out = status == "claimed" or bool(suspect) or (seen.over and status == "failed")
            seen.rows[ordinal] = Row(id, status, attempts, redrives, at, out)
        for owner, parked in rows("SELECT workflow_id, parked FROM durable_message"):
            owners[str(owner)].parked.append(bool(parked))
        ledger = {label for (label,) in rows("SELECT label FROM ledger_entry")}
    return Sight(workflows, ledger)


MOMENTS = (
    "SELECT min(wake_at) FROM durable_workflow WHERE wake_at IS NOT NULL AND status = 'running'",
    "SELECT min(visible_at) FROM durable_message WHERE NOT parked",
    "SELECT min(visible_after) FROM durable_outboxrow WHERE status = 'pending' AND NOT paused",
    "SELECT min(locked_until) FROM durable_workitem",
)


def next_moment() -> datetime | None:
    """When something will be due, or a lease run out; None: never."""
    found = []
    with connection.cursor() as cursor:
        for sql in MOMENTS:
            cursor.execute(sql)
            found.append(moment_from_database(cursor.fetchone()[0]))
    return min((moment for moment in found if moment is not None), default=None)
