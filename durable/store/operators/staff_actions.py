"""The audit of operators' actions. Rows are appended, in the transaction of the change, and never changed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.payloads import wire
from durable.outcomes import StaffVerb, Through
from durable.store.connections import sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The record of one verb. `row_id`, `ordinal` and `was_judged` are None if it was not about a single activity."""

    id: uuid.UUID
    verb: StaffVerb
    workflow_id: uuid.UUID
    through: Through
    actor_id: Any
    actor_text: str
    ordinal: int | None = None
    row_id: int | None = None
    mode: str = ""
    reason: str = ""
    was_judged: bool | None = None
    request: uuid.UUID | None = None
    job: uuid.UUID | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


def record(connection: BaseDatabaseWrapper, audit: Audit) -> None:
    """Appends the audit row."""
    now, params = clock.now_sql(connection)
    sql.execute(
        connection,
        "INSERT INTO durable_staffaction (id, verb, workflow_id, ordinal, outbox_row_id, actor_id, actor_text, "
        "through, mode, reason, was_judged, request, job, data, at) "
        f"VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {now})",
        [
            sql.param(connection, audit.id),
            audit.verb.value,
            sql.param(connection, audit.workflow_id),
            audit.ordinal,
            audit.row_id,
            sql.param(connection, audit.actor_id),
            audit.actor_text,
            audit.through.value,
            audit.mode,
            audit.reason,
            audit.was_judged,
            sql.param(connection, audit.request),
            sql.param(connection, audit.job),
            wire.dump(dict(audit.data)),
            *params,
        ],
    )


def recorded(connection: BaseDatabaseWrapper, audit_id: uuid.UUID) -> tuple[int, bool] | None:
    """The row and `was_judged` of a redrive's or discard's audit row, if an earlier try with unknown outcome has
    committed it. Other verbs' audit rows name no row.
    """
    rows = sql.fetch(
        connection,
        "SELECT outbox_row_id, was_judged FROM durable_staffaction WHERE id = %s",
        [sql.param(connection, audit_id)],
    )
    return (rows[0][0], bool(rows[0][1])) if rows else None
