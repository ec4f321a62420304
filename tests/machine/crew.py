"""The crew: threads that each have a database connection and a cache of their own, as workers and callers do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connection, connections, transaction

from durable.kernel.replay.cache import Cache
from tests.waiting import PATIENCE

Answer = TypeVar("Answer")

HANDS = ("anna", "bert", "cleo")
"""Those who do the work."""
CALLER = "dora"
"""The one who may keep a transaction open."""
CACHED = {"anna": 1000, "bert": 1, "cleo": 0, CALLER: 0}
"""One turns warm, one keeps a single workflow, one turns everything from cold."""

_IMPATIENCE = "SET lock_timeout = '10s'"
"""A lock that does not come is a fault of the test, and must not become a test that never ends."""


class Member:
    """One thread. Everything that it is asked to do happens on its own connection, one thing after the other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cache = Cache(CACHED[name])
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"crew-{name}", initializer=_be_impatient)

    def do(self, what: Callable[[], Answer]) -> Answer:
        """Have it done, and answer what it answered; whatever it raised is raised here."""
        return self._thread.submit(what).result(PATIENCE)

    @contextmanager
    def holding(self, sql: str, key: Any) -> Iterator[None]:
        """Keep what this statement locks for the length of the block."""
        self.do(begin)
        try:
            self.do(lambda: _run(sql, key))
            yield
        finally:
            self.do(lambda: end(keep=False))

    def leave(self) -> None:
        """Close the connection and end the thread."""
        self.do(self.cache.drop_all)
        self.do(connections.close_all)
        self._thread.shutdown()


class Crew:
    """All of them."""

    def __init__(self) -> None:
        self.members = {name: Member(name) for name in (*HANDS, CALLER)}

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def forget(self) -> None:
        """As new: no transaction is open, and nothing is cached."""
        for member in self.members.values():
            member.do(_roll_back)
            member.do(member.cache.drop_all)

    def leave(self) -> None:
        """End all threads."""
        self.forget()
        for member in self.members.values():
            member.leave()


def _be_impatient() -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_IMPATIENCE)


def _run(sql: str, key: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, [key])


def _roll_back() -> None:
    if connection.in_atomic_block:
        transaction.set_rollback(True)
        _open.pop(connection.alias).__exit__(None, None, None)


_open: dict[str, Any] = {}


def begin() -> None:
    """Open a transaction on this thread's connection and leave it open."""
    block = transaction.atomic()
    block.__enter__()
    _open[connection.alias] = block


def end(*, keep: bool) -> None:
    """Commit it, or roll it back."""
    if not keep:
        transaction.set_rollback(True)
    _open.pop(connection.alias).__exit__(None, None, None)
