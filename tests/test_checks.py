"""System checks: each fault has its id, its words and its cure."""

from __future__ import annotations

import sqlite3
import sys
import time
import types
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.db import connections

from durable import checks, workflow
from durable.apps import label_for
from durable.decorators.activities import activity
from durable.kernel.definitions.registry import registry
from durable.kernel.loop import asyncio_private
from tests.settings import VENDOR

on_sqlite = pytest.mark.skipif(VENDOR != "sqlite", reason="about SQLite")
on_postgresql = pytest.mark.skipif(VENDOR != "postgresql", reason="about PostgreSQL")


def ids(messages: list[CheckMessage]) -> list[str | None]:
    return [message.id for message in messages]


@pytest.fixture
def options(monkeypatch) -> dict[str, Any]:
    """The alias's OPTIONS, for the test to change."""
    changed = deepcopy(connections["default"].settings_dict)
    monkeypatch.setattr(connections["default"], "settings_dict", changed)
    mine: dict[str, Any] = changed["OPTIONS"]
    return mine


@pytest.fixture
def installed() -> Iterator[None]:
    """The registry with what installed apps have in it. The plants of other tests, which pytest registers when it
    collects them, break rules on purpose.
    """
    activities = [found for found in registry.activities() if not found.fn.__module__.startswith("tests.")]
    workflows = [found for found in registry.workflows() if not found.fn.__module__.startswith("tests.")]
    with registry.isolated():
        for each in activities:
            registry.add_activity(each)
        for one in workflows:
            registry.add_workflow(one)
        yield


@pytest.mark.usefixtures("installed")
def test_the_suites_own_project_has_no_faults():
    assert registry.workflows()
    assert [message for message in run_checks() if str(message.id).startswith("durable.")] == []


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("given", "id", "hint"),
    [
        ({"LEASE_FRO": 1}, "durable.E001", "Did you mean 'LEASE_FOR'?"),
        ({"LEASE_FOR": 60}, "durable.E002", "timedelta"),
        ({"CODEC": "nowhere.Codec"}, "durable.E003", "imported"),
    ],
)
def test_a_wrong_setting_is_an_error_and_stops_no_other_check(settings, given, id, hint):
    settings.DURABLE = given
    (message,) = [message for message in run_checks() if str(message.id).startswith("durable.")]
    assert message.id == id
    assert hint in str(message.hint)


def test_the_unsafe_async_switch_is_refused(monkeypatch):
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    assert ids(checks.check_environment(None)) == ["durable.E006"]
    monkeypatch.delenv("DJANGO_ALLOW_ASYNC_UNSAFE")
    assert checks.check_environment(None) == []


def test_a_python_whose_asyncio_does_otherwise_is_refused(monkeypatch):
    assert checks.check_python(None) == []
    monkeypatch.setattr(asyncio_private, "number_gathering", lambda asking, number: None)
    (message,) = (message for message in run_checks() if message.id == "durable.E012")
    assert "A future of asyncio.gather cannot be given a number." in message.msg


# --- what is registered --------------------------------------------------------------------------------------------


async def reads_the_clock() -> float:
    return time.time()


def test_impure_workflow_code_is_a_warning_with_function_line_call_and_advice(isolated_registry):
    """Faults R4."""
    workflow(name="shop.clock")(reads_the_clock)
    (message,) = checks.check_registered(None)
    line = reads_the_clock.__code__.co_firstlineno + 1
    assert message.id == "durable.W005"
    assert f"The workflow shop.clock cannot be replayed safely: reads_the_clock, line {line} of " in message.msg
    assert "calls time.time(...)" in message.msg
    assert "durable.now()" in str(message.hint)


def test_names_that_clash_are_an_error_with_both_places(isolated_registry):
    def make() -> Any:
        def charge() -> None: ...

        return activity(charge)

    def make_another() -> Any:
        def charge() -> None: ...

        return activity(charge)

    make()
    make_another()
    (message,) = checks.check_registered(None)
    assert message.id == "durable.E007"
    assert "make.<locals>.charge" in message.msg
    assert "make_another.<locals>.charge" in message.msg


def test_modules_of_installed_apps_are_found_and_named_by_the_apps_label():
    assert label_for("project.shop.workflows") == "shop"
    assert label_for("django.contrib.auth.anything.at_all") == "auth"
    assert label_for("elsewhere.workflows") == "elsewhere"
    assert "shop" in {definition.name.partition(".")[0] for definition in registry.workflows()}
    assert "shop" in {definition.name.partition(".")[0] for definition in registry.activities()}


# --- where the rows are --------------------------------------------------------------------------------------------


class OnOne:
    """All of the app on one alias, for reading and writing."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "default"

    db_for_write = db_for_read


class OnTwo:
    """Outbox rows elsewhere."""

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "other" if model.__name__ == "OutboxRow" else None

    db_for_read = db_for_write


class ReadsElsewhere:
    """A replica for reading."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "replica"


class NoTables:
    """Migrations go nowhere."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if hints.get("model_name") == "message" else None


@pytest.mark.parametrize(
    ("router", "words"),
    [
        (OnTwo, "OutboxRow on other"),
        (ReadsElsewhere, "Workflow on default and replica"),
        (NoTables, "allows no tables on 'default' for Message"),
    ],
)
def test_rows_on_two_databases_are_refused(settings, router, words):
    """Specification B4."""
    settings.DATABASE_ROUTERS = [router()]
    (message,) = checks.check_alias(None)
    assert message.id == "durable.E004"
    assert words in message.msg


def test_rows_on_one_database_are_fine_however_it_is_said(settings):
    settings.DATABASE_ROUTERS = [OnOne()]
    assert checks.check_alias(None) == []
    settings.DURABLE = {"DATABASE": "default"}
    assert checks.check_alias(None) == []


def test_a_database_that_is_not_supported_is_refused(monkeypatch):
    monkeypatch.setattr(connections["default"], "vendor", "oracle")
    assert ids(checks.check_alias(None)) == ["durable.E008"]


@on_sqlite
def test_an_old_sqlite_is_refused(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 9))
    assert ids(checks.check_alias(None)) == ["durable.E005"]


@on_sqlite
@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"transaction_mode": None}, ["durable.W001"]),
        ({"transaction_mode": "DEFERRED"}, ["durable.W001"]),
        ({"transaction_mode": "exclusive"}, []),
        ({"init_command": ""}, ["durable.W002"]),
        ({"init_command": "PRAGMA synchronous=NORMAL; PRAGMA journal_mode = wal;"}, []),
        ({"init_command": "PRAGMA journal_mode('WAL')"}, []),
        ({"init_command": "PRAGMA journal_mode=WAL; PRAGMA journal_mode=DELETE"}, ["durable.W002"]),
        ({"init_command": "PRAGMA cache_size=-1000; PRAGMA foreign_keys=OFF;"}, ["durable.W002"]),
        ({"timeout": 1}, ["durable.W003"]),
        ({"timeout": 5}, []),
    ],
    ids=range(10),
)
def test_options_that_make_locked_errors_likely_are_warned_about(options, change, found):
    """Faults Q3."""
    options.update(change)
    messages = checks.check_alias(None)
    assert ids(messages) == found
    assert all("DATABASES['default']['OPTIONS']" in str(message.hint) for message in messages)


@on_sqlite
@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ("", "PRAGMA journal_mode=WAL"),
        (None, "PRAGMA journal_mode=WAL"),
        ("PRAGMA cache_size=-1000", "PRAGMA cache_size=-1000; PRAGMA journal_mode=WAL"),
        ("PRAGMA cache_size=-1000; ", "PRAGMA cache_size=-1000; PRAGMA journal_mode=WAL"),
    ],
)
def test_the_hint_about_write_ahead_logging_keeps_what_the_host_has_there(options, own, wanted):
    options["init_command"] = own
    [message] = checks.check_alias(None)
    assert message.hint == f"Set DATABASES['default']['OPTIONS']['init_command'] = {wanted!r}."
    options["init_command"] = wanted
    assert checks.check_alias(None) == []


@on_sqlite
def test_a_database_in_memory_needs_no_write_ahead_log(options):
    options["init_command"] = ""
    connections["default"].settings_dict["NAME"] = "file:x?mode=memory&cache=shared"
    assert checks.check_alias(None) == []


@on_sqlite
def test_a_deploy_check_says_that_sqlite_is_one_machines():
    assert ids(checks.check_deployed(None)) == ["durable.I001"]


@on_postgresql
@pytest.mark.django_db
def test_another_isolation_level_is_warned_about_from_settings_and_from_the_server(options, monkeypatch):
    from django.db.backends.postgresql.psycopg_any import IsolationLevel

    assert checks.check_alias(None) == checks.check_server(None, databases=["default"]) == []
    with connections["default"].cursor() as cursor:
        cursor.execute("SET LOCAL default_transaction_isolation = 'repeatable read'")
    (message,) = checks.check_server(None, databases=["default"])
    assert (message.id, "REPEATABLE READ" in message.msg) == ("durable.W004", True)
    assert checks.check_server(None, databases=None) == []
    options["isolation_level"] = IsolationLevel.SERIALIZABLE
    (message,) = checks.check_alias(None)
    assert (message.id, "SERIALIZABLE" in message.msg) == ("durable.W004", True)
    options["isolation_level"] = IsolationLevel.READ_COMMITTED
    assert checks.check_alias(None) == []
    assert checks.check_deployed(None) == []


@pytest.mark.skipif(VENDOR != "sqlite", reason="about SQLite")
@pytest.mark.parametrize(
    ("requests", "mode", "found"),
    [
        (True, "IMMEDIATE", ["durable.W010"]),
        (True, "exclusive", ["durable.W010"]),
        (True, "DEFERRED", []),
        (False, "IMMEDIATE", []),
    ],
)
def test_every_get_is_a_writer_under_atomic_requests_and_immediate(
    requests: bool, mode: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = connections["default"].settings_dict
    monkeypatch.setitem(entry, "ATOMIC_REQUESTS", requests)
    monkeypatch.setitem(entry["OPTIONS"], "transaction_mode", mode)
    told = checks.check_requests(None)
    assert [one.id for one in told] == found
    for one in told:
        assert mode.upper() in one.msg
        assert "ATOMIC_REQUESTS" in str(one.hint)


SOURCE = """
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import durable
from durable import activity, workflow

if TYPE_CHECKING:
    Pin = Annotated[str, durable.Secret]
    from durable import Secret


@dataclass
class Door:
    number: int
    code: list[Pin]


@activity(name="check.unlock")
def unlock(pin: Pin, marked: Annotated[str, Secret], door: Door | None, plain: str) -> None: ...


@workflow(name="check.enter")
async def enter(pin: Annotated[str, durable.Secret]) -> Pin: ...
"""


@pytest.mark.parametrize("hidden", [(), ("PIN",)], ids=["", "one is named in the settings"])
def test_a_mark_that_is_there_for_type_checkers_only_is_told(hidden, settings, monkeypatch):
    """At run time nobody can tell it from other names, and the values would be shown without a word."""
    settings.DURABLE = {"HIDDEN_FIELDS": hidden}
    module = types.ModuleType("for_type_checkers")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with registry.isolated():
        exec(SOURCE, vars(module))
        found = checks.check_secrets(None)
    told = [
        "The parameter 'pin' of the activity check.unlock is annotated as 'Pin'",
        "The field 'code' of Door in a call of the activity check.unlock is annotated as 'list[Pin]'",
        "The result of the workflow check.enter is annotated as 'Pin'",
    ]
    assert [message.msg.partition(", which has no meaning at run time")[0] for message in found] == told[len(hidden) :]
    assert {message.id for message in found} == {"durable.W011"}
    assert all("outside of `if TYPE_CHECKING:`" in str(message.hint) for message in found)
