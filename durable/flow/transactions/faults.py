"""Which errors are retried. Specification A3 is the table; every retry in the product uses `classify`."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Any

from django.db import Error as DjangoDatabaseError
from django.db import InterfaceError as DjangoInterfaceError
from django.db import OperationalError as DjangoOperationalError


class Fault(Enum):
    """What kind of error an exception is."""

    NEW_CONNECTION = "retryable on a new connection"
    RETRYABLE = "retryable"
    PERMANENT = "permanent"


PASSING = frozenset({"40001", "40P01", "55P03", "57014"})
"""SQLSTATEs of errors that concern the rows of one transaction, so that another transaction may not meet them."""

_SESSION_ENDED = frozenset({"57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04", "25006"})
_LOCK_NOT_AVAILABLE = "55P03"
_LAST_WORDS = frozenset({"FATAL", "PANIC"})
_FORBIDDEN = frozenset({"42P01", "42501", "3F000", "25006"})
_SQLITE_BUSY, _SQLITE_LOCKED, _SQLITE_READONLY, _SQLITE_CANTOPEN = 5, 6, 8, 14
_SQLITE_TEXTS = (
    "database is locked",
    "database table is locked",
    "database is deadlocked",
    "database schema is locked",
)
_DRIVERS = ("psycopg", "psycopg2", "sqlite3")


def classify(error: BaseException) -> Fault:
    """Returns whether the transaction that ended with `error` is worth repeating, and on which connection.

    Drivers' errors are classified by their classes, subclasses included, whether Django has wrapped them or not. If a
    connection is closed, lost or refused, that decides, whatever SQLSTATE came with it. Unknown errors are permanent,
    and so is an error of a handler that raises when it is inspected.
    """
    try:
        return _classified(error)
    except BaseException:  # noqa: BLE001 - it may be any error of a handler's, and its attributes the user's code
        return Fault.PERMANENT


def _classified(error: BaseException) -> Fault:
    driver, original = origin(error)
    if isinstance(error, DjangoInterfaceError) or (driver and isinstance(original, driver.InterfaceError)):
        return Fault.NEW_CONNECTION
    if driver is None:  # Django's own error, or none of a database
        return Fault.NEW_CONNECTION if isinstance(original, DjangoOperationalError) else Fault.PERMANENT
    return (
        _classify_sqlite(driver, original)
        if driver is sys.modules.get("sqlite3")
        else _classify_server(driver, original)
    )


def _classify_server(driver: Any, error: BaseException) -> Fault:
    state = sqlstate(error)
    if state is None:
        # An operational error without a SQLSTATE did not come from the server: the connection was refused or lost, did
        # not come in time, or there was none left in the pool.
        return Fault.NEW_CONNECTION if isinstance(error, driver.OperationalError) else Fault.PERMANENT
    severity = getattr(getattr(error, "diag", None), "severity_nonlocalized", None)
    if severity in _LAST_WORDS or state in _SESSION_ENDED or state.startswith("08"):
        return Fault.NEW_CONNECTION  # the server has ended the session with it, or said that it cannot be used
    return Fault.RETRYABLE if state in PASSING or state.startswith("53") else Fault.PERMANENT


def origin(error: BaseException) -> tuple[Any, BaseException]:
    """Returns the driver (its module, None if it is not a driver's error) and the most specific error: the driver's own
    if Django has wrapped it.
    """
    if driver := _driver_of(error):
        return driver, error  # the driver's own cause, such as an OSError, is less specific
    cause = error.__cause__
    if isinstance(error, DjangoDatabaseError) and cause is not None and (driver := _driver_of(cause)):
        return driver, cause
    return None, error


def sqlstate(error: BaseException) -> str | None:
    """Returns the SQLSTATE of a driver's error; psycopg2 calls it `pgcode`."""
    state: str | None = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state


def meets_lock(error: BaseException) -> bool:
    """Whether a lock was not granted in time, which says nothing about the server."""
    try:
        return sqlstate(origin(error)[1]) == _LOCK_NOT_AVAILABLE
    except BaseException:  # noqa: BLE001 - as in `classify`
        return False


def forbids_writing(error: BaseException) -> bool:
    """Whether the session may not write: because of its role or its mode, or because it does not find the table."""
    original = origin(error)[1]
    code: int | None = getattr(original, "sqlite_errorcode", None)
    return sqlstate(original) in _FORBIDDEN or (code is not None and code & 0xFF == _SQLITE_READONLY)


def is_empty_pool(error: BaseException) -> bool:
    """Whether the error says that a connection pool was exhausted."""
    pool: Any = sys.modules.get("psycopg_pool")
    return pool is not None and isinstance(origin(error)[1], pool.PoolTimeout | pool.TooManyRequests)


def _driver_of(error: BaseException) -> Any:
    """Returns the module of the driver that raises errors of this class. An error can only come from one that is
    loaded, so nothing is imported here.
    """
    for name in _DRIVERS:
        driver: Any = sys.modules.get(name)
        if driver is not None and isinstance(error, getattr(driver, "Error", ())):
            return driver
    return None


def _classify_sqlite(driver: Any, error: BaseException) -> Fault:
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in (_SQLITE_BUSY, _SQLITE_LOCKED):
        return Fault.RETRYABLE
    if code == _SQLITE_CANTOPEN:  # its way of refusing a connection: no descriptors left, a disk that is not there yet
        return Fault.NEW_CONNECTION
    if isinstance(error, driver.ProgrammingError) and "closed database" in str(error):
        return Fault.NEW_CONNECTION
    if any(text in str(error) for text in _SQLITE_TEXTS):
        return Fault.RETRYABLE
    return Fault.PERMANENT
