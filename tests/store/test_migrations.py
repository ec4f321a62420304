"""Migrations are only added, and workers of the version before go on inserting beside each of them."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from durable.models import Event, Message, OutboxRow, Worker, Workflow, WorkItem

FIRST = "0001_initial"
COMES_TO_LIFE_LATER = {
    Workflow: (
        "history_seq", "parent_run", "parent_ordinal", "parent_close", "children", "patches", "progress", "status_data",
        "waits_for", "terminated", "history_bytes", "error_class", "error_group", "parent",
    ),
    OutboxRow: ("lane", "waiting", "node"),
    WorkItem: ("queue", "begun_at"),
}  # fmt: skip


def of_the_app() -> dict[str, migrations.Migration]:
    loader = MigrationLoader(connection)
    return {name: found for (app, name), found in sorted(loader.disk_migrations.items()) if app == "durable"}


def needs_a_value(field: Any) -> bool:
    """Whether an INSERT that does not name the column is refused."""
    return not field.null and not field.has_db_default()


def refused(operations: Sequence[Operation], before: ProjectState | None = None) -> list[str]:
    """The columns with which a migration would stop the INSERTs of workers of the version before. These workers fill
    those that needed a value in the state `before` it.
    """
    changed = [one for one in operations if isinstance(one, migrations.AddField | migrations.AlterField)]
    needing = [one for one in changed if needs_a_value(one.field)]
    return [f"{one.model_name}.{one.name}" for one in needing if before is None or not needed_one(one, before)]


def needed_one(changed: migrations.AddField | migrations.AlterField, before: ProjectState) -> bool:
    """Whether the column was there, and needed a value."""
    fields = before.models["durable", changed.model_name_lower].fields
    return changed.name in fields and needs_a_value(fields[changed.name])


def state_before(migration: migrations.Migration) -> ProjectState:
    """The models as the migration finds them."""
    return MigrationLoader(connection).project_state(("durable", migration.name), at_end=False)


@pytest.mark.django_db
def test_the_first_migration_makes_every_table_and_every_later_column_fills_itself() -> None:
    first, *later = of_the_app().items()
    assert first[0] == FIRST
    made = {one.name for one in first[1].operations if isinstance(one, migrations.CreateModel)}
    assert {model.__name__ for model in (Workflow, Event, OutboxRow, WorkItem, Message, Worker)} <= made
    assert not any(found.initial for _, found in later)
    assert {
        name: problems for name, found in later if (problems := refused(found.operations, state_before(found)))
    } == {}


def test_a_column_that_old_workers_do_not_fill_is_refused() -> None:
    """What the test above looks for, in a migration that has it."""
    added = [
        migrations.AddField("workflow", "bare", models.CharField(max_length=9, default="")),
        migrations.AddField("workflow", "filled", models.CharField(max_length=9, db_default="")),
        migrations.AddField("workflow", "open", models.CharField(max_length=9, null=True)),
        migrations.AlterField("outboxrow", "tightened", models.IntegerField()),
    ]
    assert refused(added) == ["workflow.bare", "outboxrow.tightened"]


def test_columns_that_come_to_life_later_need_no_value() -> None:
    for model, names in COMES_TO_LIFE_LATER.items():
        assert [name for name in names if needs_a_value(model._meta.get_field(name))] == []


@pytest.mark.django_db
def test_the_models_are_what_the_migrations_make() -> None:
    call_command("makemigrations", "durable", check=True, dry_run=True, stdout=StringIO())
