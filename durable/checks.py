"""System checks: stable ids, the fault in the message, the cure in the hint. `docs/checks.md` lists them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register  # noqa: A004 - Django's name
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import problems, settings
from durable.kernel.purity import findings
from durable.kernel.registry import registry

OLDEST_SQLITE = (3, 35, 0)
"""The first with RETURNING, by which a claim learns what it got in one statement."""
SHORTEST_TIMEOUT = 5.0
READ_COMMITTED = "read committed"


def install() -> None:
    """Hand the checks to Django. Again is the same as once."""
    register(check_settings, "durable")
    register(check_registered, "durable")
    register(check_environment, Tags.async_support)
    register(check_alias, "durable")
    register(check_requests, "durable")
    register(check_server, Tags.database)
    register(check_deployed, "durable", deploy=True)


def check_settings(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E001 to E003: the project's `DURABLE` dict."""
    return [Error(problem.text, hint=problem.cure, id=problem.id) for problem in problems()]


def check_environment(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E006: Django's guard against the ORM under a loop has to be on."""
    if not os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE"):
        return []
    return [
        Error(
            "DJANGO_ALLOW_ASYNC_UNSAFE is set: database calls in workflow code would not be refused, and would get "
            "another connection than the transaction that the workflow's turn is in.",
            hint="Take it out of the environment of all processes that import workflows.",
            id="durable.E006",
        )
    ]


def check_registered(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E007 and W005: names that clash, and workflow code that a replay can not repeat."""
    found: list[CheckMessage] = [
        Error(
            f"The {clash.kind} name {clash.name!r} is claimed by {clash.first} and by {clash.second}.",
            hint="Give one of them another name with `name=`.",
            id="durable.E007",
        )
        for clash in registry.clashes()
    ]
    for definition in registry.workflows():
        found += [
            Warning(
                f"The workflow {definition.name} can not be replayed safely: {finding.function}, line {finding.line} "
                f"of {finding.file}, calls {finding.call}.",
                hint=finding.advice,
                obj=definition,
                id="durable.W005",
            )
            for finding in findings(definition.fn)
        ]
    return found


def check_alias(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E004, E005, E008, W001 to W004: where the rows are, as far as settings tell."""
    if problems():
        return []
    split = _split()
    if split:
        return split
    connection = connections[settings.database_alias]
    judge = _JUDGES.get(connection.vendor)
    if judge is None:
        return [
            Error(
                f"The database {connection.alias!r} is {connection.display_name}, which durable does not support.",
                hint="Use PostgreSQL or SQLite, or name another alias in DURABLE['DATABASE'].",
                id="durable.E008",
            )
        ]
    return judge(connection)


def check_server(app_configs: Any, *, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W004 again, where the server's or role's own default is not what the settings leave it at."""
    if problems() or settings.database_alias not in (databases or ()):
        return []
    connection = connections[settings.database_alias]
    if connection.vendor != "postgresql" or "isolation_level" in connection.settings_dict["OPTIONS"]:
        return []
    with connection.cursor() as cursor:
        cursor.execute("SHOW default_transaction_isolation")
        level: str = cursor.fetchone()[0]
    return [] if level == READ_COMMITTED else [_isolation(connection, level)]


def check_requests(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """W010: every request takes the write lock of the SQLite file."""
    if problems():
        return []
    connection = connections[settings.database_alias]
    if connection.vendor != "sqlite" or not connection.settings_dict["ATOMIC_REQUESTS"]:
        return []
    mode = str(connection.settings_dict["OPTIONS"].get("transaction_mode") or "").upper()
    if mode not in ("IMMEDIATE", "EXCLUSIVE"):
        return []
    place = f"DATABASES[{connection.alias!r}]"
    return [
        Warning(
            f"{place}['ATOMIC_REQUESTS'] is True and ['OPTIONS']['transaction_mode'] is {mode!r}: every request, a GET "
            "too, takes the write lock of the whole SQLite file at its beginning, and waits for workers and other "
            "requests as they wait for it.",
            hint="Set ATOMIC_REQUESTS to False and use transaction.atomic() in the views that write; or keep it, and "
            "put @transaction.non_atomic_requests on the views that only read.",
            id="durable.W010",
        )
    ]


def check_deployed(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """I001: SQLite is one machine's."""
    if problems() or connections[settings.database_alias].vendor != "sqlite":
        return []
    return [
        Info(
            f"durable keeps its rows in the SQLite database {settings.database_alias!r}.",
            hint="Fine on one machine with a local disk. For workers on several machines, use PostgreSQL.",
            id="durable.I001",
        )
    ]


def _split() -> list[CheckMessage]:
    alias = settings.database_alias
    models = list(apps.get_app_config("durable").get_models())
    places = {model.__name__: {router.db_for_write(model), router.db_for_read(model)} for model in models}
    used = set().union(*places.values())
    refusing = [model.__name__ for model in models if not router.allow_migrate_model(alias, model)]
    # A router without an opinion says "default", which a DATABASE of one's own overrules.
    if not refusing and (used == {alias} or (settings.database and used == {DEFAULT_DB_ALIAS})):
        return []
    told = ", ".join(f"{name} on {' and '.join(sorted(where))}" for name, where in sorted(places.items()))
    if refusing:
        told += f"; it allows no tables on {alias!r} for {', '.join(sorted(refusing))}"
    return [
        Error(
            f"The tables of durable have to be in one database, read and written there; the router says: {told}.",
            hint="Route the whole app 'durable' to one alias, for reading, writing and migrating.",
            id="durable.E004",
        )
    ]


def _judge_sqlite(connection: BaseDatabaseWrapper) -> list[CheckMessage]:
    import sqlite3

    found: list[CheckMessage] = []
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        found.append(
            Error(
                f"SQLite {sqlite3.sqlite_version} is too old.",
                hint="Use a Python that is linked with SQLite 3.35 or newer, or PostgreSQL.",
                id="durable.E005",
            )
        )
    alias, options = connection.alias, connection.settings_dict["OPTIONS"]
    if str(options.get("transaction_mode") or "").upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        found.append(
            Warning(
                f"Transactions of the SQLite database {alias!r} do not begin IMMEDIATE: one that reads first and "
                "writes later fails at once when another writes.",
                hint=f"Set DATABASES[{alias!r}]['OPTIONS']['transaction_mode'] = 'IMMEDIATE'.",
                id="durable.W001",
            )
        )
    commands = str(options.get("init_command") or "")
    modes = _MODES.findall(commands)
    if (not modes or modes[-1].lower() != "wal") and not _in_memory(connection):
        found.append(
            Warning(
                f"The SQLite database {alias!r} does not use write-ahead logging: readers and writers stop each other.",
                hint=f"Set DATABASES[{alias!r}]['OPTIONS']['init_command'] = {_with_wal(commands)!r}.",
                id="durable.W002",
            )
        )
    if float(options.get("timeout", SHORTEST_TIMEOUT)) < SHORTEST_TIMEOUT:
        found.append(
            Warning(
                f"The SQLite database {alias!r} waits for locks for {options['timeout']} s only.",
                hint=f"Set DATABASES[{alias!r}]['OPTIONS']['timeout'] to 20, at least to {SHORTEST_TIMEOUT:.0f}.",
                id="durable.W003",
            )
        )
    return found


_MODES = re.compile(r"\bjournal_mode\s*[=(]\s*['\"]?(\w+)", re.IGNORECASE)


def _with_wal(commands: str) -> str:
    """What the host has there, and ours behind it."""
    return "; ".join([*filter(None, [commands.strip().rstrip("; ")]), "PRAGMA journal_mode=WAL"])


def _in_memory(connection: BaseDatabaseWrapper) -> bool:
    name = str(connection.settings_dict["NAME"])
    return name == ":memory:" or "mode=memory" in name


def _judge_postgresql(connection: BaseDatabaseWrapper) -> list[CheckMessage]:
    from django.db.backends.postgresql.psycopg_any import IsolationLevel

    level = connection.settings_dict["OPTIONS"].get("isolation_level")
    if level is None or level == IsolationLevel.READ_COMMITTED:
        return []
    return [_isolation(connection, IsolationLevel(level).name.lower().replace("_", " "))]


def _isolation(connection: BaseDatabaseWrapper, level: str) -> Warning:
    return Warning(
        f"Transactions of the database {connection.alias!r} are {level.upper()}: durable's own, and those "
        "of yours that start workflows, will fail to serialize instead of waiting for a lock.",
        hint="Use READ COMMITTED for the alias, and another alias for what needs more.",
        id="durable.W004",
    )


_JUDGES: dict[str, Callable[[BaseDatabaseWrapper], list[CheckMessage]]] = {
    "sqlite": _judge_sqlite,
    "postgresql": _judge_postgresql,
}
