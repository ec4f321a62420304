"""What is wrong with a database that answers: missing tables, permissions, limits. Each has its own name."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import DataError, InterfaceError, OperationalError, ProgrammingError, connection

from durable.flow.transactions.troubles import Trouble, trouble_of
from durable.models import OutboxRow
from durable.worker.loops.acks import Acks
from durable.worker.threads.loop import Loop
from tests.flow.state import raise_state
from tests.management.ran import Ran
from tests.settings import VENDOR
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant
from tests.worker.plant import activities
from tests.worker.threads import running, until

pytestmark = pytest.mark.django_db(transaction=True)
on_postgresql = pytest.mark.skipif(VENDOR != "postgresql", reason="about SQLSTATEs")

TABLE = OutboxRow._meta.db_table
MIGRATE = "Run `manage.py migrate`"


@contextmanager
def missing_table() -> Any:
    """The database as it is before a migration."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {TABLE} RENAME TO to_be_made")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE to_be_made RENAME TO {TABLE}")


def error_of(call: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def execute(sql: str) -> Exception:
    return error_of(lambda: connection.cursor().execute(sql))


def test_a_worker_whose_tables_are_missing_says_migrate_and_goes_on_once_they_are_there(
    plant: Plant, caplog: pytest.LogCaptureFixture
) -> None:
    """It said "cannot reach the database"."""
    with running() as (worker, _):
        until(worker.ready.is_set)
        pulse = next(loop.pulse for loop in worker.loops if loop.pulse.name == "claim")
        with missing_table():
            worker.ring()
            until(lambda: pulse.trouble != "")
            complaint = pulse.complaint(stuck_after=PATIENCE)
        workflow_id = plant.enqueue(activities.write_once, "after the migration")
        until(lambda: plant.look(workflow_id).closed_at is not None)
        assert pulse.complaint(stuck_after=PATIENCE) == ""
    assert complaint.startswith("the claim loop does not find its tables or columns in the database: ")
    assert TABLE in complaint
    assert MIGRATE in complaint
    [line] = [r for r in caplog.records if r.msg == "store_refuses" and r.loop == "claim"]  # type: ignore[attr-defined]
    assert (line.levelname, line.trouble) == ("ERROR", "schema")  # type: ignore[attr-defined]
    assert MIGRATE in line.cure  # type: ignore[attr-defined]
    assert not [r for r in caplog.records if r.msg == "store_trouble"]


def test_a_command_whose_tables_are_missing_says_migrate() -> None:
    with missing_table():
        health = Ran("health", "--json")
    assert (health.code, health.data["error"]["code"]) == (3, "store_unavailable")
    assert "The command does not find its tables or columns in the database: " in health.said
    assert MIGRATE in health.said
    assert "not available" not in health.said


def test_each_kind_of_trouble_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A server that comes back without the tables is another trouble than one that is away."""
    errors = [OperationalError("refused")] * 2 + [ProgrammingError("no such thing")] * 2

    def step() -> float:
        if errors:
            raise errors.pop(0)
        return 60.0

    loop = Loop("tested", step, prepare=lambda: None)
    with caplog.at_level("INFO", logger="durable.worker"):
        loop.start()
        until(lambda: not errors and loop.pulse.trouble == "")
        loop.stop()
        loop.join(PATIENCE)
    said = [r.msg for r in caplog.records if r.msg in {"store_trouble", "store_refuses", "store_answers_again"}]
    assert said == ["store_trouble", "store_refuses", "store_answers_again"]


def test_the_acknowledging_loop_says_it_too(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as (worker, _):
        until(worker.ready.is_set)
        acks: Acks = worker.acks

        def refused(endings: object) -> object:
            raise error

        error = execute("SELECT nothing_of_the_kind FROM " + TABLE)
        monkeypatch.setattr("durable.worker.loops.acks.acknowledge.acknowledge", refused)
        plant.enqueue(activities.add, 1, 2)
        until(lambda: acks.pulse.trouble != "")
        assert "the ack loop does not find its tables or columns in the database" in acks.pulse.complaint(
            stuck_after=PATIENCE
        )
        monkeypatch.undo()


def test_missing_tables_and_columns_are_known_on_both_databases() -> None:
    assert trouble_of(execute("SELECT 1 FROM nothing_of_the_kind")) is Trouble.SCHEMA
    assert trouble_of(execute(f"SELECT nothing_of_the_kind FROM {TABLE}")) is Trouble.SCHEMA
    assert trouble_of(execute(f"INSERT INTO {TABLE} (nothing_of_the_kind) VALUES (1)")) is Trouble.SCHEMA


def test_a_wrong_statement_is_not_a_missing_migration() -> None:
    assert trouble_of(execute("SELEKT 1")) is Trouble.REFUSED


@on_postgresql
@pytest.mark.parametrize(
    ("state", "trouble"),
    [
        ("42501", Trouble.FORBIDDEN),
        ("25006", Trouble.READ_ONLY),
        ("53100", Trouble.FULL),
        ("40P01", Trouble.BUSY),
        ("57014", Trouble.BUSY),
        ("23505", Trouble.REFUSED),
        ("22003", Trouble.REFUSED),
    ],
)
def test_a_state_of_postgresql_has_its_kind(state: str, trouble: Trouble) -> None:
    assert trouble_of(error_of(lambda: raise_state(state))) is trouble


@pytest.mark.parametrize(
    ("setup", "statement", "trouble"),
    [
        ("PRAGMA query_only = 1", "CREATE TABLE a (b)", Trouble.READ_ONLY),
        ("PRAGMA max_page_count = 1", "CREATE TABLE a (b)", Trouble.FULL),
    ],
)
def test_a_file_of_sqlite_that_cannot_be_written_is_not_away(setup: str, statement: str, trouble: Trouble) -> None:
    file = sqlite3.connect(":memory:")
    file.execute(setup)
    assert trouble_of(error_of(lambda: file.execute(statement))) is trouble
    file.close()


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (OperationalError("the connection was refused"), Trouble.AWAY),
        (InterfaceError("the connection is closed"), Trouble.AWAY),
        (psycopg.OperationalError("no route"), Trouble.AWAY),
        (DataError("value out of range"), Trouble.REFUSED),
        (ProgrammingError("no such thing"), Trouble.REFUSED),
    ],
    ids=str,
)
def test_only_a_lost_connection_is_called_out_of_reach(error: Exception, trouble: Trouble) -> None:
    assert trouble_of(error) is trouble
