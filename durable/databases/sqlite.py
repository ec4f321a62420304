"""The settings of an SQLite database."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.databases.finding import Finding, Weight, refused, warned

OLDEST_SQLITE = (3, 35, 0)
"""The first with RETURNING, by which a claim learns what it got in one statement."""
SHORTEST_TIMEOUT = 5.0
_AS_DJANGO_HAS_IT = -1
"""`sqlite3.LEGACY_TRANSACTION_CONTROL`, which Python 3.11 does not have yet."""


def judge(connection: BaseDatabaseWrapper) -> Iterator[Finding]:
    """The findings about an SQLite database's entry in `DATABASES`."""
    import sqlite3

    alias, options = connection.alias, connection.settings_dict["OPTIONS"]
    place = f"DATABASES[{alias!r}]['OPTIONS']"
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        yield Finding(
            Weight.REFUSED,
            "durable.E005",
            f"SQLite {sqlite3.sqlite_version} is too old.",
            "Use a Python that is linked with SQLite 3.35 or newer, or PostgreSQL.",
        )
    if str(options.get("transaction_mode") or "").upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield warned(
            "durable.W001",
            f"Transactions of the SQLite database {alias!r} do not begin with IMMEDIATE: one that reads first and "
            "writes later fails at once if another connection is writing.",
            f"Set {place}['transaction_mode'] = 'IMMEDIATE'.",
        )
    if options.get("autocommit", _AS_DJANGO_HAS_IT) != _AS_DJANGO_HAS_IT:
        yield refused(
            alias,
            f"['OPTIONS']['autocommit'] is {options['autocommit']!r}: Django's own transactions need the driver's "
            "older way, which is the default",
            "Take it out.",
        )
    pragmas = _pragmas(options)
    in_memory = is_in_memory(connection)
    yield from _judge_pragmas(alias, pragmas, in_memory=in_memory)
    if pragmas.get("journal_mode") not in ("wal", "off", "memory") and not in_memory:
        yield warned(
            "durable.W002",
            f"The SQLite database {alias!r} does not use write-ahead logging: readers and writers block each other.",
            f"Set {place}['init_command'] = {_with_wal(str(options.get('init_command') or ''))!r}.",
        )
    yield from _judge_waits(alias, place, pragmas.get("busy_timeout"), options)
    yield from _judge_name(alias, str(connection.settings_dict["NAME"]), in_memory=in_memory)


def _pragmas(options: Mapping[str, Any]) -> dict[str, str]:
    """What `init_command` sets, in small letters; the last word counts."""
    said = str(options.get("init_command") or "").lower()
    pairs = re.findall(r"pragma\s+(?:\w+\.)?(\w+)\s*(?:=\s*|\(\s*)['\"]?([\w.-]+)", said)
    return dict(pairs)


_IMPOSSIBLE_PRAGMAS = {
    ("query_only", frozenset({"1", "on", "true", "yes"})): "lets nobody write",
    ("locking_mode", frozenset({"exclusive"})): "locks every other thread and process out for good",
    ("journal_mode", frozenset({"off"})): "makes it impossible to roll back",
    ("journal_mode", frozenset({"memory"})): "destroys the file when a worker is killed while it commits",
}


def _with_wal(commands: str) -> str:
    """The project's value, followed by ours."""
    return "; ".join([*filter(None, [commands.strip().rstrip("; ")]), "PRAGMA journal_mode=WAL"])


def _judge_pragmas(alias: str, pragmas: Mapping[str, str], *, in_memory: bool) -> Iterator[Finding]:
    for (name, values), consequence in _IMPOSSIBLE_PRAGMAS.items():
        if pragmas.get(name) in values and not (in_memory and name == "journal_mode"):
            yield refused(
                alias,
                f"['OPTIONS']['init_command'] has PRAGMA {name}={pragmas[name]}, which {consequence}",
                "Take it out.",
            )
    if pragmas.get("synchronous") in ("off", "0") and not in_memory:
        yield warned(
            "durable.W007",
            f"Commits of the SQLite database {alias!r} are not flushed to disk (PRAGMA synchronous=OFF): when the "
            "machine crashes, acknowledged work is lost, and the file may be destroyed.",
            "Use PRAGMA synchronous=NORMAL, or FULL to lose nothing at all.",
        )


def _judge_waits(alias: str, place: str, pragma: str | None, options: Mapping[str, Any]) -> Iterator[Finding]:
    value = options.get("timeout", SHORTEST_TIMEOUT)
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        yield refused(alias, f"['OPTIONS']['timeout'] is {value!r}", "It is a number of seconds; 20 is a good one.")
        return
    seconds = float(pragma) / 1000 if pragma is not None and pragma.isdigit() else float(value)
    if seconds < SHORTEST_TIMEOUT:
        yield warned(
            "durable.W003",
            f"The SQLite database {alias!r} waits for locks for only {seconds:g} s.",
            f"Set {place}['timeout'] to 20, or at least to {SHORTEST_TIMEOUT:.0f}.",
        )
    if seconds > settings.lease_for.total_seconds():
        yield warned(
            "durable.W003",
            f"The SQLite database {alias!r} waits for locks for {seconds:g} s, longer than a lease "
            f"({settings.lease_for.total_seconds():g} s): a worker may lose its leases while it waits.",
            f"Set {place}['timeout'] to {settings.lease_for.total_seconds():g} at most, or give leases more time with "
            "DURABLE['LEASE_FOR'].",
        )


def is_in_memory(connection: BaseDatabaseWrapper) -> bool:
    """Whether an SQLite database lives in the memory of one process."""
    name = str(connection.settings_dict["NAME"])
    return name in ("", ":memory:") or name.startswith("file::memory:") or "mode=memory" in name


def _judge_name(alias: str, name: str, *, in_memory: bool) -> Iterator[Finding]:
    if in_memory:
        yield Finding(
            Weight.NO_WORKER,
            "durable.E009",
            f"The SQLite database {alias!r} is in memory: no other process can see it, and no other thread unless it "
            "is shared. No worker can run on it.",
            "Fine for tests with durable.testing. Otherwise give DATABASES[…]['NAME'] a file.",
        )
        return
    if not name.startswith("file:"):
        return
    for part, consequence in _IMPOSSIBLE_URIS.items():
        if part in name.lower():
            yield refused(alias, f"['NAME'] has {part!r}, which {consequence}", "Take it out.")


_IMPOSSIBLE_URIS = {
    "mode=ro": "lets nobody write",
    "immutable=1": "lets nobody write",
    "nolock=1": "lets two processes write at once",
    "vfs=unix-none": "lets two processes write at once",
    "cache=shared": "makes threads fail on locks instead of waiting for them",
}
