"""The benchmark's own database."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings as django_settings
from django.db import connections

from durable.bench import work
from durable.bench.scratch import chosen, scratch
from durable.conf import settings

pytestmark = pytest.mark.django_db(transaction=True)


def _workflows() -> int:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM durable_workflow")
        count: int = cursor.fetchone()[0]
    return count


def _exists(name: str) -> int:
    if connections["default"].vendor == "sqlite":
        return Path(name).parent.exists()
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_database WHERE datname = %s", [name])
        count: int = cursor.fetchone()[0]
    return count


def test_the_alias_means_the_scratch_database_inside_and_the_projects_own_again_afterwards() -> None:
    before = connections["default"].settings_dict["NAME"]
    with scratch("default") as name:
        assert connections["default"].settings_dict["NAME"] == name != before
        work.nothing.enqueue(1)
        assert _workflows() == 1
    assert connections["default"].settings_dict["NAME"] == before
    assert _workflows() == 0
    assert not _exists(name)


def test_a_scratch_database_is_removed_when_the_measurement_fails() -> None:
    names = []

    def fail() -> None:
        with scratch("default") as name:
            names.append(name)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    [name] = names
    assert not _exists(name)
    assert _workflows() == 0


def test_the_scratch_database_has_the_tables_and_indexes_of_the_projects() -> None:
    """By their names, or, where those are the database's (and are kept when a table is renamed), by what they are."""
    models = [model for model in apps.get_app_config("durable").get_models() if not model._meta.proxy]
    tables = [model._meta.db_table for model in models]
    named = {one.name for model in models for one in (*model._meta.indexes, *model._meta.constraints)}

    def shape() -> dict[str, set[str]]:
        connection = connections["default"]
        with connection.cursor() as cursor:
            return {
                table: {
                    name if name in named else f"{found['columns']} {found['unique']} {found['foreign_key']}"
                    for name, found in connection.introspection.get_constraints(cursor, table).items()
                    if "durable_" in name
                }
                for table in tables
            }

    ours = shape()
    with scratch("default"):
        theirs = shape()
    assert {table: sorted(names) for table, names in theirs.items()} == {
        table: sorted(names) for table, names in ours.items()
    }


def test_the_debug_mode_is_off_inside_and_back_afterwards(settings) -> None:
    settings.DEBUG = True
    with scratch("default"):
        assert django_settings.DEBUG is False
    assert django_settings.DEBUG is True


def test_chosen_settings_hold_inside_the_block_only() -> None:
    before = settings.concurrency
    with chosen(CONCURRENCY=before + 1):
        assert settings.concurrency == before + 1
    assert settings.concurrency == before
