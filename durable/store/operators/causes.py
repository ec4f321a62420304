"""Which failures of activities and children ended a workflow, as its closing event records them. Reads only."""

from __future__ import annotations

import re
import uuid
from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.kernel.limits import MAX_COUNT
from durable.models import OutboxRow, Workflow
from durable.outcomes import FailedActivity
from durable.store.connections import sql

MOST: Final = 100
"""How many activities are returned; a group may hold thousands."""

_HEAD: Final = 1_200
"""Characters of the event's data that are read: its cause comes first, and an ordinal has at most ten digits."""

_CAUSE = re.compile(r'\s*\{\s*"cause"\s*:\s*\[([\d,\s]*)')


def of_failure(connection: BaseDatabaseWrapper, workflow_id: uuid.UUID) -> list[FailedActivity]:
    """The activities and children whose failures ended a workflow, by ordinal, `MOST` at most. Empty if there are
    none, or if the event was recorded before causes were. At most three statements.
    """
    rows = sql.fetch(
        connection,
        f"SELECT w.run, substr(e.data, 1, {_HEAD}) FROM durable_workflow w "
        "JOIN durable_event e ON e.workflow_id = w.id AND e.seq = w.last_seq AND e.type = 'workflow_failed' "
        "WHERE w.id = %s AND w.status = 'failed'",
        [sql.param(connection, workflow_id)],
    )
    recorded = _CAUSE.match(rows[0][1]) if rows else None
    if recorded is None:
        return []
    numbers = [int(number) for number in re.findall(r"\d+", recorded[1])[:MOST]]
    ordinals = [number for number in numbers if number <= MAX_COUNT]  # of a damaged event; no row has such a number
    staged = OutboxRow.objects.using(connection.alias).filter(
        workflow_id=workflow_id, run=rows[0][0], ordinal__in=ordinals
    )
    by_ordinal = {ordinal: (row_id, name) for row_id, ordinal, name in staged.values_list("pk", "ordinal", "activity")}
    children: dict[int, tuple[uuid.UUID, str]] = {}
    others = [ordinal for ordinal in ordinals if ordinal not in by_ordinal]
    if others:
        started = Workflow.objects.using(connection.alias).filter(
            parent_id=workflow_id, parent_run=rows[0][0], parent_ordinal__in=others
        )
        for id, ordinal, type in started.values_list("pk", "parent_ordinal", "type"):
            children[ordinal or 0] = (id, type)
    return [_cause(ordinal, by_ordinal.get(ordinal), children.get(ordinal)) for ordinal in ordinals]


def _cause(ordinal: int, activity: tuple[int, str] | None, child: tuple[uuid.UUID, str] | None) -> FailedActivity:
    if activity is not None:
        return FailedActivity(ordinal, *activity)
    return FailedActivity(ordinal, None, "") if child is None else FailedActivity(ordinal, None, child[1], child[0])
