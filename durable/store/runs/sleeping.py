"""When workflows wake up: the row's `wake_at`, moved by turns and verbs under its lock."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.history.room import HISTORY_FULL
from durable.models import Workflow
from durable.store.connections import sql


def first_timers(connection: BaseDatabaseWrapper, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, datetime]:
    """The time of the earliest pending timer or deadline of each workflow that has one, whatever its wake-up."""
    earliest: dict[uuid.UUID, datetime] = {}
    if not ids:
        return earliest
    workflows: Any = Workflow.objects.using(connection.alias).filter(id__in=list(ids))
    for owner, timers, deadline in workflows.values_list("id", "timers", "deadline_at"):
        moments = [datetime.fromisoformat(timer["due"]) for timer in timers]
        if deadline is not None:
            moments.append(deadline)
        if moments:
            earliest[owner] = min(moments)
    return earliest


def wake_later(connection: BaseDatabaseWrapper, ids: Sequence[uuid.UUID], *, by: timedelta) -> None:
    """Moves the wake-up of (locked) workflows whose code is not known here (yet)."""
    if ids:
        until, params = clock.now_sql(connection, by)
        condition, more = sql.among(connection, "id", ids)
        sql.execute(
            connection,
            f"UPDATE durable_workflow SET wake_at = {until} WHERE wake_at < {until} AND {condition}",
            [*params, *params, *more],
        )


def sleep(connection: BaseDatabaseWrapper, ids: Sequence[uuid.UUID]) -> None:
    """Clears the wake-up of (locked) workflows that must not turn now; the verb that lets them turn again makes them
    due. A workflow with a full history keeps its deadline, since it can end by it.
    """
    if ids:
        now, now_params = clock.now_sql(connection)
        condition, params = sql.among(connection, "id", ids)
        sql.execute(
            connection,
            "UPDATE durable_workflow SET wake_at = CASE WHEN status = 'running' AND blocked_reason <> '' "
            f"AND error_class = %s AND deadline_at > {now} THEN deadline_at END "
            f"WHERE wake_at IS NOT NULL AND {condition}",
            [HISTORY_FULL, *now_params, *params],
        )


def rearm(connection: BaseDatabaseWrapper, ids: Sequence[uuid.UUID]) -> None:
    """Makes (locked) live workflows due now: a wake-up without a due timer only looks, and sets the
    right time again.
    """
    if ids:
        now, params = clock.now_sql(connection)
        condition, more = sql.among(connection, "id", ids)
        sql.execute(
            connection,
            f"UPDATE durable_workflow SET wake_at = {now} WHERE {condition} AND status IN ('running', 'paused')",
            [*params, *more],
        )
