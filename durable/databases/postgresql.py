"""The settings of a PostgreSQL database, and of its sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.databases.finding import Finding, Weight, refused, warned

READ_COMMITTED = "read committed"
SHORTEST_STATEMENT = timedelta(seconds=5)
_ON = frozenset({"1", "on", "true", "yes"})


def judge(connection: BaseDatabaseWrapper) -> Iterator[Finding]:
    """The findings about a PostgreSQL database's entry in `DATABASES`."""
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    alias, options = connection.alias, connection.settings_dict["OPTIONS"]
    if not is_psycopg3:
        driver: Any = getattr(connection, "Database", None)
        yield Finding(
            Weight.REFUSED,
            "durable.E010",
            f"The driver of the database {alias!r} is {getattr(driver, '__name__', 'psycopg2')} "
            f"{str(getattr(driver, '__version__', '')).split(' ')[0]}, which durable does not support.",
            "Install psycopg 3: pip install 'psycopg[binary]'. Django prefers it where both are there.",
        )
        return
    yield from _judge_driver(alias, options)
    yield from judge_session(alias, _of_options(options))
    yield from _judge_isolation(alias, options)


def _judge_driver(alias: str, options: Mapping[str, Any]) -> Iterator[Finding]:
    import psycopg
    from psycopg.rows import tuple_row

    if options.get("row_factory", tuple_row) is not tuple_row:
        yield refused(alias, "['OPTIONS']['row_factory'] is set, but Django and durable need tuples", "Take it out.")
    kind = options.get("cursor_factory")
    if isinstance(kind, type) and issubclass(kind, psycopg.RawCursor | psycopg.ServerCursor):
        yield refused(
            alias,
            f"['OPTIONS']['cursor_factory'] is {kind.__name__}, which Django's statements do not fit",
            "Take it out.",
        )
    wanted = str(options.get("target_session_attrs", "any"))
    if wanted in ("read-only", "standby", "prefer-standby"):
        yield refused(
            alias,
            f"['OPTIONS']['target_session_attrs'] is {wanted!r}: durable writes, which a standby cannot",
            "Use 'read-write', and another alias for code that only reads.",
        )


def _judge_isolation(alias: str, options: Mapping[str, Any]) -> Iterator[Finding]:
    from django.db.backends.postgresql.psycopg_any import IsolationLevel

    level = options.get("isolation_level")
    if level is None:
        return
    try:
        name = IsolationLevel(level).name.lower().replace("_", " ")
    except ValueError:
        yield refused(alias, f"['OPTIONS']['isolation_level'] is {level!r}", "Use one of psycopg.IsolationLevel.")
    else:
        yield from judge_session(alias, {"default_transaction_isolation": name})


def _of_options(options: Mapping[str, Any]) -> dict[str, str]:
    """What `OPTIONS["options"]` sets for each session, in small letters; the last word counts."""
    said = str(options.get("options") or "").replace("\\ ", "\0")
    pairs = re.findall(r"(?:-c\s*|--)([\w.-]+)=(\S*)", said)
    return {name.lower().replace("-", "_"): value.replace("\0", " ").strip("'\"").lower() for name, value in pairs}


ASKED = [
    "default_transaction_read_only",
    "default_transaction_isolation",
    "in_hot_standby",
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "transaction_timeout",
    "synchronous_commit",
    "array_nulls",
    "server_encoding",
]


def judge_session(alias: str, values: Mapping[str, str]) -> Iterator[Finding]:
    """The findings about a session's parameters, by PostgreSQL's names."""
    if values.get("default_transaction_read_only") in _ON:
        yield refused(
            alias,
            "begins its transactions read-only (default_transaction_read_only)",
            "Take it out of OPTIONS['options'], the role or the server, or use another alias for durable.",
        )
    if values.get("array_nulls") in ("off", "false", "0", "no"):
        yield refused(alias, "reads NULL in arrays as a text (array_nulls is off)", "Leave array_nulls on.")
    level = values.get("default_transaction_isolation", READ_COMMITTED)
    if level not in (READ_COMMITTED, "read uncommitted"):
        yield warned(
            "durable.W004",
            f"Transactions of the database {alias!r} are {level.upper()}: transactions that start workflows, and those "
            "of transactional activities, will fail to serialize instead of waiting for a lock. The worker's own "
            "are READ COMMITTED in any case.",
            "Use READ COMMITTED for the alias, and another alias for code that needs more.",
        )
    if values.get("synchronous_commit") in ("off", "false", "0", "no"):
        yield warned(
            "durable.W007",
            f"Commits of the database {alias!r} are not flushed to disk (synchronous_commit is off): when the server "
            "crashes, confirmed starts are lost, and acknowledged activities run again.",
            "Leave synchronous_commit on for the alias.",
        )
    encoding = values.get("server_encoding", "UTF8").upper()
    if encoding not in ("UTF8", "UTF-8"):
        yield warned(
            "durable.W008",
            f"The database {alias!r} is encoded in {encoding}: values with other characters are refused by the server.",
            "Create it with ENCODING 'UTF8'.",
        )
    yield from _judge_limits(alias, values)


def _judge_limits(alias: str, values: Mapping[str, str]) -> Iterator[Finding]:
    shortest = {
        "statement_timeout": SHORTEST_STATEMENT,
        "idle_in_transaction_session_timeout": 5 * settings.turn_cpu_for,
        "transaction_timeout": 5 * settings.turn_cpu_for,
    }
    for name, enough in shortest.items():
        limit = _span(values.get(name, "0"))
        if timedelta() < limit < enough:
            yield warned(
                "durable.W009",
                f"The database {alias!r} ends what takes longer than {limit.total_seconds():g} s ({name}): the "
                "worker's longer statements and turns, and transactional handlers, are cut off and repeated.",
                f"Give the alias {enough.total_seconds():g} s or more.",
            )


_UNITS = {"us": 1e-6, "ms": 1e-3, "": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _span(text: str) -> timedelta:
    """A span as PostgreSQL spells it; none where it is none."""
    parsed = re.fullmatch(r"\s*([\d.]+)\s*(us|ms|s|min|h|d|)\s*", text)
    return timedelta(seconds=float(parsed[1]) * _UNITS[parsed[2]]) if parsed else timedelta()
