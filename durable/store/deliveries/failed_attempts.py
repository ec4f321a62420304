"""Failed deliveries and attempts of outbox rows. Of a row without a limit of attempts, those in the middle go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.payloads import wire
from durable.outcomes import Cause
from durable.store.connections import sql
from durable.store.texts.failures import StoredFailure

_FAILED = sql.RowSet(
    [
        ("row_id", "bigint"),
        ("number", "int"),
        ("worker", "text"),
        ("started_at", "timestamptz"),
        ("cause", "text"),
        ("error", "text"),
        ("error_class", "text"),
        ("error_group", "text"),
    ]
)


@dataclass(frozen=True, slots=True)
class NewFailedAttempt:
    """A failed delivery or attempt to keep."""

    row_id: int
    number: int
    worker: str
    started_at: Any
    cause: Cause
    error: StoredFailure | None


def record(connection: BaseDatabaseWrapper, failed: Sequence[NewFailedAttempt]) -> None:
    """Appends failed attempts. One statement."""
    if failed:
        now, params = clock.now_sql(connection)
        rows = [(f.row_id, f.number, f.worker, f.started_at, f.cause.value, *_error(f.error)) for f in failed]
        sql.execute(
            connection,
            "INSERT INTO durable_failedattempt "
            "(outbox_row_id, number, worker, started_at, ended_at, cause, error, error_class, error_group) "
            f"SELECT row_id, number, worker, started_at, {now}, cause, error, error_class, error_group "
            f"FROM {_FAILED.source(connection)}",
            [*params, *_FAILED.params(connection, rows)],
        )


FIRST_KEPT, LAST_KEPT = 5, 100
"""How many failed attempts are kept of a row without a limit of attempts."""


def drop_middle(connection: BaseDatabaseWrapper, row_ids: Sequence[int]) -> None:
    """Deletes the failed attempts of (locked) rows between the first and the last ones that are kept. One statement."""
    if row_ids:
        condition, params = sql.among(connection, "outbox_row_id", sorted(set(row_ids)))
        of_row = (
            "SELECT number FROM durable_failedattempt o WHERE o.outbox_row_id = durable_failedattempt.outbox_row_id"
        )
        sql.execute(
            connection,
            f"DELETE FROM durable_failedattempt WHERE {condition} "
            f"AND number > ({of_row} ORDER BY number LIMIT 1 OFFSET {FIRST_KEPT - 1}) "
            f"AND number <= ({of_row} ORDER BY number DESC LIMIT 1 OFFSET {LAST_KEPT})",
            params,
        )


def _error(error: StoredFailure | None) -> tuple[str | None, str, str]:
    if error is None:
        return None, "", ""
    return wire.dump(error.data), error.kind.error_class, error.kind.error_group
