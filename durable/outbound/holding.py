"""Holds what a transaction sends until its outcome is known."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.outbound import road
from durable.outbound.departure import Departure


class _Here(threading.local):
    held: list[Departure] | None = None


_here = _Here()


def send(departure: Departure) -> None:
    """Emits something: now, or, inside `holding`, when the holder releases it. Never raises because of the project's
    code.
    """
    held = _here.held
    if held is None:
        road.leave(departure)
    else:
        held.append(departure)


class holding:  # noqa: N801 - used like a function; as a generator it would cost each turn several calls more
    """Holds what this thread sends during the block. The caller has to `release` it, or to drop it."""

    __slots__ = ("_before",)

    def __enter__(self) -> list[Departure]:
        held: list[Departure] = []
        self._before, _here.held = _here.held, held
        return held

    def __exit__(self, *_: object) -> None:
        _here.held = self._before


@contextmanager
def aside() -> Iterator[None]:
    """Holds nothing during the block: what user code logs inside a transaction of ours is true even
    without its commit.
    """
    before, _here.held = _here.held, None
    try:
        yield
    finally:
        _here.held = before


def release(held: Sequence[Departure]) -> None:
    """Emits what was held, after the transaction was committed."""
    for departure in held:
        road.leave(departure)


def after_commit(connection: BaseDatabaseWrapper, held: Sequence[Departure]) -> None:
    """Emits it after the commit of the caller's transaction, or now if there is none; drops it with a rollback.

    If the caller has switched autocommit off by hand, there is no hook for its commit, and nothing is emitted.
    """
    if held and (connection.in_atomic_block or connection.get_autocommit()):
        connection.on_commit(partial(release, held), robust=True)
