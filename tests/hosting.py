"""The database entry of a host project, changed for a block: in this process, for all threads that come after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections


@contextmanager
def hosted(alias: str = "default", *, options: dict[str, Any] | None = None, **entry: Any) -> Iterator[None]:
    """Let `DATABASES[alias]` have these values, and these options beside its own (None takes one away), in a block."""
    before = connections.settings[alias]
    changed = {**before.get("OPTIONS", {}), **(options or {})}
    _forget(alias)
    connections.settings[alias] = {
        **before,
        **entry,
        "OPTIONS": {name: value for name, value in changed.items() if value is not None},
    }
    try:
        yield
    finally:
        _forget(alias)
        connections.settings[alias] = before


def _forget(alias: str) -> None:
    """Close this thread's connection and the process's pool; the next wrapper is made from the settings."""
    wrapper: Any = connections[alias]
    wrapper.close()
    pool = getattr(wrapper, "_connection_pools", {}).pop(alias, None)
    if pool is not None:
        pool.close()
    del connections[alias]
