"""Keeps what a handler leaves in a database session from the next handler."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from durable.conf import settings
from durable.kernel.texts.failure import for_log
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.isolation")

_DRIVERS_OWN = (
    "autocommit",
    "isolation_level",
    "read_only",
    "readonly",
    "deferrable",
    "prepare_threshold",
    "row_factory",
    "cursor_factory",
    "server_cursor_factory",
    "encoding",
)
"""What a driver keeps on its side of a session, where no statement resets it: psycopg, psycopg2."""


class Watch:
    """Replaces `ensure_connection`, with which every use of a connection begins, and records that it was used."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection: Any = connection
        self._driver: Any = None
        self._shape: tuple[Any, ...] = ()
        self._cursors: weakref.WeakSet[Any] = weakref.WeakSet()
        self.used = connection.connection is not None

    def __call__(self) -> None:
        self.used = True
        before = self._connection.connection
        type(self._connection).ensure_connection(self._connection)
        if self._connection.connection is not before:  # connecting comes by here again, half done
            self.made()

    def made(self) -> None:
        """The session is new, or as good as new: remembers the state of the driver's side, to compare with later."""
        self._driver = self._connection.connection
        self._shape = _shape(self._driver)

    def chunked_cursor(self) -> Any:
        """Replaces `chunked_cursor`, and records the server-side cursors that `QuerySet.iterator()` opens."""
        cursor = type(self._connection).chunked_cursor(self._connection)
        if getattr(cursor, "name", None):
            self._cursors.add(cursor)
        return cursor

    def is_as_it_was_made(self) -> bool:
        """Whether the driver's side of the session is what it was when the session began.

        Not if an iterator was begun and dropped: Python closes its cursor some time later, which fails the transaction
        that is open then, since the server no longer knows the cursor.
        """
        driver = self._connection.connection
        left = [cursor for cursor in self._cursors if not cursor.closed]
        self._cursors.clear()
        return driver is self._driver and _shape(driver) == self._shape and not left


def begin() -> None:
    """Before a handler, on its thread: refreshes its connections, and from now on records which of them are used."""
    connections[settings.database_alias]  # there is a wrapper from now on; others are looked at once they are used
    opened = connections.all(initialized_only=True)
    hygiene.refresh(opened)
    if not settings.reset_connections:
        return
    for connection in opened:
        seen = vars(connection).get("ensure_connection")
        if isinstance(seen, Watch):
            seen.used = False
        else:
            seen = Watch(connection)
            vars(connection).update(ensure_connection=seen, chunked_cursor=seen.chunked_cursor)


def leave() -> None:
    """After a handler, on its thread: reset what it used, and give pools back what came from them. Raises nothing."""
    opened = connections.all(initialized_only=True)
    if settings.reset_connections:
        _reset(opened)
    with suppress(Exception):  # a pool that the project has closed, or a class of its own
        hygiene.give_back(opened)


def _reset(opened: Iterable[BaseDatabaseWrapper]) -> None:
    """Makes each connection that was used what a new one is. Raises nothing.

    On PostgreSQL by `DISCARD ALL` and what Django does to a new session, listeners of `connection_created` included;
    elsewhere, and whenever that cannot be done, by closing. Connections that were not used are left alone, and so are
    SQLite databases in memory, which a close would end. A transaction that is still open has to be ended before.
    """
    for connection in opened:
        if connection.connection is None or connection.in_atomic_block:
            continue
        seen = vars(connection).get("ensure_connection")
        if isinstance(seen, Watch) and not seen.used:
            continue
        if not (isinstance(seen, Watch) and connection.vendor == "postgresql" and seen.is_as_it_was_made()):
            _close(connection)
            continue
        try:
            _discard_all(connection)
            seen.made()  # listeners of `connection_created` may have registered types once more
            seen.used = False
        # Listeners of the project's run in there. Whatever they, the driver or the server raise: a new session is one.
        except BaseException as error:
            log.debug("connection_not_reset", alias=connection.alias, exc_info=for_log(error))
            _close(connection)


def _discard_all(connection: Any) -> None:
    driver = connection.connection
    with driver.cursor() as cursor:
        cursor.execute("DISCARD ALL")
    prepared = getattr(driver, "_prepared", None)
    if prepared is not None:
        prepared.clear()  # otherwise psycopg would keep using names of statements that the server has forgotten
    connection.init_connection_state()
    if getattr(connection, "pool", None):
        connection._configure_connection(driver)  # Django leaves that to the pool, which does it once
    connection_created.send(sender=type(connection), connection=connection)


def _close(connection: BaseDatabaseWrapper) -> None:
    with suppress(Exception):  # it was broken already
        hygiene.end_session(connection)


def _shape(driver: Any) -> tuple[Any, ...]:
    own = tuple(getattr(driver, name, None) for name in _DRIVERS_OWN)
    listeners = tuple(len(getattr(driver, name, ())) for name in ("_notice_handlers", "_notify_handlers"))
    return own + listeners + tuple(dict(registered) for registered in _adapters(driver))


def _adapters(driver: Any) -> list[dict[Any, Any]]:
    """By which classes psycopg turns values of this connection into the server's, and back."""
    adapters = getattr(driver, "adapters", None)
    dumpers = getattr(adapters, "_dumpers", {})
    return [*dumpers.values(), *getattr(adapters, "_dumpers_by_oid", ()), *getattr(adapters, "_loaders", ())]
