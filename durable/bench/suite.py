"""The whole benchmark, in order, on a scratch database."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import connections

from durable.bench import footprint, growth, processes, shapes, work
from durable.bench.children import Job, working
from durable.bench.counting import Counts, counting
from durable.bench.figures import Findings, Unit
from durable.bench.plain import plain
from durable.bench.running import Running, running
from durable.bench.scratch import chosen, scratch
from durable.bench.shapes import Interleaved, Sizes
from durable.conf import settings
from durable.flow.turns import turn
from durable.kernel.replay.cache import Cache

POLL_FOR = timedelta(milliseconds=20)
"""For the figures about an idle worker by polling, which are stated for this pace."""

NEVER = timedelta(seconds=10)
"""For those by notification: no look that was not asked for comes while one is measured."""

SHORT = 20

QUIET_AFTER = 2.0
"""Seconds in which a worker has started everything that it starts."""


def measure(*, alias: str | None, sizes: Sizes, tell: Callable[[str], None]) -> Findings:
    """Measures everything on a database of the benchmark's own beside that of `alias` (None: the engine's).

    `tell` gets a line before each part. Raises `ConfigurationError` where no scratch database can be made.
    """
    alias = alias or settings.database_alias
    findings = Findings(connections[alias].vendor)
    with scratch(alias) as name:
        findings.conditions = _conditions(alias)
        tell("rates, between runs of the plain loop")
        _rates(findings, alias, sizes)
        tell("statements and commits")
        _costs(findings, alias, sizes)
        tell("an idle worker")
        _idle_worker(findings, alias, sizes)
        tell("two worker processes against one")
        processes.measure(findings, alias, name, sizes)
        tell(f"{growth.TIMES * sizes.live:,} live workflows against {sizes.live:,}")
        growth.measure(findings, alias, sizes)
        tell(f"one workflow of {sizes.sequence:,} activities, and its replay")
        _sequence(findings, alias, sizes)
        tell("memory")
        findings.add("resident memory of an idle worker", Unit.MIB, [resident_when_idle(alias, name)])
    return findings


def resident_when_idle(alias: str, name: str) -> float:
    """MiB that a worker keeps in memory on the scratch database `name`, in a process that is nothing but a worker."""
    with working(alias, name, [Job(worker="durable-bench-idle")]) as [child]:
        threading.Event().wait(QUIET_AFTER)
        return footprint.resident(child.pid)


def _conditions(alias: str) -> dict[str, str]:
    conditions = {"cores": str(os.cpu_count()), "load at the start": f"{os.getloadavg()[0]:.1f}"}
    with connections[alias].cursor() as cursor:
        if connections[alias].vendor == "postgresql":
            for name in ("server_version", "fsync", "synchronous_commit"):
                cursor.execute(f"SHOW {name}")
                conditions[name] = str(cursor.fetchone()[0])
        else:
            for name in ("journal_mode", "synchronous"):
                conditions[name] = str(cursor.execute(f"PRAGMA {name}").fetchone()[0])
    return conditions


def _rates(findings: Findings, alias: str, sizes: Sizes) -> None:
    with plain(alias) as rate:
        samples = Interleaved(rate, sizes.plain_for)
        for _ in range(sizes.rounds):
            shapes.one_round(alias, sizes, samples)
    for name, ratios in samples.ratios.items():
        findings.add(name, Unit.RATIO, ratios, per_second=samples.rates[name])
    for name, times in samples.times.items():
        findings.add(name, Unit.TIMES, times)
    findings.conditions["plain commits per second"] = (
        f"{min(samples.plain_rates):,.0f} to {max(samples.plain_rates):,.0f}"
    )


def _costs(findings: Findings, alias: str, sizes: Sizes) -> None:
    """Of a backlog that is drained; what starting it cost is left out."""
    parts: list[tuple[str, int, Callable[[Running], None]]] = [
        ("a single activity", sizes.singles, lambda worker: shapes.drain_singles(worker, sizes.singles)),
        ("a three-step workflow", sizes.workflows, lambda worker: shapes.drain_workflows(worker, sizes.workflows)),
        ("a fan-out of 100", sizes.fan_outs, lambda worker: shapes.drain_fan_outs(worker, sizes.fan_outs)),
    ]
    with counting(alias) as counts, running(alias) as worker:
        for name, units, drain in parts:
            statements, commits = _counted(counts, drain, worker)
            findings.add(f"commits of {name}", Unit.PER_UNIT, [commits / units])
            findings.add(f"statements of {name}", Unit.PER_UNIT, [statements / units])


def _counted(counts: Counts, drain: Callable[[Running], None], worker: Running) -> tuple[int, int]:
    before = counts.so_far()
    drain(worker)
    after = counts.so_far()
    return after[0] - before[0], after[1] - before[1]


def _idle_worker(findings: Findings, alias: str, sizes: Sizes) -> None:
    pick_up, alone = "pick-up by an idle worker", "one fan-out of 100 alone"
    with chosen(DATABASE=alias, POLL_FOR=POLL_FOR, NOTIFY=False), running(alias) as worker:
        findings.add(pick_up, Unit.MILLISECONDS, _pick_ups(worker, sizes.pick_ups))
        samples = _fan_outs_alone(worker, sizes.alone)
    if findings.vendor == "sqlite":
        findings.add(alone, Unit.MILLISECONDS, samples)
        return
    findings.add(f"{alone}, by polling", Unit.MILLISECONDS, samples)
    with chosen(DATABASE=alias, POLL_FOR=NEVER, NOTIFY=True), running(alias) as worker:
        worker.wait_for_notifications()
        findings.add(f"{pick_up}, by notification", Unit.MILLISECONDS, _pick_ups(worker, sizes.pick_ups))
        findings.add(alone, Unit.MILLISECONDS, _fan_outs_alone(worker, sizes.alone))


def _pick_ups(worker: Running, count: int) -> list[float]:
    """Milliseconds from the return of an enqueue to the first line of its handler; 0 if the handler was faster."""
    waited = []
    for number in range(count):
        _let_rest()
        goal = worker.done() + 1
        work.stamped.enqueue(number)
        committed = time.perf_counter()
        worker.wait_done(goal)
        waited.append(max(0.0, 1000 * (work.begun_at.pop(number) - committed)))
    return waited


def _fan_outs_alone(worker: Running, count: int) -> list[float]:
    """Milliseconds from before the start of a fan-out to its end, one at a time."""
    milliseconds = []
    for _ in range(count):
        _let_rest()
        begun = time.perf_counter()
        shapes.drain_fan_outs(worker, 1)
        milliseconds.append(1000 * (time.perf_counter() - begun))
    return milliseconds


def _let_rest() -> None:
    """Until the worker's loops have fallen back to the longest rest that `POLL_FOR` asks for, and for a random while
    more, so that what comes next meets them at any point of it.
    """
    time.sleep(random.uniform(0.15, 0.15 + 5 * POLL_FOR.total_seconds()))


def _sequence(findings: Findings, alias: str, sizes: Sizes) -> None:
    costs: list[float] = []
    short: list[float] = []
    with running(alias) as worker:
        short += _short(worker)
        handle = work.patient_steps.start(sizes.sequence)
        goal = worker.done() + sizes.sequence
        begun = time.perf_counter()
        worker.wait_done(goal)
        costs.append(1000 * (time.perf_counter() - begun) / sizes.sequence)
        short += _short(worker)
    findings.add(f"an activity of a workflow of {SHORT}", Unit.MILLISECONDS, short)
    findings.add(f"an activity of a workflow of {sizes.sequence:,}", Unit.MILLISECONDS, costs)
    ratio = costs[0] / sorted(short)[len(short) // 2]
    findings.add(f"a workflow of {sizes.sequence:,} against one of {SHORT}, an activity", Unit.TIMES, [ratio])
    with _cold() as cache:
        turn.turn(cache=cache, queues=None, limit=1, note=lambda _: None)  # the last result, if it was not read yet
    samples = []
    for number in range(3):
        handle.signal(f"look-{number}")
        with _cold() as cache:
            begun = time.perf_counter()
            turn.turn(cache=cache, queues=None, limit=1, note=lambda _: None)
            samples.append(1000 * (time.perf_counter() - begun))
    findings.add(f"cold replay of {sizes.sequence:,} activities", Unit.MILLISECONDS, samples)


def _short(worker: Running) -> list[float]:
    costs = []
    for _ in range(5):
        goal = worker.done() + SHORT
        begun = time.perf_counter()
        work.steps.start(SHORT)
        worker.wait_done(goal)
        costs.append(1000 * (time.perf_counter() - begun) / SHORT)
    return costs


@contextmanager
def _cold() -> Iterator[Cache]:
    """An empty cache, emptied again after its use."""
    cache = Cache(10)
    try:
        yield cache
    finally:
        cache.drop_all()
