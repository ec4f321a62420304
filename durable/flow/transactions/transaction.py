"""Whose transaction it is: our own, retried as a whole, or the caller's, joined and never retried."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from django.db import Error as DjangoDatabaseError
from django.db import InterfaceError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.errors import StoreUnavailable, TransactionOpen
from durable.flow.transactions.commits import Commit
from durable.flow.transactions.faults import PASSING, Fault, classify, meets_lock, origin, sqlstate
from durable.flow.transactions.lending import Session, session
from durable.logs import get_logger, words
from durable.metrics import counting, series
from durable.outbound import after_commit, holding, release
from durable.store.connections import sql, unpooled
from durable.store.connections.sql import LOCK_WAIT

T = TypeVar("T")

logger = get_logger("durable.flow")


class Patience(Enum):
    """How often an own transaction is tried."""

    ONCE = "once"
    JITTERED = "five times, with jittered back-off"
    BRIEF = "the same, but only two tries when blocked by a lock: a person waits for the answer"


_TRIES = 5
_LOCK_TRIES = 2
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0
_LOCK_TIMEOUT = f"SET LOCAL lock_timeout = '{LOCK_WAIT}'"


def engine_connection() -> BaseDatabaseWrapper:
    """This thread's connection to the database of the engine's tables."""
    return connections[settings.database_alias]


def keep_out_of_the_pool() -> None:
    """On a thread of the engine's own: from now on it has its own connection, outside the project's pool."""
    unpooled.keep_out(settings.database_alias)


def store_is_away(error: BaseException) -> bool:
    """Whether the next statement would meet the same error: the connection or the server is gone, full, or (SQLite)
    locked as a whole. A lock on one row, a deadlock, or an error in one row's data does not affect the next row.
    """
    fault = classify(error)
    if fault is not Fault.RETRYABLE:
        return fault is Fault.NEW_CONNECTION
    return sqlstate(origin(error)[1]) not in PASSING


def is_passing(error: BaseException) -> bool:
    """Whether a later retry may succeed."""
    return classify(error) is not Fault.PERMANENT


@contextmanager
def short_waits(wait: str) -> Iterator[None]:
    """Limits lock waits of the transactions in this block to `wait` ("20ms"). On SQLite the project's busy timeout
    limits them.
    """
    with sql.waiting(wait):
        yield


class Waits(Enum):
    """Whether lock waits of a transaction are bounded from its beginning."""

    BOUNDED = "bounded"
    LATER = "bounded when the body says so, or by its first statement"


def own(
    body: Callable[[BaseDatabaseWrapper], T],
    *,
    patience: Patience = Patience.JITTERED,
    waits: Waits = Waits.BOUNDED,
    commit: Commit[T] | None = None,
) -> T:
    """Runs `body` in a transaction of our own and returns its result after the commit.

    It never nests in another transaction, begins with IMMEDIATE on SQLite, bounds its lock waits, and is repeated as a
    whole on the retryable errors, on a new connection if the old one is gone. `body` must fix its ids before the first
    try and call `commit.sent` at its end, so that a try whose commit succeeded without a reply is recognised: the next
    try asks `commit` first, and returns what was made. Lines and signals of the body are emitted after the commit,
    those of a failed try never; `commit` gets them.
    """
    return retried(partial(_once, body, waits, commit), patience=patience)


def _once(body: Callable[[BaseDatabaseWrapper], T], waits: Waits, commit: Commit[T] | None) -> T:
    connection = engine_connection()
    with holding() as held:
        try:
            with begin(connection):
                if waits is Waits.BOUNDED:
                    bound_waits(connection)
                made = None if commit is None else commit.made(connection)
                answer = body(connection) if made is None else made
        except (DjangoDatabaseError, InterfaceError):
            if commit is not None:
                commit.keep(held)
            raise
    counting.add(series.COMMITS)
    release(held)
    return answer


def retried(body: Callable[[], T], *, patience: Patience = Patience.JITTERED) -> T:
    """Runs a body that begins and ends its own transactions, and repeats it as a whole on the retryable errors.

    A lost connection is closed, whether or not there is another try. Inside an open transaction (a test's) nothing is
    repeated.
    """
    connection = engine_connection()
    tried = locked = 0
    while True:
        tried += 1
        try:
            return body()
        except (DjangoDatabaseError, InterfaceError) as error:
            fault = classify(error)
            if fault is Fault.NEW_CONNECTION and not connection.in_atomic_block:
                connection.close()
            if patience is Patience.ONCE or fault is Fault.PERMANENT or tried == _TRIES or connection.in_atomic_block:
                raise
            locked += meets_lock(error)
            if patience is Patience.BRIEF and locked == _LOCK_TRIES:
                raise
            logger.debug("transaction.retried", error=words(error), tried=tried)
            time.sleep(min(_LONGEST_WAIT, _FIRST_WAIT * 2**tried) * random.uniform(0.5, 1.5))


def verb(body: Callable[[BaseDatabaseWrapper], T], commit: Commit[T]) -> T:
    """Runs an operator's change as `own` does. Raises `StoreUnavailable` after two seconds if another session's lock
    prevents it; other database errors are raised unchanged.
    """
    try:
        return own(_saying(body, commit), patience=Patience.BRIEF, commit=commit)
    except DjangoDatabaseError as error:
        if not meets_lock(error):
            raise
        raise StoreUnavailable(error, outcome_unknown=commit.in_doubt, locked=True) from error


def certain(body: Callable[[BaseDatabaseWrapper], T], commit: Commit[T]) -> T:
    """Runs `body` as `own` does. If the last try failed too, returns what it has made after all, or raises
    `StoreUnavailable`, which says whether nothing was changed or the outcome is unknown, and whether the cause was
    another session's lock.
    """
    try:
        return own(_saying(body, commit), patience=Patience.BRIEF, commit=commit)
    except (DjangoDatabaseError, InterfaceError) as error:
        if commit.in_doubt:
            try:
                made = own(commit.made, patience=Patience.BRIEF)
            except (DjangoDatabaseError, InterfaceError) as again:
                logger.warning("transaction.outcome_unknown", error=words(again))
            else:
                if made is not None:
                    return made
        raise StoreUnavailable(error, outcome_unknown=commit.in_doubt, locked=meets_lock(error)) from error


def _saying(body: Callable[[BaseDatabaseWrapper], T], commit: Commit[T]) -> Callable[[BaseDatabaseWrapper], T]:
    def said(connection: BaseDatabaseWrapper) -> T:
        answer = body(connection)
        commit.sent()
        return answer

    return said


def reading(body: Callable[[BaseDatabaseWrapper], T]) -> T:
    """Runs a body that only reads, outside any transaction of ours, and once more on a new connection if the old one is
    lost.
    """
    connection = engine_connection()
    try:
        return body(connection)
    except (DjangoDatabaseError, InterfaceError) as error:
        if classify(error) is not Fault.NEW_CONNECTION or connection.in_atomic_block:
            raise
        connection.close()
        return body(connection)


def ahead_of_the_lock(body: Callable[[BaseDatabaseWrapper], T]) -> T | None:
    """Runs a body that only reads, before `joined` takes SQLite's single write lock. Returns None without running it if
    there is no such lock, or if the caller's transaction may already hold it.
    """
    connection = engine_connection()
    if not sql.has_one_writer(connection) or connection.in_atomic_block or not connection.get_autocommit():
        return None
    return reading(body)


def joined(body: Callable[[BaseDatabaseWrapper], T]) -> T:
    """Runs a body that writes (one statement on PostgreSQL) in the caller's transaction, or by itself if there is none.
    Never retried: errors are raised unchanged. Its lines and signals are emitted after the caller's commit; if the
    caller rolls back, they are dropped with the writes.
    """
    connection = engine_connection()
    if connection.vendor != "postgresql":
        return joined_steps(body)
    with holding() as held:
        answer = body(connection)
    after_commit(connection, held)
    return answer


def joined_steps(body: Callable[[BaseDatabaseWrapper], T]) -> T:
    """The same for a body of several statements: if the caller catches the error of one, the others are rolled back,
    too.
    """
    connection = engine_connection()
    with holding() as held:
        if connection.in_atomic_block:
            with transaction.atomic(using=connection.alias):
                answer = body(connection)
        else:
            with _immediate(connection), transaction.atomic(using=connection.alias):
                answer = body(connection)
    after_commit(connection, held)
    return answer


def joined_bounded(body: Callable[[BaseDatabaseWrapper], T]) -> T:
    """The same for a body that waits for locks. In a transaction of the caller's, its own `lock_timeout` applies, and
    the error is raised unchanged. Without one, the body waits as a transaction of ours does, and raises
    `StoreUnavailable` if a lock is not granted.
    """
    connection = engine_connection()
    try:
        demand_none(connection)
    except TransactionOpen:
        return joined_steps(body)
    if connection.in_atomic_block or connection.vendor != "postgresql":
        return joined_steps(body)

    def bounded(connection: BaseDatabaseWrapper) -> T:
        bound_waits(connection)
        return body(connection)

    for tried in range(_LOCK_TRIES):
        try:
            return joined_steps(bounded)
        except DjangoDatabaseError as error:
            if not meets_lock(error):
                raise
            if tried + 1 == _LOCK_TRIES:
                raise StoreUnavailable(error, outcome_unknown=False, locked=True) from error
    raise AssertionError("Each try answers or raises.")


def demand_none(connection: BaseDatabaseWrapper | None = None) -> None:
    """Raises `TransactionOpen` if a transaction is open on this connection (None: the engine's), however it was begun:
    changes in it would only be committed if and when its owner commits. Does not query the server.

    The transaction in which Django's `TestCase` wraps a test does not count.
    """
    connection = engine_connection() if connection is None else connection
    if connection.in_atomic_block:
        innermost = connection.atomic_blocks[-1] if connection.atomic_blocks else None
        if not getattr(innermost, "_from_testcase", False):
            raise TransactionOpen
    elif connection.connection is not None and (
        not connection.autocommit or session(connection) in (Session.OPEN, Session.ABORTED)
    ):
        raise TransactionOpen


@contextmanager
def begin(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """One transaction of our own, IMMEDIATE on SQLite. Raises `TransactionOpen` if it would nest in a caller's."""
    demand_none(connection)
    with _immediate(connection), transaction.atomic(using=connection.alias, durable=True):
        yield


def bound_waits(connection: BaseDatabaseWrapper) -> None:
    """From now on, a lock that is not granted within a second ends the transaction with a retryable error.

    On SQLite the wait is at BEGIN, and the project's busy timeout limits it.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            chosen = sql.chosen_wait()
            cursor.execute(f"SET LOCAL lock_timeout = '{chosen}'" if chosen else _LOCK_TIMEOUT)


@contextmanager
def _immediate(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Makes the next BEGIN on SQLite take the write lock at once, whatever the project's settings say: a transaction
    that reads first and then writes cannot wait for the lock, but fails.
    """
    if connection.vendor != "sqlite":
        yield
        return
    # The mode belongs to the open connection, so connect first: connecting later would reset it.
    connection.ensure_connection()
    sqlite: Any = connection
    before = sqlite.transaction_mode
    sqlite.transaction_mode = "IMMEDIATE"
    try:
        yield
    finally:
        sqlite.transaction_mode = before
