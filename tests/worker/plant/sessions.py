"""Handlers that change their database session, and handlers that look at theirs, in every way that one can run."""

from __future__ import annotations

import asyncio
import contextvars
import decimal
import gc
import os
import threading
from typing import Any

import structlog
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, transaction
from django.utils import timezone, translation

from durable import Retry, activity
from tests.ledger.models import Entry
from tests.worker.plant.activities import GATES

ONCE = Retry(max_attempts=1)
WORD = contextvars.ContextVar("word", default="none")

LEAVE = {
    "postgresql": [
        "CREATE SCHEMA IF NOT EXISTS tenant",
        "SET search_path = tenant, public",
        "SET statement_timeout = '7s'",
        "SET TIME ZONE 'Asia/Tokyo'",
        "SET application_name = 'left behind'",
        "SET default_transaction_read_only = on",
        "SELECT pg_advisory_lock(4711)",
        "LISTEN left_behind",
        "PREPARE left_behind AS SELECT 1",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ],
    "sqlite": [
        "CREATE TEMP TABLE left_behind (n integer)",
        "PRAGMA foreign_keys = OFF",
        "PRAGMA cache_size = 77",
        "ATTACH DATABASE ':memory:' AS left_behind",
    ],
}
TEMPORARY = "CREATE TEMP TABLE left_behind (n integer)"


def leave() -> None:
    """Change all that a session has."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(TEMPORARY)
        for statement in LEAVE[connection.vendor]:
            cursor.execute(statement)
    driver: Any = connection.connection
    if connection.vendor == "sqlite":
        driver.create_function("left_behind", 0, lambda: 1)


def found() -> dict[str, Any]:
    """What this session has."""
    return _found_postgresql() if connection.vendor == "postgresql" else _found_sqlite()


def _found_postgresql() -> dict[str, Any]:
    with connection.cursor() as cursor:
        seen: dict[str, Any] = {}
        for name in ("search_path", "statement_timeout", "TimeZone", "default_transaction_read_only",
                     "default_transaction_isolation", "application_name"):  # fmt: skip
            cursor.execute(f"SHOW {name}")
            seen[name] = cursor.fetchone()[0]
        for name, query in (
            ("locks", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"),
            ("tables", "SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()"),
            ("prepared", "SELECT count(*) FROM pg_prepared_statements WHERE from_sql"),
            ("channels", "SELECT count(*) FROM pg_listening_channels()"),
        ):
            cursor.execute(query)
            seen[name] = cursor.fetchone()[0]
    driver: Any = connection.connection
    seen["driver"] = str(driver.isolation_level)
    return seen


def _found_sqlite() -> dict[str, Any]:
    with connection.cursor() as cursor:
        seen: dict[str, Any] = {}
        for name in ("foreign_keys", "cache_size"):
            cursor.execute(f"PRAGMA {name}")
            seen[name] = cursor.fetchone()[0]
        cursor.execute("SELECT count(*) FROM sqlite_temp_master")
        seen["tables"] = cursor.fetchone()[0]
        cursor.execute("PRAGMA database_list")
        seen["files"] = [row[1] for row in cursor.fetchall() if row[1] != "temp"]
        cursor.execute("SELECT count(*) FROM pragma_function_list WHERE name = 'left_behind'")
        seen["functions"] = cursor.fetchone()[0]
    return seen


def who() -> list[int]:
    """Which thread, and which session of the server; 0 where there is no server."""
    if connection.vendor != "postgresql":
        return [threading.get_ident(), 0]
    connection.ensure_connection()
    driver: Any = connection.connection
    return [threading.get_ident(), driver.info.backend_pid]


SAID: list[Any] = []
"""What handlers of this process have told, in order."""


def _do(what: str) -> None:
    if what == "leave":
        leave()
    if what == "leave_open":
        transaction.atomic().__enter__()
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock(4711)")
    if what == "beside":
        GATES["beside"].pass_through()
    if what == "raise":
        leave()
        raise LookupError(what)
    SAID.append((what, found() if what == "look" else None, who()))


@activity(name="sessions.sync", retry=ONCE)
def in_sync(what: str) -> None:
    """In a plain handler."""
    _do(what)


@activity(name="sessions.transactional", retry=ONCE, transactional=True)
def in_transactional(what: str) -> None:
    """In a handler whose writes are committed with its completion."""
    _do(what)


@activity(name="sessions.async", retry=ONCE)
async def in_async(what: str) -> None:
    """Where Django's async ORM works."""
    await sync_to_async(_do, thread_sensitive=True)(what)


@activity(name="sessions.to_thread", retry=ONCE)
async def in_to_thread(what: str) -> None:
    """On a thread of the loop's executor."""
    await asyncio.to_thread(_do, what)


@activity(name="sessions.not_sensitive", retry=ONCE)
async def in_not_sensitive(what: str) -> None:
    """On a thread of the loop's executor, by Django's means."""
    await sync_to_async(_do, thread_sensitive=False)(what)


@activity(name="sessions.own_loop", retry=ONCE)
def in_own_loop(what: str) -> None:
    """In a loop of its own, below a sync handler."""
    asyncio.run(sync_to_async(_do, thread_sensitive=True)(what))


@activity(name="sessions.bridged", retry=ONCE)
def in_bridged(what: str) -> None:
    """In async code below a sync handler."""
    async_to_sync(sync_to_async(_do, thread_sensitive=True))(what)


@activity(name="sessions.nothing", retry=ONCE)
def nothing(what: str) -> None:
    """Use no connection."""
    SAID.append((what, None, [threading.get_ident()]))


@activity(name="sessions.driver", retry=ONCE)
def in_driver(what: str) -> None:
    """Change what the driver keeps on its own side, where no statement resets it."""
    connection.ensure_connection()
    driver: Any = connection.connection
    if what == "leave":
        if connection.vendor == "postgresql":
            from psycopg import IsolationLevel

            driver.isolation_level = IsolationLevel.SERIALIZABLE
            driver.add_notify_handler(print)
        else:
            driver.create_function("left_behind", 0, lambda: 1)
    if what == "leave types" and connection.vendor == "postgresql":
        from psycopg.types.string import TextLoader

        driver.adapters.register_loader("int8", TextLoader)
    SAID.append((what, found() if what == "look" else None, who()))


@activity(name="sessions.many_queries", retry=ONCE)
def same_query_many_times(what: str) -> None:
    """Run a query so often that the driver prepares it, if it may."""
    for number in range(20):
        assert list(Entry.objects.filter(amount=number)) == []
    SAID.append((what, None, who()))


@activity(name="sessions.iterator", retry=ONCE)
def in_iterator(what: str) -> None:
    """Begin an iterator, which has a cursor of the server, and drop it so that only the garbage collector ends it."""
    Entry.objects.bulk_create(Entry(label=what, amount=number) for number in range(5))
    rows = iter(Entry.objects.iterator(chunk_size=1))
    next(rows)
    cycle: list[Any] = [rows]
    cycle.append(cycle)
    SAID.append((what, None, who()))


@activity(name="sessions.collector", retry=ONCE, transactional=True)
def in_collector(what: str) -> None:
    """Have the garbage collected in the middle of a transaction."""
    Entry.objects.create(label=what)
    gc.collect()
    Entry.objects.create(label=what)
    SAID.append((what, None, who()))


AFTER: dict[str, Any] = {}


@activity(name="sessions.leaves_a_task", retry=ONCE)
async def leaves_a_task(what: str) -> None:
    """End, and leave a task that asks for the database once another handler is in a transaction."""
    AFTER.update(begun=asyncio.Event(), asked=asyncio.Event())

    async def ask() -> None:
        await sync_to_async(who)()  # on the handler's own thread, as long as that is there
        AFTER["ready"].set()
        await AFTER["begun"].wait()
        try:
            for number in range(2):
                free = await sync_to_async(lambda: connection.get_autocommit() and not connection.in_atomic_block)()
                SAID.append((f"{what} {number}", free, await sync_to_async(who)()))
                await sync_to_async(transaction.set_autocommit)(False)
        finally:
            AFTER["asked"].set()

    AFTER["ready"] = asyncio.Event()
    AFTER["task"] = asyncio.get_running_loop().create_task(ask())
    await AFTER["ready"].wait()


@activity(name="sessions.beside_a_task", retry=ONCE)
async def beside_a_task(what: str) -> None:
    """Be in a transaction while the task asks."""
    block = transaction.atomic()
    await sync_to_async(block.__enter__)()
    AFTER["begun"].set()
    await AFTER["asked"].wait()
    SAID.append((what, await sync_to_async(lambda: len(connection.atomic_blocks))(), await sync_to_async(who)()))
    await sync_to_async(block.__exit__)(None, None, None)


@activity(name="sessions.python", retry=ONCE)
def in_python(what: str) -> None:
    """What Python and Django keep for a thread or a context."""
    _python(what)


@activity(name="sessions.python_async", retry=ONCE)
async def in_python_async(what: str) -> None:
    """The same in a task, and in the thread of its database calls."""
    _python(what)
    await sync_to_async(_python, thread_sensitive=True)(what)


def _python(what: str) -> None:
    if what == "leave":
        timezone.activate("Asia/Tokyo")
        translation.activate("ja")
        decimal.getcontext().prec = 3
        WORD.set("left behind")
        structlog.contextvars.bind_contextvars(left_behind=os.getpid())
    seen = [
        timezone.get_current_timezone_name(), translation.get_language(), decimal.getcontext().prec, WORD.get(),
        "left_behind" in structlog.contextvars.get_contextvars(),
    ]  # fmt: skip
    SAID.append((what, seen, []))
