"""Lends a transaction of ours to user code, and checks it afterwards. No `atomic` in here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

from django.db import Error as DjangoDatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.errors import TransactionSpoilt
from durable.flow.transactions.faults import forbids_writing
from durable.kernel.texts.failure import sentence
from durable.outbound import aside

T = TypeVar("T")


class Session(Enum):
    """What the driver says about a connection's transaction, whatever Django believes."""

    NONE = "no transaction"
    OPEN = "in a transaction"
    ABORTED = "in a transaction that can only be rolled back"
    GONE = "no connection"


_LIBPQ = {0: Session.NONE, 1: Session.OPEN, 2: Session.OPEN, 3: Session.ABORTED}


def session(connection: BaseDatabaseWrapper) -> Session:
    """The transaction state of a connection. Django knows only transactions that were begun through it; only the driver
    sees a `BEGIN` through a cursor. For other databases than ours, Django decides.
    """
    wrapper: Any = connection
    raw = wrapper.connection
    if raw is None:
        return Session.GONE
    if connection.vendor == "postgresql":
        return _LIBPQ.get(int(raw.info.transaction_status), Session.GONE)
    if connection.vendor == "sqlite":
        try:
            return Session.OPEN if raw.in_transaction else Session.NONE
        except wrapper.Database.Error:  # closed behind Django's back
            return Session.GONE
    return Session.OPEN if connection.in_atomic_block else Session.NONE


def lent(connection: BaseDatabaseWrapper, work: Callable[[], T], *, to: str) -> T:
    """Lets user code (`to`) work inside this transaction of ours, and restores its state afterwards.

    Blocks that the code entered and did not leave are removed, so that the next end is that of this transaction and not
    of a savepoint. Raises `TransactionSpoilt` if its writes cannot be committed together with ours.
    """
    django: Any = connection
    depth, blocks = len(django.savepoint_ids), len(django.atomic_blocks)
    try:
        with aside():
            answer = work()
        entered = len(django.savepoint_ids) > depth
    finally:
        del django.savepoint_ids[depth:]
        del django.atomic_blocks[blocks:]
    spoilt = "did not leave an atomic block that it had entered" if entered else _spoilt(connection)
    if spoilt:
        raise TransactionSpoilt(to, spoilt)
    return answer


@contextmanager
def had_back(connection: BaseDatabaseWrapper, *, of: str) -> Iterator[None]:
    """Writes in a transaction after user code (`of`) has used it.

    Raises `TransactionSpoilt` if the server refuses that because user code has changed the role, the search path or the
    mode of the transaction: delivering it again would have the same result.
    """
    try:
        yield
    except DjangoDatabaseError as error:
        if forbids_writing(error) and not _is_standby(connection):
            raise TransactionSpoilt(of, f"has shut durable out of its transaction ({sentence(error)})") from error
        raise


def _is_standby(connection: BaseDatabaseWrapper) -> bool:
    """Whether the server has said that writing is not allowed. Sends no statement."""
    raw: Any = connection.connection
    return connection.vendor == "postgresql" and raw.info.parameter_status("in_hot_standby") == "on"


def _spoilt(connection: BaseDatabaseWrapper) -> str:
    """What user code did to the transaction, in words; empty if all is well, or if the server is gone, which the next
    statement will report.
    """
    if connection.closed_in_transaction:
        return "closed the database connection"
    if connection.needs_rollback:
        return "marked its transaction to be rolled back"
    match session(connection):
        case Session.ABORTED:
            return "went on after a database error, which had undone its transaction"
        case Session.NONE:
            return "ended its transaction by itself"
        case _:
            return ""
