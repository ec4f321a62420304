"""The database connections between two handlers of one thread, the test's: what a handler left behind is undone.

A worker closes a connection on which a handler left a transaction open. Here it may be the test's own, or hold a
database in memory, and has to stay.
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
    """Where an open transaction stood before the handler, and the savepoint to which it can go back."""

    depth: int
    blocks: int
    savepoint: str


@contextmanager
def cleared() -> Iterator[Callable[[], list[str]]]:
    """Around a handler. Yields what is to be called behind it: it mends the connections, and answers the aliases on
    which the handler left a transaction open.

    Within the test's own transactions a database error in a handler costs that attempt only: a worker's handlers run
    without a transaction, where a failed statement leaves the connection in order; inside one, PostgreSQL refuses
    everything that follows.
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
    """Within the test's transaction: go back to the savepoint where something is wrong. Whether a block was left."""
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
    """Roll back what was begun on a connection that had no transaction before. Always true: it was left open."""
    connection.in_atomic_block = False
    connection.needs_rollback = False
    connection.savepoint_ids.clear()
    connection.atomic_blocks.clear()
    connection.rollback()
    connection.set_autocommit(True)
    return True
