"""The whole state of the engine as it stands in the tables, read on a connection that takes no part in what happens."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from unittest.mock import ANY

from django.db import connection, models, transaction

from durable import clock
from durable.kernel.payloads import wire
from durable.models import Event, FailedAttempt, Message, OutboxRow, StaffAction, Worker, Workflow, WorkItem
from durable.models.fields import JsonTextField, MomentField, moment_from_database
from durable.store.connections import sql
from tests.ledger.models import Entry

Row = dict[str, Any]
Table = dict[Any, Row]

_READ: dict[str, tuple[Any, tuple[str, ...]]] = {
    "workflows": (Workflow, ("id",)),
    "events": (Event, ("workflow_id", "seq")),
    "rows": (OutboxRow, ("id",)),
    "items": (WorkItem, ("outbox_row_id",)),
    "messages": (Message, ("id",)),
    "failures": (FailedAttempt, ("id",)),
    "audits": (StaffAction, ("id",)),
    "workers": (Worker, ("name",)),
    "ledger": (Entry, ("id",)),
}
_new = itertools.count(1)


@dataclass
class State:
    """Every row of every table, by its key. New rows that a model expects have keys of their own making."""

    now: datetime
    workflows: Table = field(default_factory=dict)
    events: Table = field(default_factory=dict)
    rows: Table = field(default_factory=dict)
    items: Table = field(default_factory=dict)
    messages: Table = field(default_factory=dict)
    failures: Table = field(default_factory=dict)
    audits: Table = field(default_factory=dict)
    workers: Table = field(default_factory=dict)
    ledger: Table = field(default_factory=dict)

    def copy(self) -> State:
        """A state of the same content that may be changed."""
        tables = {name: {key: dict(row) for key, row in getattr(self, name).items()} for name in _READ}
        return State(clock.host_now(), **tables)

    def expect_new(self, table: str, **row: Any) -> Row:
        """Expect one more row in a table whose ids nobody can foresee."""
        getattr(self, table)[f"new {next(_new)}"] = row
        return row

    def rows_of(self, workflow_id: uuid.UUID) -> Iterator[Row]:
        """A workflow's outbox rows, by id."""
        return (row for row in self.rows.values() if row["workflow_id"] == workflow_id)

    def row_of(self, workflow_id: uuid.UUID, ordinal: int) -> Row | None:
        """The row of an activity in the current run, if there is one."""
        run = self.workflows[workflow_id]["run"]
        return next((r for r in self.rows_of(workflow_id) if (r["run"], r["ordinal"]) == (run, ordinal)), None)

    def events_of(self, workflow_id: uuid.UUID) -> list[Row]:
        """A workflow's history, in order."""
        found = [event for event in self.events.values() if event["workflow_id"] == workflow_id]
        return sorted(found, key=lambda event: event["seq"])

    def messages_of(self, workflow_id: uuid.UUID) -> list[Row]:
        """What waits for a workflow, in order of arrival."""
        return [message for message in self.messages.values() if message["workflow_id"] == workflow_id]

    def is_live(self, workflow_id: uuid.UUID) -> bool:
        """Whether the workflow exists and has not ended."""
        found = self.workflows.get(workflow_id)
        return found is not None and found["status"] in ("running", "paused")


def by_owner(table: Table, owner: str = "workflow_id") -> dict[Any, list[Row]]:
    """The rows of a table by what they belong to, in order."""
    found: dict[Any, list[Row]] = {}
    for row in table.values():
        found.setdefault(row[owner], []).append(row)
    return found


def read() -> State:
    """The state now. Nothing changes meanwhile: the machine does one thing after the other."""
    tables: dict[str, Table] = {}
    with connection.cursor() as cursor:
        for name, (model, key) in _READ.items():
            columns = [(field.attname, _meaning(field)) for field in model._meta.concrete_fields]
            names = ", ".join(column for column, _ in columns)
            cursor.execute(f"SELECT {names} FROM {model._meta.db_table} ORDER BY {', '.join(key)}")
            rows = [
                {
                    column: value if value is None else mean(value)
                    for (column, mean), value in zip(columns, row, strict=True)
                }
                for row in cursor.fetchall()
            ]
            tables[name] = {row[key[0]] if len(key) == 1 else tuple(row[k] for k in key): row for row in rows}
    for key, workflow in tables["workflows"].items():
        size = sum(sql.size_of(wire.dump(e["data"])) for e in tables["events"].values() if e["workflow_id"] == key)
        workflow["history_bytes"] = workflow["history_bytes"] == size  # whether it is right is all that matters
    _judge_kinds(tables)
    return State(clock.host_now(), **tables)


def _judge_kinds(tables: dict[str, Table]) -> None:
    """Put in the place of what failures are told apart by whether it is right: that, too, is all that matters."""
    last: dict[int, str] = {}
    for _, attempt in sorted(tables["failures"].items()):
        last[attempt["outbox_row_id"]] = wanted = "" if attempt["error"] is None else attempt["error"]["type"]
        _judge_kind(attempt, right=attempt["error_class"] == wanted)
    for row_id, row in tables["rows"].items():
        _judge_kind(row, right=row["status"] != "dead" or row["error_class"] == last[row_id])
    for workflow in tables["workflows"].values():
        if workflow["failure"] is not None:
            _judge_kind(workflow, right=workflow["error_class"] == workflow["failure"]["type"])
        else:
            _judge_kind(workflow, right=bool(workflow["error_class"]) == bool(workflow["blocked_reason"]))


def _judge_kind(row: Row, *, right: bool) -> None:
    row["error_class"] = right and bool(row["error_class"]) == bool(row.pop("error_group"))


@cache
def _meaning(column: models.Field[Any, Any]) -> Callable[[Any], Any]:
    """What a cursor's value stands for. By hand: the machine reads everything after each of thousands of steps."""
    if isinstance(column, models.ForeignKey):
        return _meaning(column.target_field)
    for kind, meaning in _MEANINGS.items():
        if isinstance(column, kind):
            return meaning
    return lambda value: value


_MEANINGS: dict[type[models.Field[Any, Any]], Callable[[Any], Any]] = {
    models.UUIDField: lambda value: value if isinstance(value, uuid.UUID) else uuid.UUID(value),
    MomentField: moment_from_database,
    JsonTextField: json.loads,
    models.BooleanField: bool,
}


def empty() -> None:
    """Remove every row of every table."""
    with transaction.atomic(), connection.cursor() as cursor:
        for model, _ in _READ.values():
            cursor.execute(f"DELETE FROM {model._meta.db_table}")


def differences(expected: State, actual: State) -> list[str]:
    """In words: everything in which the actual state is not what was expected."""
    found: list[str] = []
    for name in _READ:
        wanted: Table = getattr(expected, name)
        there: Table = getattr(actual, name)
        hoped = [row for key, row in wanted.items() if str(key).startswith("new ")]
        known = {key: row for key, row in wanted.items() if not str(key).startswith("new ")}
        for key, row in known.items():
            if key not in there:
                found.append(f"{name} {key} is gone: {row}")
            elif row != there[key]:
                changed = [
                    f"{column} is {there[key].get(column)!r} and not {value!r}"
                    for column, value in row.items()
                    if value != there[key].get(column)
                ]
                found.append(f"{name} {key}: {', '.join(changed)}")
        surplus = [row for key, row in there.items() if key not in known]
        for row in hoped:
            match = next((one for one in surplus if {**row, "id": ANY} == {"id": 0, **one}), None)
            if match is None:
                found.append(f"{name}: nowhere is {row}; there are {surplus}")
            else:
                surplus.remove(match)
        found += [f"{name}: nobody expected {row}" for row in surplus]
    return found
