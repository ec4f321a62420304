"""Holding what a transaction sends until it is known how it ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.outbound import road
from durable.outbound.departures import Departure


class _Here(threading.local):
    held: list[Departure] | None = None


_here = _Here()


def send(departure: Departure) -> None:
    """Let something leave: now, or, inside `holding`, when the holder says so. Never raises for what the host does."""
    held = _here.held
    if held is None:
        road.leave(departure)
    else:
        held.append(departure)


@contextmanager
def holding() -> Iterator[list[Departure]]:
    """Hold what this thread sends meanwhile. It is the caller's to `release` it, or to forget it."""
    before = _here.held
    held = _here.held = []
    try:
        yield held
    finally:
        _here.held = before


@contextmanager
def aside() -> Iterator[None]:
    """Hold nothing meanwhile: what user code says inside a transaction of ours is true without its commit, too."""
    before, _here.held = _here.held, None
    try:
        yield
    finally:
        _here.held = before


def release(held: Sequence[Departure]) -> None:
    """Let it leave: the transaction that it speaks of is committed."""
    for departure in held:
        road.leave(departure)


def after_commit(connection: BaseDatabaseWrapper, held: Sequence[Departure]) -> None:
    """Let it leave after the commit of the caller's transaction, or now if there is none; with a rollback it goes.

    A caller that has switched autocommit off by hand has no hook for its commit: there, nothing leaves.
    """
    if held and (connection.in_atomic_block or connection.get_autocommit()):
        connection.on_commit(partial(release, held), robust=True)
