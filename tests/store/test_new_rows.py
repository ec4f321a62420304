"""The columns of a new row are named in one place, and are those that its table has and needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.db.models import NOT_PROVIDED, AutoField, BigAutoField, Field, Model

import durable.store
from durable.models import Event, Message, OutboxRow, Workflow, WorkItem
from durable.store.connections import new_rows
from durable.store.connections.new_rows import Row, column, insert, named

ROWS: dict[type[Model], Row] = {
    Workflow: new_rows.workflow(column, single="", deadline_at="", created_at="", history_bytes=""),
    Event: new_rows.event(workflow_id="", seq="", type="", data="", recorded_at=""),
    Message: new_rows.message(workflow_id="", run="", kind="", payload="", visible_at="", created_at=""),
    OutboxRow: new_rows.outbox_row(
        column, workflow_id="", run="", ordinal="", activity="", visible_after="", created_at=""
    ),
    WorkItem: new_rows.work_item(row="r", single="", locked_until=""),
}


def is_needed(field: Field[object, object]) -> bool:
    """Whether the database has no value of its own for it."""
    made_there = isinstance(field, AutoField | BigAutoField)
    return not (made_there or field.null or field.db_default is not NOT_PROVIDED)


@pytest.mark.parametrize("model", ROWS, ids=lambda model: model.__name__)
def test_a_new_row_has_every_column_that_its_table_needs_and_no_other(model: type[Model]) -> None:
    columns = {field.column: field for field in model._meta.concrete_fields}
    assert ROWS[model].keys() <= columns.keys()
    assert {name for name, field in columns.items() if is_needed(field)} <= ROWS[model].keys()


def test_no_other_module_lists_the_columns_of_a_new_row() -> None:
    """Two lists come apart: a column that is added to one of them is missing in the other."""
    tables = "|".join(re.escape(model._meta.db_table) for model in ROWS)
    lists = re.compile(rf"INSERT\s+INTO\s+(?:{tables})\b")
    (folder,) = durable.store.__path__
    found = [path.name for path in Path(folder).rglob("*.py") if lists.search(path.read_text("utf-8"))]
    assert found == []


def test_values_come_from_the_columns_of_a_source_or_from_parameters() -> None:
    row = {"id": column("id"), "at": "now()"}
    assert insert("event", row, "given") == "INSERT INTO durable_event (id, at) SELECT id, now() FROM given"
    assert insert("event", {"id": named("id")}) == "INSERT INTO durable_event (id) VALUES (%(id)s)"
