"""Which rows refer to which: nothing that lasts refers to a worker, and the database is asked to check no reference."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import connection

from durable.models import Worker

pytestmark = pytest.mark.django_db


def test_nothing_refers_to_a_workers_row() -> None:
    """Faults G3: to forget a worker is to delete one row, however many rows it has worked on."""
    referring = [
        f"{model.__name__}.{field.name}"
        for model in apps.get_app_config("durable").get_models()
        for field in model._meta.get_fields()
        if field.related_model is Worker
    ]
    assert referring == []
    assert [relation.name for relation in Worker._meta.related_objects] == []


def test_the_database_holds_no_foreign_key_of_the_engine() -> None:
    """Each would cost a trigger and a row lock per insert, and a delete would look through everything."""
    tables = [model._meta.db_table for model in apps.get_app_config("durable").get_models()]
    assert "durable_outboxrow" in tables
    with connection.cursor() as cursor:
        found = {table: dict(connection.introspection.get_relations(cursor, table)) for table in tables}
    assert {table: relations for table, relations in found.items() if relations} == {}
