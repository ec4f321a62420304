"""Connections of the engine's own threads, made outside the pool that the host has configured.

Django's pool (`OPTIONS["pool"]`) has four connections unless it is told otherwise, and a thread that draws from it
keeps its connection as long as it works. The loops of one worker would hold all of them for good, and its handlers, and
the loops that come too late, would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper


def is_pooled(connection: BaseDatabaseWrapper) -> bool:
    """Whether this wrapper draws its connections from Django's pool."""
    return bool(connection.settings_dict["OPTIONS"].get("pool"))


def pooled_aliases() -> list[str]:
    """Which databases of the project have a pool, by its settings. Loads no engine: another may not be there."""
    return [alias for alias in connections if (connections.settings[alias].get("OPTIONS") or {}).get("pool")]


def is_kept_out(connection: BaseDatabaseWrapper) -> bool:
    """Whether this wrapper would draw from Django's pool, had `keep_out` not been called for it."""
    configured = connections.settings[connection.alias].get("OPTIONS") or {}
    return bool(configured.get("pool")) and not is_pooled(connection)


def keep_out(alias: str) -> None:
    """From here on this thread connects to `alias` by itself. What it had from the pool goes back there.

    Django makes a new wrapper, with the pool, for one that was deleted: this has to be called again after that. Again
    is the same as once.
    """
    connection = connections[alias]
    if is_pooled(connection):
        connection.close()
        options = {name: value for name, value in connection.settings_dict["OPTIONS"].items() if name != "pool"}
        # A dict of this wrapper's own: the one that it had is everybody's.
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": options}


@contextmanager
def kept_out(alias: str) -> Iterator[None]:
    """Keep this thread out of the pool for a block. Outside of an open transaction only; else nothing changes."""
    connection = connections[alias]
    if not is_pooled(connection) or connection.in_atomic_block:
        yield
        return
    keep_out(alias)
    try:
        yield
    finally:
        connections[alias].close()
        del connections[alias]  # the next one is Django's, with the pool


def detach_pools() -> list[Any]:
    """Returns the pools that this process has opened, and lets Django forget them: it makes new ones when asked."""
    detached = pools()
    for alias in detached:
        opened: dict[str, Any] = getattr(connections[alias], "_connection_pools", {})
        opened.pop(alias, None)
    return list(detached.values())


def pools() -> dict[str, Any]:
    """Returns the pools that this process has opened, by alias."""
    by_alias: dict[str, Any] = {}
    for alias in pooled_aliases():
        opened: dict[str, Any] = getattr(connections[alias], "_connection_pools", {})
        if alias in opened:
            by_alias[alias] = opened[alias]
    return by_alias
