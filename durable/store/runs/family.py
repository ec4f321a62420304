"""What parents and children send to one another: messages, without a lock on the other's row."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.store.connections import new_rows, sql
from durable.store.connections.new_rows import insert


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child has ended, for its parent. `run` and `ordinal` are those of the call that started it."""

    parent: uuid.UUID
    run: int
    ordinal: int
    payload: str = field(repr=False)


_ENDS = sql.RowSet([("parent", "uuid"), ("run", "int"), ("ordinal", "int"), ("payload", "text")])


def tell_parents(connection: BaseDatabaseWrapper, ends: Sequence[ChildEnd]) -> None:
    """Inserts the ends of children as messages to those of their parents that are live. One statement."""
    if not ends:
        return
    now, now_params = clock.now_sql(connection)
    row = new_rows.message(
        workflow_id="p.id",
        run="given.run",
        kind="'child'",
        ordinal="given.ordinal",
        payload="given.payload",
        visible_at=now,
        created_at=now,
    )
    live = (
        f"{_ENDS.source(connection)} JOIN durable_workflow p ON p.id = given.parent "
        "WHERE p.status IN ('running', 'paused')"
    )
    rows = [(end.parent, end.run, end.ordinal, end.payload) for end in ends]
    sql.execute(connection, insert("message", row, live), [*now_params, *now_params, *_ENDS.params(connection, rows)])


_PARENTS = sql.RowSet([("parent", "uuid"), ("payload", "text")])


def ask_children(connection: BaseDatabaseWrapper, closed: Sequence[tuple[uuid.UUID, str]]) -> None:
    """Sends each live child of these workflows, which have ended, what its `parent_close` says: a request to cancel, or
    an order to terminate. The payload says why. One statement.

    Found by their parent alone, whatever has become of them. An order comes before all that waits for the child. One
    that waits already is not sent again; no unique key prevents it, since others' transactions would be waited for.
    """
    if not closed:
        return
    now, now_params = clock.now_sql(connection)
    by_order = "c.parent_close = 'terminate'"
    kind = f"CASE WHEN {by_order} THEN 'terminate' ELSE 'cancel' END"
    row = new_rows.message(
        workflow_id="c.id",
        run="c.run",
        kind=kind,
        payload="given.payload",
        visible_at=f"CASE WHEN {by_order} THEN c.created_at ELSE {now} END",
        created_at=now,
    )
    live = (
        f"{_PARENTS.source(connection)} JOIN durable_workflow c ON c.parent_id = given.parent "
        "WHERE c.parent_id IS NOT NULL AND c.status IN ('running', 'paused') "
        "AND c.parent_close IN ('cancel', 'terminate') "
        f"AND NOT EXISTS (SELECT 1 FROM durable_message m WHERE m.workflow_id = c.id AND m.kind = {kind})"
    )
    sql.execute(
        connection, insert("message", row, live), [*now_params, *now_params, *_PARENTS.params(connection, closed)]
    )
