"""The soak: two workers in processes of their own, one of them with DEBUG on, under steady mixed load, watched from
outside. Whether they grow is judged by `flatness`.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

from durable.bench import footprint, mixture
from durable.bench.children import Child, Debug, Job, working
from durable.bench.flatness import Course, Sample
from durable.bench.scratch import scratch
from durable.client.handle import Handle
from durable.conf import settings
from durable.errors import WorkflowClosed

CACHED_WORKFLOWS = 50
"""So few that suspended workflows are evicted and replayed from cold all the time."""

LEAST_LOOKS = 10
"""The minimum, however slow the machine is: less cannot be judged."""

MOST_LIVE = 2_000
"""A machine that does not keep up gets no more work until it has caught up; what waits costs workers no memory."""

LARGEST = 4_000
"""Characters of the largest payload."""

_BUSY = "SELECT count(*) FROM (SELECT 1 FROM durable_workflow WHERE status = 'running' LIMIT %s) AS live"


@dataclass(frozen=True, slots=True)
class Plan:
    """How long it takes, the seconds from one portion of work to the next and from look to look, how large a portion
    is, how long workflows wait at most, and modules that the workers import behind their handlers.
    """

    seconds: float = 600.0
    beat: float = 0.5
    look_every: float = 2.0
    load: int = 4
    patience: float = 20.0
    modules: Sequence[str] = ()

    @classmethod
    def of(cls, minutes: float) -> Plan:
        """What suits so many minutes: warm-up sees every wait end."""
        seconds = 60 * minutes
        return cls(seconds=seconds, look_every=min(2.0, seconds / 50), patience=min(20.0, seconds / 10))


@dataclass(slots=True)
class Soaked:
    """What came of it. `left_out` are portions of work for which the workers were too slow."""

    vendor: str
    seconds: float
    courses: list[Course]
    done: int
    closed: int
    left_out: int


def soak(*, alias: str | None, plan: Plan, tell: Callable[[str], None]) -> Soaked:
    """Soaks on a scratch database beside that of `alias` (None: the engine's). `tell` gets a line now and then.

    Raises `Stuck` when a worker ends by itself, and `ConfigurationError` where no scratch database can be made.
    """
    alias = alias or settings.database_alias
    with scratch(alias) as name:
        _make_ledger(alias)
        watched = [
            _Watched(Course("durable-bench-plain"), Debug.OFF),
            _Watched(Course("durable-bench-debug"), Debug.ON),
        ]
        load = _Load(alias, plan)
        with working(alias, name, [worker.job(alias, plan) for worker in watched]) as children:
            for worker, child in zip(watched, children, strict=True):
                worker.child = child
            _run(alias, plan, load, watched, tell)
        for worker in watched:
            worker.course.done = worker.child.counts["done"]
        return Soaked(
            vendor=connections[alias].vendor,
            seconds=plan.seconds,
            courses=[worker.course for worker in watched],
            done=sum(worker.course.done for worker in watched),
            closed=_closed(alias),
            left_out=load.left_out,
        )


@dataclass(slots=True)
class _Watched:
    """A worker and what was seen of it."""

    course: Course
    debug: Debug
    child: Child = field(init=False)

    def job(self, alias: str, plan: Plan) -> Job:
        database: dict[str, Any] = {"CONN_MAX_AGE": None}
        if connections[alias].vendor == "postgresql":
            database["OPTIONS"] = {"application_name": self.course.worker}
        return Job(
            worker=self.course.worker,
            modules=("durable.bench.mixture", *plan.modules),
            debug=self.debug,
            # Else threads that rest close their connections, and their number follows the load.
            durable={"CACHED_WORKFLOWS": CACHED_WORKFLOWS, "RESET_CONNECTIONS": False},
            database=database,
        )

    def look(self, alias: str, at: float) -> None:
        self.child.see_it_lives()
        pid = self.child.pid
        connected = footprint.open_connections(alias, pid, self.course.worker)
        self.course.samples.append(Sample(at, footprint.resident(pid), connected))


class _Load:
    """Steady work of all kinds."""

    def __init__(self, alias: str, plan: Plan) -> None:
        self._alias = alias
        self._plan = plan
        self._rng = random.Random(7)
        self._waiting: deque[tuple[float, Handle[Any]]] = deque()
        self.left_out = 0

    def begin(self) -> None:
        """So much at once that every thread of the workers gets something to do, and its connection."""
        mixture.entered.enqueue_many([(self._text(),) for _ in range(100 * self._plan.load)])

    def bring(self, at: float) -> None:
        """One beat's portion, unless the workers are behind."""
        self._wake(at)
        with connections[self._alias].cursor() as cursor:
            cursor.execute(_BUSY, [MOST_LIVE])
            if cursor.fetchone()[0] >= MOST_LIVE:
                self.left_out += 1
                return
        few = range(self._plan.load)
        mixture.plain.enqueue_many([(self._text(),) for _ in range(4 * len(few))])
        mixture.flaky.enqueue_many([(self._text(),) for _ in few])
        mixture.entered.enqueue_many([(self._text(),) for _ in few])
        mixture.steps.start_many([(self._text(),) for _ in few])
        mixture.unlucky.start_many([(self._text(),) for _ in few])
        mixture.spread.start(20, self._text())
        mixture.asleep.start_many([(self._seconds() / 2, self._text()) for _ in few])
        for started in mixture.patient.start_many([(self._seconds(), self._text()) for _ in few]):
            assert isinstance(started, Handle)
            self._waiting.append((at + self._plan.patience / 2, started))

    def _wake(self, at: float) -> None:
        """Signals or cancels those whose time has come; some have given up by then, and some are left to do so."""
        while self._waiting and self._waiting[0][0] <= at:
            _, handle = self._waiting.popleft()
            match self._rng.randrange(4):
                case 0:
                    handle.cancel(reason="soak")
                case 1 | 2:
                    with suppress(WorkflowClosed):
                        handle.signal("go", self._text())
                case _:
                    pass

    def _seconds(self) -> float:
        return self._rng.uniform(self._plan.patience / 20, self._plan.patience)

    def _text(self) -> str:
        return "x" * self._rng.randrange(LARGEST)


def _run(alias: str, plan: Plan, load: _Load, watched: Sequence[_Watched], tell: Callable[[str], None]) -> None:
    looks = reported = 0
    load.begin()
    begun, due = time.monotonic(), 0.0
    while (at := time.monotonic() - begun) < plan.seconds or looks < LEAST_LOOKS:
        load.bring(at)
        if at >= looks * plan.look_every:
            looks += 1
            for worker in watched:
                worker.look(alias, at)
        if at >= reported * plan.seconds / 10:
            reported += 1
            tell(f"{at:.0f} of {plan.seconds:.0f} s: " + "; ".join(worker.course.now() for worker in watched))
        due = max(due + plan.beat, time.monotonic() - begun)  # one that came late makes the others no earlier
        time.sleep(max(0.0, due - (time.monotonic() - begun)))


def _make_ledger(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(f"CREATE TABLE {mixture.LEDGER} (entry text NOT NULL)")


def _closed(alias: str) -> int:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM durable_workflow WHERE closed_at IS NOT NULL")
        count: int = cursor.fetchone()[0]
    return count
