"""Lending a transaction of ours to user code, and having it back as it was. No `atomic` in here."""

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
    """How a connection stands. Django counts only the transactions that were begun through it: a `BEGIN` through a
    cursor is seen by the driver alone. Of other databases than ours it is Django that is asked.
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
    """Let user code (`to`) work inside this transaction of ours, and have it back as it was lent.

    Blocks that it entered and did not leave are taken off, so that what ends next is this transaction and not one of
    its savepoints. Raises `TransactionSpoilt` when what it did can not be committed together with what follows.
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
    """Write in a transaction that was lent to user code (`of`), and was ours to write in before.

    Raises `TransactionSpoilt` where the server refuses that now, since user code has changed the role, the search path
    or the mode of the transaction: delivering it again would end the same.
    """
    try:
        yield
    except DjangoDatabaseError as error:
        if forbids_writing(error) and not _is_standby(connection):
            raise TransactionSpoilt(of, f"has shut durable out of its transaction ({sentence(error)})") from error
        raise


def _is_standby(connection: BaseDatabaseWrapper) -> bool:
    """Whether the server has said that nobody writes there. Asks nothing."""
    raw: Any = connection.connection
    return connection.vendor == "postgresql" and raw.info.parameter_status("in_hot_standby") == "on"


def _spoilt(connection: BaseDatabaseWrapper) -> str:
    """What user code did to the transaction that it was lent, in words; empty when all is well, or when the server is
    gone, which is nobody's fault and is said by the next statement.
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
