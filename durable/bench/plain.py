"""The yardstick: one row a commit, on one connection of the bare driver, with nothing of Django or the engine."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connections

TABLE = "durable_bench_plain"
PAYLOAD = '{"number": 123456}'
_INSERT = f"INSERT INTO {TABLE} (payload) VALUES "  # noqa: S608

Rate = Callable[[float], float]
"""Inserts and commits for a number of seconds, and returns the rate per second."""


@contextmanager
def plain(alias: str) -> Iterator[Rate]:
    """A function that measures the rate, on a connection that stays open inside the block."""
    wrapper = connections[alias]
    with wrapper.cursor() as cursor:
        kind = "bigserial" if wrapper.vendor == "postgresql" else "integer"
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} (id {kind} PRIMARY KEY, payload text NOT NULL)")
    with _postgresql(alias) if wrapper.vendor == "postgresql" else _sqlite(alias) as once:
        yield lambda seconds: _rate(once, seconds)


def _rate(once: Callable[[], None], seconds: float) -> float:
    done = 0
    begun = time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        once()
        done += 1
    return done / spent


@contextmanager
def _postgresql(alias: str) -> Iterator[Callable[[], None]]:
    import psycopg

    parameters = {
        name: value
        for name, value in connections[alias].get_connection_params().items()
        if name not in ("context", "cursor_factory", "prepare_threshold")
    }
    with psycopg.connect(**parameters) as connection, connection.cursor() as cursor:

        def once() -> None:
            cursor.execute(_INSERT + "(%s)", (PAYLOAD,))
            connection.commit()

        yield once


@contextmanager
def _sqlite(alias: str) -> Iterator[Callable[[], None]]:
    connection = sqlite3.connect(connections[alias].settings_dict["NAME"], isolation_level=None, timeout=20)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

        def once() -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_INSERT + "(?)", (PAYLOAD,))
            connection.execute("COMMIT")

        yield once
    finally:
        connection.close()
