"""Django's `flush`, as `TransactionTestCase` calls it after each test, without what costs most of it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management.color import no_style
from django.core.management.commands import flush
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

KEPT = (ContentType, Permission)
"""What signals write after each migration, one query after the other, and what no test is about."""

LARGEST = 1_000_000
"""Bytes of all tables on PostgreSQL. Beyond them tables are made anew: deleted rows take room until then."""

_written: dict[str, list[Any]] = {}
"""What a database had of `KEPT` after the last flush of Django's own."""
_emptied: dict[str, list[str]] = {}
"""The other tables of a database."""


class Command(flush.Command):
    """Empties all tables but content types and permissions. A test that has changed those has them made anew."""

    def handle(self, **options: Any) -> None:
        """Do that, or what Django does where this database is new to the process, or somebody is asked."""
        connection = connections[options["database"]]
        name = f"{connection.vendor} {connection.settings_dict['NAME']}"
        if options["interactive"] or options["inhibit_post_migrate"]:
            super().handle(**options)
        elif name in _written and _written[name] == _kept(connection.alias):
            _empty(connection, _emptied[name])
        else:
            super().handle(**options)
            tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
            kept = {model._meta.db_table for model in KEPT}
            if kept <= set(tables):
                _written[name], _emptied[name] = _kept(connection.alias), sorted(set(tables) - kept)


def _kept(alias: str) -> list[Any]:
    return [list(model._base_manager.using(alias).order_by("pk").values_list()) for model in KEPT]


def _empty(connection: BaseDatabaseWrapper, tables: list[str]) -> None:
    """In one transaction, which waits for all others that have one of these tables."""
    if connection.vendor != "postgresql" or _size(connection, tables) > LARGEST:
        statements = connection.ops.sql_flush(no_style(), tables, reset_sequences=False, allow_cascade=False)
        connection.ops.execute_sql_flush(statements)
        return
    names = [connection.ops.quote_name(table) for table in tables]
    deletions = ", ".join(f"of_{number} AS (DELETE FROM {name})" for number, name in enumerate(names))
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(names)} IN ACCESS EXCLUSIVE MODE")
        cursor.execute(f"WITH {deletions} SELECT 1")  # one statement, since some tests have the driver prepare each


def _size(connection: BaseDatabaseWrapper, tables: list[str]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname = ANY(%s)", [tables]
        )
        return int(cursor.fetchone()[0])
