"""How much memory an idle worker keeps resident, measured in a process that is nothing but a worker."""

from __future__ import annotations

import threading

from durable.bench import footprint
from durable.bench.children import Job, working

QUIET_AFTER = 2.0
"""Seconds in which a worker has started everything that it starts."""


def resident(alias: str, name: str) -> float:
    """MiB of a worker on the scratch database `name`."""
    with working(alias, name, [Job(worker="durable-bench-idle")]) as [child]:
        threading.Event().wait(QUIET_AFTER)
        return footprint.resident(child.pid)
