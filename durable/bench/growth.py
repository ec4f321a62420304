"""Many live workflows at once against few: what an activity costs when more of them live than find room in memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import fmean
from typing import Any

from durable.bench import work
from durable.bench.figures import Findings, Unit
from durable.bench.running import Running, running
from durable.bench.scratch import chosen
from durable.bench.shapes import Sizes

STEPS = 20
TIMES = 10
"""How many times as many are live: with room in memory for twice the few, for a fifth of the many."""

ROUNDS = 3
"""How often the few are measured on either side of the many."""

SLOTS = 200
"""For handlers that take a while: so many that they are never what is waited for."""

KINDS: list[tuple[str, Callable[[], Any], dict[str, Any]]] = [
    ("", lambda: work.steps, {}),
    (" and 50 ms", lambda: work.slow_steps, {"CONCURRENCY": SLOTS}),
]


def measure(findings: Findings, alias: str, sizes: Sizes) -> None:
    """The milliseconds of an activity with `sizes.live` workflows live and with ten times as many, started in one call,
    and how many times as much the latter is, with handlers that do nothing and with some that take 50 ms.
    """
    many = sizes.live * TIMES
    for name, definition, settings in KINDS:
        with chosen(CACHED_WORKFLOWS=2 * sizes.live, **settings), running(alias) as worker:
            worker.wait_closed()
            _drain(worker, definition(), sizes.live)
            few = [_drain(worker, definition(), sizes.live) for _ in range(ROUNDS)]
            grown = _drain(worker, definition(), many)
            few += [_drain(worker, definition(), sizes.live) for _ in range(ROUNDS)]
        of = f"an activity of workflows of {STEPS} steps{name}"
        findings.add(f"{of}, {sizes.live:,} live", Unit.MILLISECONDS, few)
        findings.add(f"{of}, {many:,} live", Unit.MILLISECONDS, [grown])
        findings.add(f"many live against few, workflows of {STEPS} steps{name}", Unit.TIMES, [grown / fmean(few)])


def _drain(worker: Running, definition: Any, count: int) -> float:
    """Milliseconds of one activity, from before the start of the workflows to the end of the last one."""
    goal = worker.closed() + count
    begun = time.perf_counter()
    definition.start_many([(STEPS,)] * count)
    worker.wait_workflows(goal)
    return 1000 * (time.perf_counter() - begun) / (count * STEPS)
