"""What a new row holds: each table's columns named once, for all statements that insert into it.

Values are SQL: a column of the source that is read from, a parameter, or a literal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Row = Mapping[str, str]

Value = Callable[[str], str]
"""How a statement refers to a value by its name: as a column of its source, or as a named parameter."""


def column(name: str) -> str:
    """The value is the column of this name in the source."""
    return name


def named(name: str) -> str:
    """The value is a named parameter."""
    return f"%({name})s"


def insert(table: str, row: Row, source: str | None = None) -> str:
    """The statement that inserts such a row for each of the source; None: one row, of parameters and literals."""
    columns, values = ", ".join(row), ", ".join(row.values())
    into = f"INSERT INTO durable_{table} ({columns})"
    return f"{into} VALUES ({values})" if source is None else f"{into} SELECT {values} FROM {source}"


def workflow(value: Value, *, single: str, deadline_at: str, created_at: str, history_bytes: str) -> Row:
    """A running workflow whose history holds its start, and nothing else."""
    return {
        "id": value("id"),
        "type": value("type"),
        "key": value("key"),
        "single": single,
        "status": "'running'",
        "run": "1",
        "run_seq": "1",
        "input": value("payload"),
        "queue": value("queue"),
        "priority": value("priority"),
        "custom_status": "''",
        "last_seq": "1",
        "timers": "'[]'",
        "blocked_reason": "''",
        "blocked_version": "''",
        "poison_turns": "0",
        "deadline_at": deadline_at,
        "created_at": created_at,
        "history_bytes": history_bytes,
    }


def of_child(value: Value) -> Row:
    """What the row of a child holds in addition."""
    return {name: value(name) for name in ("parent_id", "parent_run", "parent_ordinal", "parent_close")}


def event(*, workflow_id: str, seq: str, type: str, ordinal: str = "NULL", data: str, recorded_at: str) -> Row:
    """An event of a history."""
    return {
        "workflow_id": workflow_id,
        "seq": seq,
        "type": type,
        "ordinal": ordinal,
        "data": data,
        "recorded_at": recorded_at,
    }


def message(
    *,
    workflow_id: str,
    run: str,
    kind: str,
    ordinal: str = "NULL",
    payload: str,
    visible_at: str,
    created_at: str,
    dedup: str = "NULL",
) -> Row:
    """A message that waits for a workflow's next turn."""
    return {
        "workflow_id": workflow_id,
        "run": run,
        "kind": kind,
        "ordinal": ordinal,
        "payload": payload,
        "visible_at": visible_at,
        "created_at": created_at,
        "parked": "false",
        "dedup": dedup,
    }


def outbox_row(
    value: Value,
    *,
    workflow_id: str,
    run: str,
    ordinal: str,
    activity: str,
    visible_after: str,
    created_at: str,
    status: str = "'pending'",
    claimed_at: str = "NULL",
    deliveries: str = "0",
    worker: str = "''",
) -> Row:
    """An activity that has not been tried: pending, or a delivery from the beginning."""
    return {
        "workflow_id": workflow_id,
        "run": run,
        "ordinal": ordinal,
        "activity": activity,
        "input": value("payload"),
        "options": value("options"),
        "namespace": "''",
        "queue": value("queue"),
        "status": status,
        "paused": "false",
        "suspect": "false",
        "priority": value("priority"),
        "visible_after": visible_after,
        "created_at": created_at,
        "claimed_at": claimed_at,
        "deliveries": deliveries,
        "worker": worker,
        "delivery_failures": "0",
        "delivery_budget": value("delivery_budget"),
        "attempts": "0",
        "attempt_budget": value("attempt_budget"),
        "failure_delivered": "false",
        "cause": "''",
        "redrive_count": "0",
    }


def work_item(*, row: str, single: str, locked_until: str, to_send: bool = False) -> Row:
    """The work item of a claimed outbox row, which the source has as `row`. Takes the token as a parameter before those
    of `locked_until`, and the worker after them. It names the queue only if the delivery is to be sent.
    """
    queue = {"queue": f"{row}.queue"} if to_send else {}
    return queue | {
        "outbox_row_id": f"{row}.id",
        "workflow_id": f"{row}.workflow_id",
        "lock_token": "%s",
        "locked_until": locked_until,
        "worker": "%s",
        "attempts": f"{row}.attempts",
        "attempt_budget": f"{row}.attempt_budget",
        "delivery_failures": f"{row}.delivery_failures",
        "delivery_budget": f"{row}.delivery_budget",
        "single": single,
    }
