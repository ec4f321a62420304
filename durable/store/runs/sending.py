"""What a turn sends to other workflows: signals and requests to cancel, any number of them at once."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.kernel.history.events import MessageKind
from durable.outcomes import WorkflowStatus
from durable.store.connections import new_rows, sql
from durable.store.connections.new_rows import insert
from durable.store.runs.messages import Limits

NOT_FOUND: Final = "not_found"
CLOSED: Final = "closed"
SINGLE: Final = "single"
FULL: Final = "full"
"""Why something was not accepted."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A signal or a request to cancel, for the workflow `to`."""

    to: uuid.UUID
    kind: MessageKind
    payload: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a workflow has not accepted it; of one that has ended, its status."""

    refused: str
    status: str = ""


_KEYS = sql.RowSet([("type", "text"), ("key", "text")])


def holders(connection: BaseDatabaseWrapper, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], uuid.UUID]:
    """The workflow that holds each of these (type, key) pairs, else the latest that did. One statement."""
    if not keys:
        return {}
    rows = sql.fetch(
        connection,
        "SELECT given.type, given.key, (SELECT w.id FROM durable_workflow w "
        "WHERE w.type = given.type AND w.key = given.key AND w.key IS NOT NULL "
        "ORDER BY w.status IN ('running', 'paused') DESC, w.id DESC LIMIT 1) "
        f"FROM {_KEYS.source(connection)}",
        _KEYS.params(connection, list(dict.fromkeys(keys))),
    )
    return {(type, key): sql.as_uuid(holder) for type, key, holder in rows if holder is not None}


_GIVEN = sql.RowSet([("target", "uuid"), ("kind", "text"), ("payload", "text")])


Target = tuple[uuid.UUID, MessageKind]


def send(connection: BaseDatabaseWrapper, sent: Sequence[Sent], *, within: Limits) -> Mapping[Target, Refusal]:
    """Inserts these as messages to live workflows, without a lock on them. Returns why some were not accepted; of two
    of a kind for one workflow both are, or neither.

    `within` limits what may wait for a workflow that is sent a signal; what is sent at the same time may exceed it.
    A workflow that was asked to cancel before has accepted the request. One statement, and one more if anything was not
    inserted.
    """
    if not sent:
        return {}
    now, now_params = clock.now_sql(connection)
    row = new_rows.message(
        workflow_id="w.id",
        run="w.run",
        kind="given.kind",
        payload="given.payload",
        visible_at=now,
        created_at=now,
    )
    size = sql.size(connection, "m.payload")
    room = (
        "(given.kind <> 'signal' OR (w.last_seq - w.history_seq + 1 < %s AND w.history_bytes < %s AND ("
        f"SELECT count(*) < %s AND coalesce(sum(size), 0) < %s FROM (SELECT {size} AS size FROM durable_message m "
        "WHERE m.workflow_id = w.id AND m.kind = 'signal' ORDER BY m.visible_at, m.id "
        f"LIMIT {int(within.signals)}) AS waiting)))"
    )
    live = (
        f"{_GIVEN.source(connection)} JOIN durable_workflow w ON w.id = given.target "
        f"WHERE w.status IN ('running', 'paused') AND NOT w.single AND {room} "
        "AND NOT (given.kind = 'cancel' AND EXISTS "
        "(SELECT 1 FROM durable_message m WHERE m.workflow_id = w.id AND m.kind = 'cancel'))"
    )
    rows = [(message.to, message.kind.value, message.payload) for message in sent]
    inserted = sql.fetch(
        connection,
        f"{insert('message', row, live)} RETURNING workflow_id, kind",
        [
            *now_params,
            *now_params,
            *_GIVEN.params(connection, rows),
            within.history_events,
            within.history_bytes,
            within.signals,
            within.size,
        ],
    )
    accepted = {(sql.as_uuid(owner), MessageKind(kind)) for owner, kind in inserted}
    return _refusals(connection, {(message.to, message.kind) for message in sent} - accepted)


def _refusals(connection: BaseDatabaseWrapper, missing: set[Target]) -> dict[Target, Refusal]:
    """Reads once, only if something was not inserted, to say why."""
    if not missing:
        return {}
    condition, params = sql.among(connection, "id", {target for target, _ in missing})
    rows = sql.fetch(connection, f"SELECT id, status, single FROM durable_workflow WHERE {condition}", params)
    targets = {sql.as_uuid(id): (WorkflowStatus(status), bool(single)) for id, status, single in rows}
    refusals: dict[Target, Refusal] = {}
    for target, kind in missing:
        if target not in targets:
            refusals[target, kind] = Refusal(NOT_FOUND)
            continue
        status, single = targets[target]
        if status.is_terminal:
            refusals[target, kind] = Refusal(CLOSED, status.value)
        elif single:
            refusals[target, kind] = Refusal(SINGLE)
        elif kind is MessageKind.SIGNAL:
            refusals[target, kind] = Refusal(FULL)
    return refusals
