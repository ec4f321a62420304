"""What tells workflows' histories apart without reading them: for a sample in which each kind of history is found."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.store.connections import sql

_LIVE = "w.status IN ('running', 'paused')"
_AT_ONCE = 1_000


class Shape(NamedTuple):
    """Two workflows with equal shapes have probably taken the same way through the code."""

    type: str
    patches: str
    length: int
    """How often the number of events can be halved: only one that is much longer tells more."""
    activities: frozenset[str]


def candidates(
    connection: BaseDatabaseWrapper, *, live: bool, workflow_type: str | None, limit: int
) -> dict[uuid.UUID, Shape]:
    """At most `limit` workflows, half of them the oldest and half the newest, oldest first, with their shapes. Single
    activities, which have no history to replay, are left out. A statement for each half, and one per thousand.
    """
    conditions: list[str] = ["NOT w.single"]
    params: sql.Params = []
    if live:
        conditions.append(_LIVE)
    if workflow_type is not None:
        conditions.append("w.type = %s")
        params.append(workflow_type)
    columns = "w.id, w.type, w.patches, w.last_seq - w.history_seq"
    half = (
        f"SELECT {columns} FROM durable_workflow w WHERE {' AND '.join(conditions)} "
        f"ORDER BY w.id {{way}} LIMIT {(int(limit) + 1) // 2}"
    )
    rows = {row[0]: row for way in ("ASC", "DESC") for row in sql.fetch(connection, half.format(way=way), params)}
    owners = {sql.as_uuid(row[0]): row for row in rows.values()}
    activities = _activities(connection, owners)
    return {
        owner: Shape(kind, str(patches or ""), int(length).bit_length(), activities[owner])
        for owner, (_, kind, patches, length) in sorted(owners.items())
    }


def _activities(connection: BaseDatabaseWrapper, owners: Iterable[uuid.UUID]) -> defaultdict[uuid.UUID, frozenset[str]]:
    """The names of the activities that each has called."""
    called: dict[uuid.UUID, set[str]] = defaultdict(set)
    ids = list(owners)
    for start in range(0, len(ids), _AT_ONCE):
        condition, params = sql.among(connection, "workflow_id", ids[start : start + _AT_ONCE])
        statement = f"SELECT DISTINCT workflow_id, activity FROM durable_outboxrow WHERE {condition}"
        for owner, activity in sql.fetch(connection, statement, params):
            called[sql.as_uuid(owner)].add(activity)
    return defaultdict(frozenset, {owner: frozenset(names) for owner, names in called.items()})
