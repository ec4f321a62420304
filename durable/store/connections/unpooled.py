"""Connections of the engine's own threads, made outside the pool that the project has configured.

Django's pool (`OPTIONS["pool"]`) has four connections by default, and a thread keeps its connection as long as it
works. The loops of one worker would take all of them for ever, and its handlers and the remaining loops would wait in
vain.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper


def is_pooled(connection: BaseDatabaseWrapper) -> bool:
    """Whether this wrapper takes its connections from Django's pool."""
    return bool(connection.settings_dict["OPTIONS"].get("pool"))


def pooled_aliases() -> list[str]:
    """Which databases of the project have a pool, by its settings. Loads no engine: another may not be there."""
    return [alias for alias in connections if (connections.settings[alias].get("OPTIONS") or {}).get("pool")]


def is_kept_out(connection: BaseDatabaseWrapper) -> bool:
    """Whether this wrapper would use Django's pool without `keep_out`."""
    configured = connections.settings[connection.alias].get("OPTIONS") or {}
    return bool(configured.get("pool")) and not is_pooled(connection)


def keep_out(alias: str) -> None:
    """From now on this thread connects to `alias` without the pool. Its connection from the pool is returned.

    If the wrapper is deleted, Django makes a new one with the pool: then call this again. Idempotent.
    """
    connection = connections[alias]
    if is_pooled(connection):
        connection.close()
        options = {name: value for name, value in connection.settings_dict["OPTIONS"].items() if name != "pool"}
        # A dict of this wrapper's own: the one that it had is everybody's.
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": options}


@contextmanager
def kept_out(alias: str) -> Iterator[None]:
    """Keeps this thread out of the pool for a block. Outside of an open transaction only; else nothing changes."""
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
