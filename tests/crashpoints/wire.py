"""The engine's wire to its database, statement by statement and commit by commit, and what may become of one of them.

Everything that goes over the wire is counted from 1. One of these points is where the fault strikes; before and behind
it nothing is touched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import FrameType
from typing import Any
from unittest import mock

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from tests.operations import faults

ALIAS = "default"


class Gone(BaseException):
    """The process ends here. No product code may catch this, and none may talk to the database behind it."""


class Kind(Enum):
    """What becomes of a point. Gone right behind a commit would be the same as gone at the next statement."""

    LOST = "statement fails, the connection is gone"
    BROKEN = "statement fails for good"
    UNDONE = "commit fails, nothing of it is done"
    UNREPORTED = "commit is done, and reported as a lost connection"
    GONE = "process gone at the statement"


AT_COMMITS = frozenset({Kind.UNDONE, Kind.UNREPORTED})


@dataclass(frozen=True)
class Place:
    """What stands at a point: the text, and which verb of the flow sent it."""

    text: str
    verb: str


@dataclass(frozen=True)
class Point:
    """The `number`-th statement, or commit, counted from 1; of those at a place that fits `where`, if that is given."""

    kind: Kind
    number: int
    where: Callable[[Place], bool] | None = None

    def __str__(self) -> str:
        return f"{self.kind.name} at {self.number}"


class Wire:
    """Counts, and strikes once. `place` remembers what every point was (slower: for the undisturbed run)."""

    def __init__(self, point: Point | None = None, *, place: Callable[[str], Place] | None = None) -> None:
        self.point = point
        self._fitting = 0
        self.statements = 0
        self.commits = 0
        self.statement_places: list[Place] = []
        self.commit_places: list[Place] = []
        self.struck = ""
        self._lost: Any = None
        self.dead = False
        self.on_death: Callable[[], None] = lambda: None
        self._place = place
        self._quiet = 0

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """What the story itself looks at is not the engine's."""
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    # --- statements ---

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if self._quiet:
            return execute(sql, params, many, context)
        connection: BaseDatabaseWrapper = context["connection"]
        self._mourn(connection)
        self.statements += 1
        if self._place:
            self.statement_places.append(self._place(sql))
        match self._due(sql, self.statements, at_commits=False):
            case Kind.LOST:
                self._lose(connection, sql)
            case Kind.BROKEN:
                self._break(execute, context, sql)
            case Kind.GONE:
                self._die(connection, sql)
            case _:
                pass
        if not _writes_by_itself(connection, sql):
            return execute(sql, params, many, context)
        return self._committing(connection, sql, lambda: execute(sql, params, many, context))

    # --- commits ---

    def commit(self, real: Callable[[BaseDatabaseWrapper], None], connection: BaseDatabaseWrapper) -> None:
        """In the place of Django's own."""
        if self._quiet:
            real(connection)
        else:
            self._mourn(connection)
            self._committing(connection, "COMMIT", lambda: real(connection))

    def _committing(self, connection: BaseDatabaseWrapper, text: str, commit: Callable[[], Any]) -> Any:
        self.commits += 1
        if self._place:
            self.commit_places.append(self._place(text))
        kind = self._due(text, self.commits, at_commits=True)
        if kind is Kind.UNDONE:
            self._lose(connection, text)
        answer = commit()
        if kind is Kind.UNREPORTED:
            self._lose(connection, text)
        return answer

    # --- faults ---

    def _due(self, text: str, number: int, *, at_commits: bool) -> Kind | None:
        point = self.point
        if point is None or (point.kind in AT_COMMITS) is not at_commits:
            return None
        if point.where is not None:
            if not point.where(placed(text)):
                return None
            self._fitting += 1
            number = self._fitting
        return point.kind if number == point.number else None

    def _lose(self, connection: BaseDatabaseWrapper, text: str) -> None:
        self.struck = text
        raw: Any = connection.connection
        if connection.vendor == "sqlite":
            # Closed behind its back, the driver's cursors raise what Django does not translate. No file is ever lost
            # like that; what counts is that nothing more goes over this connection.
            self._lost = raw
            raw.rollback()
        else:
            cut(connection)
        faults.fail(faults.Fault.LOST)

    def _break(self, execute: Callable[..., Any], context: Any, text: str) -> None:
        self.struck = text
        if context["connection"].vendor == "postgresql":
            # The server's own error: what comes next in the same transaction meets one that can only be rolled back.
            execute("DO $$ BEGIN RAISE EXCEPTION 'as if' USING ERRCODE = '23505'; END $$", None, False, context)
        faults.fail(faults.Fault.BROKEN)

    def _die(self, connection: BaseDatabaseWrapper, text: str) -> None:
        self.struck = text
        self.on_death()
        self.dead = True
        cut(connection)
        raise Gone(text)

    def _mourn(self, connection: BaseDatabaseWrapper) -> None:
        if self.dead:
            raise Gone("A dead process talks to the database.")
        raw: Any = connection.connection
        if raw is not None and raw is self._lost:
            faults.fail(faults.Fault.LOST)


def _writes_by_itself(connection: BaseDatabaseWrapper, sql: str) -> bool:
    """Whether the statement is its own transaction, and changes something."""
    if connection.in_atomic_block or not connection.get_autocommit():
        return False
    return any(word in sql for word in ("INSERT", "UPDATE", "DELETE"))


# What is committed outlives the end of a process all the same; only the end of the machine is not in the story.
_HURRIED = {"sqlite": "PRAGMA synchronous=OFF", "postgresql": "SET synchronous_commit = off"}


def cut(connection: BaseDatabaseWrapper) -> None:
    """Take a connection away as the end of a process does: neither COMMIT nor ROLLBACK is said.

    On PostgreSQL it is over when the server has noticed; until then its locks would make the next one wait, or skip.
    """
    raw: Any = connection.connection
    if connection.vendor == "sqlite":
        raw.close()
        return
    pid = raw.info.backend_pid
    raw.close()
    with _witness(connection).cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 30000) FROM pg_stat_activity WHERE pid = %s", [pid, pid])


def bury_all(connection: BaseDatabaseWrapper) -> None:
    """Wait until the server has noticed the end of every other client of this database."""
    connection.close()
    if connection.vendor == "postgresql":
        with _witness(connection).cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE datname = current_database() "
                "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )


_witnesses: dict[str, Any] = {}


def _witness(connection: BaseDatabaseWrapper) -> Any:
    """A connection of nobody's, to the same database."""
    import psycopg

    settings: Any = connection.settings_dict
    place = f"dbname={settings['NAME']} user={settings['USER']} host={settings['HOST']}"
    if place not in _witnesses or _witnesses[place].closed:
        _witnesses[place] = psycopg.connect(place, autocommit=True)
    return _witnesses[place]


def dismiss_witnesses() -> None:
    """Close the connections that `cut` looks through."""
    while _witnesses:
        _witnesses.popitem()[1].close()


@contextmanager
def tapped(wire: Wire) -> Iterator[Wire]:
    """Everything on the engine's connections of this thread goes over `wire` in the block, new ones included."""
    real = BaseDatabaseWrapper._commit  # type: ignore[attr-defined]

    def join(connection: BaseDatabaseWrapper, **_: Any) -> None:
        if connection.alias == ALIAS and wire not in connection.execute_wrappers:
            connection.execute_wrappers.append(wire)
            with wire.quiet(), connection.cursor() as cursor:
                cursor.execute(_HURRIED[connection.vendor])

    connections[ALIAS].close()
    connection_created.connect(join, weak=False)
    try:
        with mock.patch.object(BaseDatabaseWrapper, "_commit", lambda self: wire.commit(real, self)):
            yield wire
    finally:
        connection_created.disconnect(join)
        connections[ALIAS].close()
        if wire in connections[ALIAS].execute_wrappers:
            connections[ALIAS].execute_wrappers.remove(wire)


def placed(text: str) -> Place:
    """A place, with the verb of the flow that is at work: the outermost function of `durable/flow` on the stack."""
    verb = ""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("durable.flow.") and module != "durable.flow.transactions.transaction":
            verb = f"{module.rpartition('.')[2]}.{frame.f_code.co_name}"
        frame = frame.f_back
    return Place(text, verb)


def of(verb: str) -> Callable[[Place], bool]:
    """What this verb sends."""
    return lambda place: place.verb == verb
