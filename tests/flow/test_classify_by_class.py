"""Every class of error that the drivers and the pool have, found by reflection, is judged as specification A3's table
says.
"""

from __future__ import annotations

import importlib
import pkgutil
import sqlite3
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import django.db
import psycopg
import psycopg2
import psycopg2.errors
import psycopg_pool
import pytest
from django.db import transaction as _transaction  # noqa: F401 - its subclasses of errors count, too
from django.db.utils import DatabaseErrorWrapper

from durable.flow.transactions.faults import Fault, classify, is_empty_pool

RETRYABLE = {"40001", "40P01", "55P03", "57014"}
NEW_CONNECTION = {"57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04", "25006"}
LOADED = (psycopg, psycopg_pool, psycopg2)


def below(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for each in kind.__subclasses__():
        yield from below(each)


def all_of(driver: Any) -> list[type[Exception]]:
    """Every error of a driver, of all modules that come with it and that can be imported here."""
    for package in LOADED:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            try:
                importlib.import_module(module.name)
            except ImportError:  # wants a package that is not part of the driver
                continue
    names = {package.__name__ for package in LOADED}
    found = {kind for kind in below(driver.Error) if kind.__module__.partition(".")[0] in names}
    return sorted(found, key=lambda kind: (kind.__module__, kind.__name__))


def made(kind: type[Exception]) -> tuple[Exception, str | None]:
    """An error of this class as the driver raises it, and its SQLSTATE."""
    error = kind("as if")
    state = getattr(kind, "sqlstate", None)
    if state is None and kind.__module__ == "psycopg2.errors":
        [state] = [state for state, named in psycopg2._psycopg.sqlstate_errors.items() if named is kind]
        error.__setstate__({"pgcode": state})
        assert error.pgcode == state  # type: ignore[attr-defined]
    return error, state


def wrapped(driver: Any, cause: Exception) -> Exception:
    """The same error as Django passes it on: by Django's own means."""
    wrapper: Any = SimpleNamespace(Database=driver, errors_occurred=False)
    try:
        with DatabaseErrorWrapper(wrapper):
            raise cause
    except Exception as error:
        return error


def meant(driver: Any, kind: type[Exception], state: str | None) -> Fault:
    """Specification A3, written down a second time."""
    if issubclass(kind, driver.InterfaceError):
        return Fault.NEW_CONNECTION
    if state is None:
        return Fault.NEW_CONNECTION if issubclass(kind, driver.OperationalError) else Fault.PERMANENT
    if state in NEW_CONNECTION or state[:2] == "08":
        return Fault.NEW_CONNECTION
    return Fault.RETRYABLE if state in RETRYABLE or state[:2] == "53" else Fault.PERMANENT


@pytest.mark.parametrize("driver", [psycopg, psycopg2], ids=lambda driver: driver.__name__)
def test_every_error_of_the_drivers_and_of_the_pool_is_judged_bare_and_wrapped(driver: Any) -> None:
    """Faults K2, K3."""
    kinds = all_of(driver)
    assert len(kinds) > 250
    wrong = []
    for kind in kinds:
        error, state = made(kind)
        expected = meant(driver, kind, state)
        judged = {form.__class__.__module__: classify(form) for form in (error, wrapped(driver, error))}
        wrong += [(kind, state, form, fault) for form, fault in judged.items() if fault is not expected]
    assert wrong == []


@pytest.mark.parametrize(
    "kind",
    [
        psycopg.errors.ConnectionTimeout,
        psycopg.errors.CancellationTimeout,
        psycopg.errors.TooManyConnections,
        psycopg_pool.PoolTimeout,
        psycopg_pool.PoolClosed,
        psycopg_pool.TooManyRequests,
    ],
    ids=lambda kind: kind.__name__,
)
def test_the_reflection_meets_the_errors_that_names_alone_did_not_tell(kind: type[Exception]) -> None:
    assert kind in all_of(psycopg)
    error, _ = made(kind)
    assert Fault.PERMANENT not in (classify(error), classify(wrapped(psycopg, error)))


def test_every_error_of_sqlite_without_a_code_or_a_text_of_its_locks_is_permanent_but_an_interface_error() -> None:
    for kind in below(sqlite3.Error):
        expected = Fault.NEW_CONNECTION if kind is sqlite3.InterfaceError else Fault.PERMANENT
        assert classify(kind("as if")) is expected
        assert classify(wrapped(sqlite3, kind("as if"))) is expected


def test_every_error_of_djangos_own_without_a_driver_behind_it_is_judged_by_its_class() -> None:
    for kind in below(django.db.Error):
        passing = issubclass(kind, django.db.OperationalError | django.db.InterfaceError)
        error = kind.__new__(kind)  # some of them want more than a text
        assert classify(error) is (Fault.NEW_CONNECTION if passing else Fault.PERMANENT), kind


def test_a_host_that_is_not_found_is_a_passing_fault_though_the_driver_names_another_error_as_its_cause() -> None:
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(host="nowhere.invalid", dbname="durable", connect_timeout=2)
    error = caught.value
    error.__cause__ = error.__cause__ or OSError("no such host")
    assert classify(error) is Fault.NEW_CONNECTION
    assert classify(wrapped(psycopg, error)) is Fault.NEW_CONNECTION


def test_a_sqlite_file_that_can_not_be_opened_is_a_connection_refused() -> None:
    with pytest.raises(sqlite3.OperationalError) as caught:
        sqlite3.connect("/nowhere/at/all/durable.sqlite3")
    assert classify(caught.value) is Fault.NEW_CONNECTION


@pytest.mark.parametrize("severity", ["FATAL", "PANIC"])
@pytest.mark.parametrize("state", ["40001", "23505", "XX000"])
def test_the_last_word_of_a_session_wants_a_new_connection_whatever_its_sqlstate(severity: str, state: str) -> None:
    """A standby ends a session that stands in its way with 40001, for one."""

    class Ended(psycopg.DatabaseError):
        sqlstate = state
        diag = SimpleNamespace(severity_nonlocalized=severity)  # type: ignore[assignment]

    assert classify(Ended("as if")) is Fault.NEW_CONNECTION
    assert classify(wrapped(psycopg, Ended("as if"))) is Fault.NEW_CONNECTION


def test_an_empty_pool_is_told_from_other_faults() -> None:
    for kind in all_of(psycopg):
        error, _ = made(kind)
        expected = kind in (psycopg_pool.PoolTimeout, psycopg_pool.TooManyRequests)
        assert is_empty_pool(error) is is_empty_pool(wrapped(psycopg, error)) is expected
    assert not is_empty_pool(ValueError("as if"))
