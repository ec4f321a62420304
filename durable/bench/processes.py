"""How much more two worker processes drain than one. The measuring process only prepares the work, and waits."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable

from durable.bench import shapes
from durable.bench.children import Job, working
from durable.bench.figures import Findings, Unit
from durable.bench.running import wait_closed
from durable.bench.shapes import Sizes

CORES = 4
"""Two interpreters, and the database's own processes (or its disk), want as many."""

LOOK_EVERY = 0.01


def measure(findings: Findings, alias: str, name: str, sizes: Sizes) -> None:
    """Drains the same backlogs with one process and with two, in turn, each time with processes that are ready before
    the backlog is.
    """
    rates: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(sizes.processes):
        for count in (1, 2):
            for shape, rate in _rates(alias, name, count, sizes).items():
                rates[shape][count].append(rate)
    cores = usable_cores()
    few = "" if cores >= CORES else f"{cores} of the {CORES} cores it takes"
    for shape, by_count in rates.items():
        ratios = [double / single for single, double in zip(by_count[1], by_count[2], strict=True)]
        findings.add(f"two processes against one, {shape}", Unit.TIMES, ratios, per_second=by_count[2], not_judged=few)


def usable_cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rates(alias: str, name: str, count: int, sizes: Sizes) -> dict[str, float]:
    """Units a second of so many processes, by shape."""
    # They know of each other before the second backlog.
    spans = {"RECONCILE_EVERY": 0.5}
    jobs = [
        Job(worker=f"durable-bench-{number}", modules=("durable.bench.work",), spans=spans) for number in range(count)
    ]
    with working(alias, name, jobs):
        singles, workflows = sizes.backlog, max(1, sizes.backlog // 6)
        return {
            "single activities": singles / _drained(alias, lambda: shapes.enqueue_in_bulk(singles)),
            "three-step workflows": workflows / _drained(alias, lambda: shapes.start_workflows(workflows)),
        }


def _drained(alias: str, prepare: Callable[[], None]) -> float:
    """Seconds from the commit that makes the whole backlog due, to the end of the last workflow."""
    prepare()
    begun = time.perf_counter()
    wait_closed(alias, look_every=LOOK_EVERY)
    return time.perf_counter() - begun
