"""What live workflows have answered to `patched`, counted without reading their histories."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.kernel.history.known import PATCH
from durable.models.fields import moment_from_database
from durable.store.connections import sql

Answers = dict[str, bool]

_LIVE = "NOT single AND status IN ('running', 'paused')"
_FIRST = 1_000
"""Workflows of one type, the oldest that have answered, among which the first marker of a patch is looked for."""


class Answered(NamedTuple):
    """How many live workflows of a type have given just these answers."""

    type: str
    answers: Answers
    number: int


def old_ways(connection: BaseDatabaseWrapper, workflow_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """The patches of which these workflows have taken the old way, as far as they have said so. One statement."""
    condition, params = sql.among(connection, "id", workflow_ids)
    rows = sql.fetch(
        connection, f"SELECT id, patches FROM durable_workflow WHERE patches IS NOT NULL AND {condition}", params
    )
    return {
        sql.as_uuid(owner): [id for id, is_new in sql.loads(answers).items() if not is_new] for owner, answers in rows
    }


def of_live(
    connection: BaseDatabaseWrapper, *, workflow_type: str | None = None, made_before: datetime | None = None
) -> list[Answered]:
    """The live workflows, of one type or all, counted by what they have answered; only those made before a moment, if
    it is given. One statement.
    """
    conditions: list[str] = [_LIVE]
    params: sql.Params = []
    if workflow_type is not None:
        conditions.append("type = %s")
        params.append(workflow_type)
    if made_before is not None:
        conditions.append("created_at < %s")
        params.append(sql.param(connection, made_before))
    statement = (
        f"SELECT type, patches, count(*) FROM durable_workflow WHERE {' AND '.join(conditions)} GROUP BY type, patches"
    )
    rows = sql.fetch(connection, statement, params)
    return [Answered(kind, {} if answers is None else sql.loads(answers), count) for kind, answers, count in rows]


def first_recorded(connection: BaseDatabaseWrapper, workflow_type: str) -> dict[str, datetime]:
    """When a workflow of this type first took the new way of each patch, as far as the oldest that have answered tell:
    never earlier than it was. One statement.
    """
    rows = sql.fetch(
        connection,
        f"SELECT e.data, min({sql.moment(connection, 'e.recorded_at')}) FROM ("
        "SELECT id FROM durable_workflow WHERE type = %s AND patches IS NOT NULL "
        f"ORDER BY id LIMIT {_FIRST}) AS answered JOIN durable_event e ON e.workflow_id = answered.id "
        "WHERE e.type = 'marker_recorded' GROUP BY e.data",
        [workflow_type],
    )
    firsts: dict[str, datetime] = {}
    for text, recorded_at in rows:
        data, moment = sql.loads(text), moment_from_database(recorded_at)
        if data.get("kind") == PATCH and moment is not None:
            firsts[data["id"]] = min(moment, firsts.get(data["id"], moment))
    return firsts
