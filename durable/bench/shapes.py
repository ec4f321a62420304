"""The shapes of work that are measured against the plain loop, and one interleaved round of them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from durable.bench import work
from durable.bench.plain import Rate
from durable.bench.running import Running, running


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each shape is done, how often, and for how many seconds the plain loop runs on either side.

    `processes` is how often two worker processes are measured against one, on a backlog of `backlog` single activities
    and a sixth as many workflows. `live` is how many workflows are live at once, against ten times as many.
    """

    rounds: int = 5
    singles: int = 2000
    one_by_one: int = 500
    workflows: int = 500
    fan_outs: int = 20
    children: int = 1000
    pick_ups: int = 120
    alone: int = 30
    sequence: int = 2000
    processes: int = 3
    backlog: int = 6000
    live: int = 1000
    plain_for: float = 0.25


FULL = Sizes()
QUICK = Sizes(
    rounds=3,
    singles=1000,
    one_by_one=200,
    workflows=200,
    fan_outs=8,
    children=300,
    pick_ups=30,
    alone=20,
    sequence=300,
    processes=1,
    backlog=3000,
    live=200,
    plain_for=0.1,
)
WIDTH = 100
CHILDREN = "children of one parent"


@dataclass(slots=True)
class Interleaved:
    """Samples of rates and of their ratios to the plain rate right before and right after."""

    plain: Rate
    plain_for: float
    ratios: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    rates: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    plain_rates: list[float] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """One shape's rates against another's of the same round."""

    def against(self, name: str, other: str) -> None:
        """Compares the last rates of two shapes."""
        self.times[f"{name} against {other}"].append(self.rates[name][-1] / self.rates[other][-1])

    def measure(self, name: str, units: int, measured: Callable[[], None]) -> None:
        """Runs `measured`, which does so many units, between two runs of the plain loop."""
        before = self.plain(self.plain_for)
        begun = time.perf_counter()
        measured()
        rate = units / (time.perf_counter() - begun)
        after = self.plain(self.plain_for)
        self.plain_rates += [before, after]
        self.rates[name].append(rate)
        self.ratios[name].append(rate / ((before + after) / 2))


def one_round(alias: str, sizes: Sizes, into: Interleaved) -> None:
    """Every shape once. Enqueueing is measured while no worker runs, the rest with one that was already running."""
    into.measure("enqueue one by one", sizes.one_by_one, lambda: enqueue_one_by_one(sizes.one_by_one))
    into.measure("enqueue in bulk", sizes.singles, lambda: enqueue_in_bulk(sizes.singles))
    with running(alias) as worker:
        worker.wait_closed()
        into.measure("single activities", sizes.singles, lambda: drain_singles(worker, sizes.singles))
        into.measure("three-step workflows", sizes.workflows, lambda: drain_workflows(worker, sizes.workflows))
        into.measure(
            "activities of fan-outs of 100", sizes.fan_outs * WIDTH, lambda: drain_fan_outs(worker, sizes.fan_outs)
        )
        into.measure(CHILDREN, sizes.children, lambda: drain_family(worker, sizes.children))
        into.against(CHILDREN, "activities of fan-outs of 100")


def enqueue_one_by_one(count: int) -> None:
    """Single activities, each in a commit of its own."""
    for number in range(count):
        work.nothing.enqueue(number)


def enqueue_in_bulk(count: int) -> None:
    """Single activities, all in one call."""
    work.nothing.enqueue_many([(number,) for number in range(count)])


def start_workflows(count: int) -> None:
    """Workflows of three activities, all in one call."""
    work.steps.start_many([(3,)] * count)


def drain_singles(worker: Running, count: int) -> None:
    """From before the bulk enqueue to the last completion."""
    goal = worker.done() + count
    enqueue_in_bulk(count)
    worker.wait_done(goal)


def drain_workflows(worker: Running, count: int) -> None:
    """Workflows of three activities, from before the bulk start to the last completion."""
    goal = worker.closed() + count
    start_workflows(count)
    worker.wait_workflows(goal)


def drain_family(worker: Running, children: int) -> None:
    """One workflow with so many children that do nothing, from before its start to its end."""
    goal = worker.closed() + children + 1
    work.family.start(children)
    worker.wait_workflows(goal)


def drain_fan_outs(worker: Running, count: int) -> None:
    """Workflows of 100 activities at once, likewise."""
    goal = worker.closed() + count
    work.fan_out.start_many([(WIDTH,)] * count)
    worker.wait_workflows(goal)
