"""Two connections that meet at one statement."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from django.db import connection

from tests.waiting import PATIENCE, Gate, in_thread

Answer = TypeVar("Answer")


class Halted:
    """A call in a thread of its own that stops, in the middle of its transaction, before a statement with `words`."""

    def __init__(self, words: str, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        self.gate = Gate(f"statement with {words!r}")
        self.future: Future[Any] = in_thread(self._run, words, call, args, kwargs)
        self.gate.wait_for_arrival()

    def _run(self, words: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        def stop(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
            if words in sql:
                self.gate.pass_through()
            return execute(sql, params, many, context)

        with connection.execute_wrapper(stop):
            return call(*args, **kwargs)

    def go_on(self) -> Any:
        """Let it finish, and answer what it answers."""
        self.gate.open()
        return self.future.result(PATIENCE)


def waiting(call: Callable[..., Answer], /, *args: Any, **kwargs: Any) -> Future[Answer]:
    """Run a call in a thread, and answer when it waits for somebody else's lock.

    On PostgreSQL the server says so. On SQLite it has come to its BEGIN, which nobody passes who is not alone.
    """
    return waiting_at(1, call, *args, **kwargs)


def waiting_at(begin: int, call: Callable[..., Answer], /, *args: Any, **kwargs: Any) -> Future[Answer]:
    """The same for a call that begins transactions before, and waits in this one, counted from 1."""
    begun = Gate("begin")
    begun.open()

    def arrive(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("BEGIN"):
            begun.pass_through()
        return execute(sql, params, many, context)

    def run() -> Answer:
        with connection.execute_wrapper(arrive):
            return call(*args, **kwargs)

    future = in_thread(run)
    if connection.vendor == "sqlite":
        begun.wait_for_arrival(begin)
    else:
        _until_somebody_waits()
    assert not future.done()
    return future


def _until_somebody_waits() -> None:
    until = time.monotonic() + PATIENCE
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
                "AND cardinality(pg_blocking_pids(pid)) > 0 AND query LIKE '%durable_workflow%FOR NO KEY UPDATE%'"
            )
            if cursor.fetchone()[0]:
                return
    raise AssertionError(f"Nobody waited for the workflow's lock within {PATIENCE:g} s.")
