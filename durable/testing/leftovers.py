"""Repairs the database connections of the test's thread after each handler.

A worker closes a connection on which a handler left a transaction open. Here the connection may be the test's own, or
have a database in memory, and has to stay open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import Error as DatabaseFault
from django.db import connections

from durable.worker.threads import hygiene


@dataclass(frozen=True, slots=True)
class _Mark:
    """The state of an open transaction before the handler, and the savepoint to roll back to."""

    depth: int
    blocks: int
    savepoint: str


@contextmanager
def cleared() -> Iterator[Callable[[], list[str]]]:
    """Wraps a handler. Yields the function to call after it, which repairs the connections and returns the aliases on
    which the handler left a transaction open.

    Within the test's own transactions, a database error in a handler affects only that attempt. In a worker, handlers
    run without a transaction, where a failed statement does no harm to the connection; inside a transaction, PostgreSQL
    refuses all statements after it.
    """
    marks: dict[str, _Mark] = {}
    for connection in connections.all(initialized_only=True):
        outer: Any = connection
        if outer.connection is not None and outer.in_atomic_block and (savepoint := outer.savepoint()) is not None:
            marks[outer.alias] = _Mark(len(outer.savepoint_ids), len(outer.atomic_blocks), savepoint)

    def mend() -> list[str]:
        left = []
        for connection in connections.all(initialized_only=True):
            mark = marks.get(connection.alias)
            was_left = _rewind(connection, mark) if mark else hygiene.is_open(connection) and _end(connection)
            if was_left:
                left.append(connection.alias)
        return left

    yield mend


def _rewind(connection: Any, mark: _Mark) -> bool:
    """Within the test's transaction: roll back to the savepoint if something is wrong. Returns whether a block was left
    open.
    """
    was_left = len(connection.savepoint_ids) > mark.depth
    del connection.savepoint_ids[mark.depth :]
    del connection.atomic_blocks[mark.blocks :]
    try:
        if connection.needs_rollback or was_left:
            raise DatabaseFault
        connection.savepoint_commit(mark.savepoint)
    except DatabaseFault:
        connection.needs_rollback = False
        connection.savepoint_rollback(mark.savepoint)
    return was_left


def _end(connection: Any) -> bool:
    """Rolls back a transaction on a connection that had none before. Always returns True: it was left open."""
    connection.in_atomic_block = False
    connection.needs_rollback = False
    connection.savepoint_ids.clear()
    connection.atomic_blocks.clear()
    connection.rollback()
    connection.set_autocommit(True)
    return True
