"""The engine on an alias of its own: started, run, looked at. Not collected by name; see the package's docstring."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connections, transaction

from durable import activity, workflow
from durable.conf import settings
from tests.ledger.models import Entry

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "engine"])


@activity
def note(label: str) -> str:
    Entry.objects.create(label=label)
    return label.upper()


TEMPORARY = {
    "sqlite": "SELECT count(*) FROM sqlite_temp_master",
    "postgresql": "SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()",
}


@activity
def temporary_tables(made: int) -> int:
    """On the host's alias: make so many more, and return how many there are."""
    with connections["default"].cursor() as cursor:
        for number in range(made):
            cursor.execute(f"CREATE TEMP TABLE left_behind_{number} (n integer)")
        cursor.execute(TEMPORARY[connections["default"].vendor])
        found: int = cursor.fetchone()[0]
        return found


@workflow
async def noting(label: str) -> str:
    return await note.execute(label)


def test_the_engine_finds_its_alias_by_the_router() -> None:
    assert settings.database_alias == "engine"
    assert "durable_workflow" in connections["engine"].introspection.table_names()
    assert "durable_workflow" not in connections["default"].introspection.table_names()


def test_a_workflow_runs_to_its_end_and_its_activity_writes_to_the_hosts_alias() -> None:
    handle = noting.start("second alias")
    call_command("runworker", "--burst", stdout=StringIO(), stderr=StringIO())
    assert handle.result(timeout=0) == "SECOND ALIAS"
    assert [entry.label for entry in Entry.objects.all()] == ["second alias"]


def test_a_start_joins_the_transaction_of_the_engines_alias() -> None:
    with transaction.atomic(using="engine"):
        handle = noting.start("never")
        transaction.set_rollback(True, using="engine")
    with pytest.raises(LookupError):
        handle.status()


def test_sessions_of_the_hosts_alias_are_reset_between_handlers_too() -> None:
    """First seen by the thread in the handler that changes it, then once more when the thread knows it."""
    handles = [temporary_tables.enqueue(made) for made in (2, 0, 2, 0)]
    call_command("runworker", "--burst", "--concurrency", "1", stdout=StringIO(), stderr=StringIO())
    assert [handle.result(timeout=0) for handle in handles] == [2, 0, 2, 0]
