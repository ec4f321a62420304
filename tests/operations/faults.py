"""A database that fails where a test says so."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any
from unittest import mock

from django.db import connection


class Fault(Enum):
    """What goes wrong. The first is nobody's fault but ours; the others pass."""

    BROKEN = "an error that no repetition cures"
    BUSY = "a deadlock, a locked database"
    LOST = "the connection is gone"


def fail(fault: Fault) -> None:
    """Raise what Django raises when the driver does."""
    with connection.wrap_database_errors:
        raise _driver_error(fault)


def _driver_error(fault: Fault) -> Exception:
    if connection.vendor == "sqlite":
        return {
            Fault.BROKEN: sqlite3.IntegrityError("UNIQUE constraint failed"),
            Fault.BUSY: sqlite3.OperationalError("database is locked"),
            Fault.LOST: sqlite3.ProgrammingError("Cannot operate on a closed database."),
        }[fault]
    from psycopg import OperationalError, errors

    return {
        Fault.BROKEN: errors.UniqueViolation("duplicate key value violates unique constraint"),
        Fault.BUSY: errors.DeadlockDetected("deadlock detected"),
        Fault.LOST: OperationalError("server closed the connection unexpectedly"),
    }[fault]


class Statements:
    """The statements of this thread's connection, counted from 1; `hit` says which of them were failed."""

    def __init__(self, fails: Callable[[int], bool], fault: Fault) -> None:
        self.count = 0
        self.hit: list[str] = []
        self._fails = fails
        self._fault = fault

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        self.count += 1
        if self._fails(self.count):
            self.hit.append(sql)
            fail(self._fault)
        return execute(sql, params, many, context)


@contextmanager
def failing(fails: Callable[[int], bool], fault: Fault = Fault.BROKEN) -> Iterator[Statements]:
    """Inside the block the statements whose number `fails` fail before they reach the database."""
    statements = Statements(fails, fault)
    with connection.execute_wrapper(statements):
        yield statements


class Moment(Enum):
    """When a commit fails."""

    BEFORE = "nothing was committed"
    AFTER = "everything was committed"


@contextmanager
def commits(fails: Callable[[int], bool], moment: Moment, fault: Fault = Fault.LOST) -> Iterator[list[int]]:
    """Inside the block the commits whose number (from 1) `fails` fail; yields the numbers of those that did."""
    engine: Any = connection
    commit, failed, count = engine._commit, [], 0

    def patched() -> None:
        nonlocal count
        count += 1
        if not fails(count):
            commit()
            return
        failed.append(count)
        if moment is Moment.AFTER:
            commit()
        fail(fault)

    with mock.patch.object(connection, "_commit", patched):
        yield failed
