"""Which settings of the project's `DATABASES` work: each finding names the value, and the cure.

`findings` looks at settings only, `server_findings` asks the server, where the same may come from a role, a service
file or the environment. System checks tell both; commands refuse what cannot work even where checks are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.databases import pools, postgresql, sqlite
from durable.databases.finding import Finding, Weight, refused
from durable.errors import ConfigurationError
from durable.store.connections.unpooled import pooled_aliases

__all__ = ["Finding", "Weight", "findings", "pool_findings", "refuse_unfit", "server_findings"]

_JUDGES: dict[str, Callable[[BaseDatabaseWrapper], Iterator[Finding]]] = {
    "sqlite": sqlite.judge,
    "postgresql": postgresql.judge,
}


def findings(alias: str) -> Iterator[Finding]:
    """What the settings of the engine's database say. Connects to nothing."""
    connection = connections[alias]
    judge = _JUDGES.get(connection.vendor)
    if judge is None:
        yield Finding(
            Weight.REFUSED,
            "durable.E008",
            f"The database {alias!r} is {connection.display_name}, which durable does not support.",
            "Use PostgreSQL or SQLite, or name another alias in DURABLE['DATABASE'].",
        )
        return
    if not connection.settings_dict["AUTOCOMMIT"]:
        yield refused(alias, "['AUTOCOMMIT'] is False: Django would commit nothing that durable writes", "Take it out.")
    yield from judge(connection)


def refuse_unfit(*, for_workers: bool = False) -> None:
    """Raises `ConfigurationError` with every setting with which nothing works; or, if asked, with which no worker
    works.
    """
    weights = {Weight.REFUSED, Weight.NO_WORKER} if for_workers else {Weight.REFUSED}
    faults = [fault for fault in (*findings(settings.database_alias), *pool_findings()) if fault.weight in weights]
    if faults:
        raise ConfigurationError(" ".join(f"{fault.text} {fault.cure} [{fault.id}]" for fault in faults))


def pool_findings() -> Iterator[Finding]:
    """The findings about the connection pools of all databases, which handlers use."""
    for alias in pooled_aliases():
        connection = connections[alias]
        if connection.vendor == "postgresql":
            yield from pools.judge(connection)


def server_findings(connection: BaseDatabaseWrapper) -> Iterator[Finding]:
    """The findings about the server and the session. Two statements. Raises what the database raises."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s, 2", ["one"])
        row = cursor.fetchone()
    if not isinstance(row, Iterable) or list(row) != ["one", 2]:
        yield refused(connection.alias, f"returns rows as {row!r}, but durable needs tuples", "Take the factory out.")
        return
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(['current_setting(%s, true)'] * len(postgresql.ASKED))}", postgresql.ASKED)
        values = dict(zip(postgresql.ASKED, cursor.fetchone(), strict=True))
    yield from postgresql.judge_session(
        connection.alias, {name: value for name, value in values.items() if value is not None}
    )
    if values["in_hot_standby"] == "on":
        yield refused(
            connection.alias,
            "is a read-only standby",
            "Connect to the primary: OPTIONS['target_session_attrs'] = 'read-write' finds it among several hosts.",
        )
