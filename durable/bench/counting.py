"""How many statements and commits the engine makes, counted on the connections of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

_READS = ("SELECT", "PRAGMA", "SET", "SHOW")
_CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


@dataclass(slots=True)
class Counts:
    """The counts so far. A commit that wrote nothing costs no flush, and is not counted."""

    statements: int = 0
    commits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def so_far(self) -> tuple[int, int]:
        """Statements and commits so far, as one look."""
        with self.lock:
            return self.statements, self.commits


@contextmanager
def counting(alias: str) -> Iterator[Counts]:
    """Counts on every connection to `alias` that is opened inside the block, from any thread. This thread's is
    reopened, and once more afterwards.
    """
    counts = Counts()
    connections[alias].close()

    def watch(connection: BaseDatabaseWrapper, **_extra: Any) -> None:
        if connection.alias == alias:
            _Watch(connection, counts)

    connection_created.connect(watch)
    try:
        yield counts
    finally:
        connection_created.disconnect(watch)
        connections[alias].close()


class _Watch:
    """Counts one connection's statements, and its commits: of transactions that wrote, and of lone writes."""

    def __init__(self, connection: BaseDatabaseWrapper, counts: Counts) -> None:
        self._counts = counts
        self._wrote = False
        watched: Any = connection
        self._commit: Callable[[], None] = watched._commit
        self._rollback: Callable[[], None] = watched._rollback
        connection.execute_wrappers.append(self._execute)
        watched._commit, watched._rollback = self._committed, self._rolled_back

    def _execute(self, execute: Any, sql: str, params: Any, many: Any, context: dict[str, Any]) -> Any:
        answer = execute(sql, params, many, context)
        connection: BaseDatabaseWrapper = context["connection"]
        if sql.startswith(_CONTROL):
            return answer
        writes = not sql.lstrip().upper().startswith(_READS)
        lone = writes and not connection.in_atomic_block
        with self._counts.lock:
            self._counts.statements += 1
            self._counts.commits += lone
        self._wrote = self._wrote or (writes and not lone)
        return answer

    def _committed(self) -> None:
        self._commit()
        with self._counts.lock:
            self._counts.commits += self._wrote
        self._wrote = False

    def _rolled_back(self) -> None:
        self._rollback()
        self._wrote = False
