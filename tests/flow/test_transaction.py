"""Whose transaction it is: our own, repeated as a whole, or the caller's, joined and never repeated."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from unittest.mock import patch

import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test.utils import CaptureQueriesContext

from durable.errors import TransactionOpen
from durable.flow.transactions import transaction as own
from durable.flow.transactions.faults import Fault, classify
from durable.flow.transactions.transaction import Patience, Waits
from tests.flow.state import raise_state, run, undone
from tests.ledger.models import Entry
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)
postgresql = pytest.mark.skipif("sqlite" in connection.settings_dict["ENGINE"], reason="about PostgreSQL")
sqlite = pytest.mark.skipif("sqlite" not in connection.settings_dict["ENGINE"], reason="about SQLite")


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(own, "_FIRST_WAIT", 0)  # no waits between the tries of a transaction


class Body:
    """Writes one entry, then fails as often as told."""

    def __init__(self, *errors: Callable[[], object]) -> None:
        self.errors = list(errors)
        self.sessions: list[object] = []

    def __call__(self, wrapper: BaseDatabaseWrapper) -> str:
        wrapper.ensure_connection()
        self.sessions.append(wrapper.connection)
        Entry.objects.create(label=f"try {len(self.sessions)}")
        if self.errors:
            self.errors.pop(0)()
        return "done"


def _fail(error: Exception) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


def _busy() -> object:
    raise OperationalError("database is locked") from sqlite3.OperationalError("database is locked")


BUSY = _busy
LOST = _fail(OperationalError("server closed the connection unexpectedly"))
WRONG = _fail(IntegrityError("duplicate key"))


def labels() -> list[str]:
    return list(Entry.objects.values_list("label", flat=True))


def test_a_retryable_error_repeats_the_whole_body_on_the_same_connection() -> None:
    """Faults D3: what the failed tries wrote is gone."""
    body = Body(BUSY, BUSY)
    assert own.own(body) == "done"
    assert labels() == ["try 3"]
    assert len(set(map(id, body.sessions))) == 1


def test_a_lost_connection_is_closed_and_the_body_repeated_on_a_new_one() -> None:
    """Rolling back on it would fail."""
    body = Body(LOST)
    assert own.own(body) == "done"
    assert labels() == ["try 2"]
    assert body.sessions[0] is not body.sessions[1]


@postgresql
def test_a_session_that_the_server_ended_is_replaced() -> None:
    """Faults C1, C8: really ended, and a read-only node's connection is not kept."""
    for end in (lambda: run("SELECT pg_terminate_backend(pg_backend_pid())"), lambda: raise_state("25006")):
        body = Body(end)
        assert own.own(body) == "done"
        assert body.sessions[0] is not body.sessions[1]
    assert labels() == ["try 2", "try 2"]


@postgresql
def test_a_session_that_was_ended_while_idle_is_replaced(second_connection: Callable[..., Future[Any]]) -> None:
    """Faults C4: nobody had to look at it before."""
    connection.ensure_connection()
    process = connection.connection.info.backend_pid
    second_connection(run, f"SELECT pg_terminate_backend({process})").result(PATIENCE)
    assert own.own(Body()) == "done"


def test_after_five_tries_the_error_is_raised() -> None:
    """Bounded; and nothing was written."""
    body = Body(*[BUSY] * 9)
    with pytest.raises(OperationalError, match="database is locked"):
        own.own(body)
    assert (len(body.sessions), labels()) == (5, [])


def test_a_permanent_error_is_raised_at_once() -> None:
    """So is one of the body's own."""
    for error, kind in ((WRONG, IntegrityError), (_fail(LookupError()), LookupError)):
        body = Body(error)
        with pytest.raises(kind):
            own.own(body)
        assert (len(body.sessions), labels()) == (1, [])


def test_without_patience_there_is_one_try_and_a_lost_connection_is_closed_all_the_same() -> None:
    """The caller has a schedule of its own, and finds a healthy connection for its next try."""
    body = Body(LOST)
    with pytest.raises(OperationalError):
        own.own(body, patience=Patience.ONCE)
    assert len(body.sessions) == 1
    assert connection.connection is None
    assert own.own(Body(), patience=Patience.ONCE) == "done"


def test_an_own_transaction_never_nests() -> None:
    """Its answer would not be committed when it is given."""
    body = Body()
    with transaction.atomic(), pytest.raises(TransactionOpen):
        own.own(body)
    assert body.sessions == []


@sqlite
@pytest.mark.parametrize("mode", ["DEFERRED", None, "EXCLUSIVE"])
def test_an_own_transaction_on_sqlite_begins_immediate_whatever_the_host_says(mode: str | None) -> None:
    """Faults Q3: and the host's own mode is back afterwards, also behind an error."""
    wrapper: Any = own.engine_connection()
    wrapper.ensure_connection()
    before = wrapper.transaction_mode
    try:
        wrapper.transaction_mode = mode
        with CaptureQueriesContext(connection) as captured:
            own.own(Body())
            with pytest.raises(IntegrityError):
                own.own(Body(WRONG))
        begun = [q["sql"] for q in captured if q["sql"].startswith("BEGIN")]
        assert begun == ["BEGIN IMMEDIATE"] * 2
        assert wrapper.transaction_mode == mode
    finally:
        wrapper.transaction_mode = before


@sqlite
def test_the_first_own_transaction_of_a_thread_begins_immediate_too(
    second_connection: Callable[..., Future[Any]],
) -> None:
    """Its connection is not open yet, and connecting sets the host's mode."""

    def first() -> list[str]:
        # Every thread's connection has the same dict of settings.
        with (
            patch.dict(connection.settings_dict["OPTIONS"], transaction_mode="DEFERRED"),
            CaptureQueriesContext(connection) as captured,
        ):
            connection.close()
            own.own(Body())
        connection.close()
        return [q["sql"] for q in captured if q["sql"].startswith("BEGIN")]

    assert second_connection(first).result(PATIENCE) == ["BEGIN IMMEDIATE"]


@postgresql
def test_lock_waits_are_bounded_inside_and_only_inside() -> None:
    """Faults J7: no session state is left behind; and later, when the body says so."""

    def timeout(wrapper: BaseDatabaseWrapper) -> str:
        with wrapper.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            return str(cursor.fetchone()[0])

    def bounded_later(wrapper: BaseDatabaseWrapper) -> tuple[str, str]:
        before = timeout(wrapper)
        own.bound_waits(wrapper)
        return before, timeout(wrapper)

    assert own.own(timeout) == "1s"
    assert own.own(bounded_later, waits=Waits.LATER) == ("0", "1s")
    assert timeout(connection) == "0"


@pytest.mark.parametrize("joined", [own.joined, own.joined_steps], ids=["one statement", "several"])
@pytest.mark.parametrize("error", [BUSY, LOST, WRONG], ids=["busy", "lost", "wrong"])
def test_a_joined_body_is_never_repeated(joined: Any, error: Callable[[], object]) -> None:
    """The error passes to the caller, untouched: only the caller knows what else its transaction holds."""
    body = Body(error)
    with pytest.raises(DatabaseError) as caught:
        joined(body)
    assert len(body.sessions) == 1
    assert "duplicate" in str(caught.value) or classify(caught.value) is not Fault.PERMANENT
    connection.close()


def test_a_joined_body_goes_with_the_callers_rollback() -> None:
    """And without a transaction of the caller's it commits by itself."""
    with undone():
        own.joined(Body())
        own.joined_steps(Body())
    assert labels() == []
    own.joined(Body())
    own.joined_steps(Body())
    assert labels() == ["try 1", "try 1"]


def test_a_caller_who_catches_the_error_of_several_steps_keeps_none_of_them() -> None:
    """Its own work is untouched."""
    with transaction.atomic():
        Entry.objects.create(label="the caller's")
        with pytest.raises(IntegrityError):
            own.joined_steps(Body(WRONG))
    assert labels() == ["the caller's"]


def test_a_read_is_repeated_once_on_a_new_connection() -> None:
    """Any other error, and a second one, is the caller's."""
    reads = Body(LOST)
    assert own.reading(reads) == "done"
    assert reads.sessions[0] is not reads.sessions[1]
    with pytest.raises(OperationalError):
        own.reading(Body(LOST, LOST))
    with pytest.raises(OperationalError):
        own.reading(Body(BUSY))
    connection.close()
