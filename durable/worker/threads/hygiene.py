"""The state of this thread's database connections between two pieces of work."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from django.db import Error as DatabaseFault
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.flow.transactions.lending import Session, session
from durable.store.connections import unpooled

PROBE_AFTER = 5.0
"""Seconds of idleness after which a connection is checked. A server, a balancer or a firewall may have dropped it
silently; checking before every step would cost a round trip each time.
"""


class _LastUse(threading.local):
    at: float | None = None


_last_use = _LastUse()


def refresh(opened: Iterable[BaseDatabaseWrapper] | None = None) -> None:
    """Before work: closes connections of this thread (those `opened`, if given) that are broken, ended by the server,
    too old by `CONN_MAX_AGE`, or dead after a long pause.

    `CONN_MAX_AGE = 0` means "close after each request" and would mean a new connection for each activity here; such
    connections are kept while the thread is busy, and `rest` closes them.
    """
    now = time.monotonic()
    idle = now - _last_use.at if _last_use.at is not None else 0.0
    _last_use.at = now
    for connection in connections.all(initialized_only=True) if opened is None else opened:
        connection.queries_log.clear()  # with DEBUG on it would keep the text of the last 9,000 statements
        if connection.connection is None or connection.in_atomic_block:
            continue
        if connection.settings_dict["CONN_MAX_AGE"] != 0:
            connection.close_if_unusable_or_obsolete()
        elif connection.errors_occurred:
            _close_unless_usable(connection)
        if connection.connection is not None and (idle > PROBE_AFTER or _has_word(connection)):
            _close_unless_usable(connection)


def connect() -> None:
    """Before a verb of the engine, on a thread of its own: have a connection to its database, outside the project's
    pool. Raises what connecting raises.
    """
    unpooled.keep_out(settings.database_alias)
    connect_as_the_host_does()
    _read_committed(connections[settings.database_alias])


def _read_committed(connection: BaseDatabaseWrapper) -> None:
    """Makes the engine's own transactions READ COMMITTED, whatever the project's setting: at another level they would
    fail to serialize instead of waiting for locks, and a result that cannot be written in five tries is given up. Costs
    no statement: it is part of BEGIN.
    """
    if connection.vendor != "postgresql" or connection.in_atomic_block:
        return
    wrapper: Any = connection
    level = wrapper.Database.IsolationLevel.READ_COMMITTED
    if wrapper.connection.isolation_level is not level:
        with connection.wrap_database_errors:
            wrapper.connection.isolation_level = level


def connect_as_the_host_does() -> None:
    """Before a verb of the engine on a handler's thread: have a connection to its database, from the pool if there is
    one. Raises what connecting raises.
    """
    refresh()
    connections[settings.database_alias].ensure_connection()


def rest() -> None:
    """A handler's thread has nothing to do: close its connections. Without `RESET_CONNECTIONS`, those that Django would
    close at the end of a request.
    """
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            continue
        if settings.reset_connections:
            connection.close()
        else:
            connection.close_if_unusable_or_obsolete()


def drop() -> None:
    """Closes all connections of this thread; the next statement opens new ones."""
    for connection in connections.all(initialized_only=True):
        _discard(connection)


def left_open() -> list[str]:
    """After a handler: closes connections on which a transaction was left open, and returns their aliases.

    Also asks the driver: Django does not know of a transaction begun with a plain `BEGIN`; the writes of the next
    handlers of this thread would go into it, and be lost.
    """
    aliases = []
    for connection in connections.all(initialized_only=True):
        if is_open(connection):
            aliases.append(connection.alias)
            end_session(connection)
    return aliases


def end_session(connection: BaseDatabaseWrapper) -> None:
    """Closes a connection so that its session ends, even one of a pool, which would otherwise hand it out unchanged."""
    driver: Any = connection.connection
    if driver is not None and unpooled.is_pooled(connection):
        with suppress(Exception):  # whatever a driver says to that, the pool looks at what it gets back
            driver.close()
    _discard(connection)


def give_back(opened: Iterable[BaseDatabaseWrapper]) -> None:
    """Returns connections of this thread to their pools, unless it is in a transaction: others wait for them, and
    getting one again is cheap.
    """
    for connection in opened:
        if connection.connection is not None and unpooled.is_pooled(connection) and not connection.in_atomic_block:
            _discard(connection)


def is_open(connection: BaseDatabaseWrapper) -> bool:
    """Whether a transaction is open here, begun through Django or directly through the driver."""
    if connection.connection is None:
        return False
    if connection.in_atomic_block or not connection.settings_dict["AUTOCOMMIT"]:
        return connection.in_atomic_block
    return not connection.autocommit or session(connection) in (Session.OPEN, Session.ABORTED)


def _discard(connection: BaseDatabaseWrapper) -> None:
    with suppress(DatabaseFault):  # it was already broken, which is why it is closed
        connection.close()
    if connection.in_atomic_block:
        # Django keeps a closed connection for the atomic block that it believes to be in; a new wrapper knows of none.
        del connections[connection.alias]
        if unpooled.is_kept_out(connection):
            unpooled.keep_out(connection.alias)


def _has_word(connection: BaseDatabaseWrapper) -> bool:
    """Whether the server has sent something unrequested: usually, that this session has ended. Costs no round trip;
    without it the next handler of this thread would meet the error, and lose an attempt.
    """
    if connection.vendor != "postgresql":
        return False
    wrapper: Any = connection
    driver = wrapper.connection
    try:
        socket = select.poll()
        socket.register(driver.fileno(), select.POLLIN)
        return bool(socket.poll(0))
    except (OSError, ValueError, wrapper.Database.Error):  # closed on this side already
        return True


def _close_unless_usable(connection: BaseDatabaseWrapper) -> None:
    if connection.is_usable():
        connection.errors_occurred = False
    else:
        connection.close()
