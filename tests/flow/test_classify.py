"""Which errors are worth another try, and on which connection: every row of the table of specification A3."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connection, transaction

from durable.flow.transactions.faults import Fault, classify
from tests.flow import cases
from tests.flow.driver import Driver
from tests.flow.state import locked_elsewhere, raise_state, run
from tests.ledger.models import Entry
from tests.waiting import PATIENCE, Gate

pytestmark = pytest.mark.django_db
own_connection = pytest.mark.django_db(transaction=True)
postgresql = pytest.mark.skipif("sqlite" in connection.settings_dict["ENGINE"], reason="about PostgreSQL")
sqlite = pytest.mark.skipif("sqlite" not in connection.settings_dict["ENGINE"], reason="about SQLite")

RETRYABLE = ["40001", "40P01", "55P03", "57014", "53000", "53100", "53200", "53300", "53400"]
NEW_CONNECTION = [
    *("57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04", "25006"),
    *("08000", "08001", "08003", "08004", "08006", "08007", "08P01"),
]
PERMANENT = [
    *("23505", "23514", "23503", "23502", "22001", "22P02", "22003", "42601", "42P01", "42501", "25P02", "25001"),
    *("0A000", "XX000", "P0001", "3D000", "54000", "55000", "57000", "58000"),
]


def error_of(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("There was no error.")


def refuse() -> None:
    """The server is not there."""
    psycopg.connect(host="/nowhere", dbname="durable")


def wrapped(kind: type[Exception], cause: Exception) -> Exception:
    error = kind(str(cause))
    error.__cause__ = cause
    return error


@postgresql
@pytest.mark.parametrize(
    ("state", "fault"),
    [
        *((state, Fault.RETRYABLE) for state in RETRYABLE),
        *((state, Fault.NEW_CONNECTION) for state in NEW_CONNECTION),
        *((state, Fault.PERMANENT) for state in PERMANENT),
    ],
)
def test_every_sqlstate_of_the_table_has_its_class(state: str, fault: Fault) -> None:
    """Real errors of the server, through Django."""
    with transaction.atomic():
        error = error_of(lambda: raise_state(state))
        transaction.set_rollback(True)
    assert isinstance(error, DatabaseError)
    assert classify(error) is fault


@postgresql
@own_connection
def test_a_session_that_was_ended_and_a_closed_connection_want_a_new_one() -> None:
    """First the server's word, then the driver's, which comes without a SQLSTATE."""
    ended = error_of(lambda: run("SELECT pg_terminate_backend(pg_backend_pid())"))
    closed = error_of(lambda: run("SELECT 1"))
    assert (classify(ended), classify(closed)) == (Fault.NEW_CONNECTION, Fault.NEW_CONNECTION)
    connection.close()


@postgresql
def test_a_refused_connection_wants_a_new_one() -> None:
    """The driver's own error, before Django has wrapped it."""
    assert classify(error_of(refuse)) is Fault.NEW_CONNECTION


@postgresql
@own_connection
def test_a_lock_that_does_not_come_is_retryable(driver: Driver) -> None:
    """Really waited for, and given up."""
    workflow_id = driver.start(cases.nothing)

    def impatient() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '10ms'")
            cursor.execute("SELECT 1 FROM durable_workflow WHERE id = %s FOR UPDATE", [workflow_id])

    with locked_elsewhere("durable_workflow", "id", workflow_id):
        assert classify(error_of(impatient)) is Fault.RETRYABLE


@sqlite
@own_connection
def test_a_busy_sqlite_is_retryable(second_connection: Callable[..., Future[Any]], gate: Gate) -> None:
    """Somebody else writes: at BEGIN, and at the first write of a transaction that had begun by reading."""
    run("PRAGMA busy_timeout = 0")

    def write() -> None:
        with transaction.atomic():
            Entry.objects.create(label="theirs")
            gate.pass_through()

    run("BEGIN DEFERRED")
    run("SELECT count(*) FROM ledger_entry")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM ledger_entry")
        cursor.fetchall()
    writing = second_connection(write)
    gate.wait_for_arrival()
    locked = error_of(lambda: run("INSERT INTO ledger_entry (label, amount, note) VALUES ('mine', 0, '')"))
    gate.open()
    writing.result(PATIENCE)
    snapshot = error_of(lambda: run("INSERT INTO ledger_entry (label, amount, note) VALUES ('mine', 0, '')"))
    connection.close()
    assert classify(locked) is Fault.RETRYABLE
    assert getattr(snapshot.__cause__, "sqlite_errorname", "") == "SQLITE_BUSY_SNAPSHOT"
    assert classify(snapshot) is Fault.RETRYABLE


@sqlite
@own_connection
def test_a_locked_table_is_retryable() -> None:
    """A cursor of the same connection is still reading it."""
    run("CREATE TABLE scratch (n)")
    run("INSERT INTO scratch VALUES (1), (2)")
    assert connection.connection is not None
    reading = connection.connection.execute("SELECT n FROM scratch")
    reading.fetchone()
    error = error_of(lambda: run("DROP TABLE scratch"))
    reading.close()
    run("DROP TABLE scratch")
    assert "database table is locked" in str(error)
    assert classify(error) is Fault.RETRYABLE


@pytest.mark.parametrize(
    "text", ["database is locked", "database table is locked: durable_event", "database is deadlocked"]
)
def test_the_texts_of_sqlite_are_known_without_a_code(text: str) -> None:
    """Older drivers give none."""
    assert classify(wrapped(OperationalError, sqlite3.OperationalError(text))) is Fault.RETRYABLE


def test_a_closed_sqlite_connection_wants_a_new_one() -> None:
    """Raised by the driver as an error of the program."""
    closed = sqlite3.connect(":memory:")
    closed.close()
    assert classify(error_of(lambda: closed.execute("SELECT 1"))) is Fault.NEW_CONNECTION


def test_an_interface_error_wants_a_new_connection() -> None:
    """Django's own, for a connection that it knows to be closed."""
    assert classify(InterfaceError("connection already closed")) is Fault.NEW_CONNECTION


@pytest.mark.parametrize(
    "error",
    [
        ValueError("database is locked"),
        RuntimeError("connection lost"),
        ConnectionResetError("by peer"),
        IntegrityError("duplicate key"),
        wrapped(OperationalError, sqlite3.OperationalError("no such table: durable_event")),
        wrapped(IntegrityError, sqlite3.IntegrityError("UNIQUE constraint failed")),
        wrapped(DatabaseError, sqlite3.DatabaseError("file is not a database")),
    ],
    ids=repr,
)
def test_what_is_not_known_is_permanent(error: Exception) -> None:
    """Words alone do not make an error of the database."""
    assert classify(error) is Fault.PERMANENT


@sqlite
@own_connection
def test_a_real_unique_violation_on_sqlite_is_permanent() -> None:
    """Nothing about waiting would cure it."""
    Entry.objects.create(id=1, label="first")
    insert = "INSERT INTO ledger_entry (id, label, amount, note) VALUES (1, 'second', 0, '')"
    assert classify(error_of(lambda: run(insert))) is Fault.PERMANENT
