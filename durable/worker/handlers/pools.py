"""Watches the project's connection pools, which serve the handlers: an exhausted pool makes health red."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from durable.store.connections import unpooled

STARVED_AFTER = 5.0
"""Seconds in which requests wait and none is served, after which a pool counts as empty."""

REMEMBERED_FOR = 60.0
"""Seconds for which a failed request is reported, unless others are served meanwhile."""


@dataclass(slots=True)
class _Seen:
    """What the looks at one pool have found."""

    served: int = 0
    errors: int = 0
    starved_since: float | None = None
    failed_at: float | None = None


class PoolWatch:
    """`look` is called about twice a second, from one thread; `complaints` from any."""

    def __init__(
        self,
        *,
        pools: Callable[[], dict[str, Any]] = unpooled.pools,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pools = pools
        self._now = now
        self._seen: dict[str, _Seen] = {}
        self._complaints: list[str] = []

    def look(self) -> None:
        """Checks each pool that this process has opened. Does not query a database."""
        complaints = []
        for alias, pool in self._pools().items():
            text = self._judge(alias, pool.get_stats())
            if text:
                complaints.append(text)
        self._complaints = complaints

    def complaints(self) -> list[str]:
        """The pools that were exhausted at the last look, in words."""
        return self._complaints

    def _judge(self, alias: str, stats: dict[str, int]) -> str:
        now = self._now()
        seen = self._seen.setdefault(alias, _Seen(errors=stats.get("requests_errors", 0)))
        waiting, errors = stats.get("requests_waiting", 0), stats.get("requests_errors", 0)
        served = stats.get("requests_num", 0) - errors - waiting
        if errors > seen.errors:
            seen.failed_at = now
        elif served > seen.served or (seen.failed_at is not None and now - seen.failed_at > REMEMBERED_FOR):
            seen.failed_at = None
        if not waiting or served > seen.served:
            seen.starved_since = None
        elif seen.starved_since is None:
            seen.starved_since = now
        seen.served, seen.errors = served, errors
        if seen.failed_at is None and (seen.starved_since is None or now - seen.starved_since < STARVED_AFTER):
            return ""
        return (
            f"the connection pool of the database {alias!r} is empty ({stats.get('pool_max', 0)} at most): "
            f"{waiting} handlers are waiting for a connection, {errors} requests for one have failed so far"
        )
