"""The metrics of a worker process, of one by itself and of one under a supervisor; and what the supervisor does with
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from durable.flow.looks import measures
from durable.metrics import counting, readings, series, text
from durable.metrics.readings import Key, Readings
from durable.metrics.shared import Segment, Wanted
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger
from durable.worker.threads.loop import Loop

if TYPE_CHECKING:
    from durable.worker.process.worker import Worker

log = get_logger("durable.worker.metrics")

ASK_EVERY: Final = 10.0
"""Seconds between two looks at the database."""

WANTED_FOR: Final = 300.0
"""Seconds after a scrape for which the database is asked. Without scrapes it is not."""

LOOK_EVERY: Final = 1.0
"""Seconds in which a first scrape is noticed."""

LONGEST_STOP: Final = 1.0
"""Seconds for which a stop waits for a look at the database."""


class Asker:
    """Asks the database, on a thread and a connection of its own, while somebody wants to know.

    `wanted` returns when somebody last did, by the monotonic clock, or None if another process asks. A database that
    does not answer makes the values old, and nothing else: the other loops say that it is away.
    """

    def __init__(self, wanted: Callable[[], float | None]) -> None:
        self._wanted = wanted
        self._latest: tuple[dict[Key, float], float] | None = None
        self.loop = Loop("metrics", self.step, prepare=lambda: None)

    @property
    def latest(self) -> tuple[dict[Key, float], float] | None:
        """What the database said, and when, as Unix time; None if it was not asked lately."""
        return self._latest

    def step(self) -> float:
        """Asks, if somebody wants to know. Returns the seconds until the next look."""
        at = self._wanted()
        if at is None or time.monotonic() - at > WANTED_FOR:
            if self._latest is not None:
                self._latest = None
                hygiene.drop()
            return LOOK_EVERY
        hygiene.connect()
        self._latest = (measures.measure(), time.time())
        return ASK_EVERY

    def stop(self) -> None:
        """Ends the thread, which nothing waits for if the database does not answer."""
        self.loop.stop()
        self.loop.join(LONGEST_STOP)


class _Measured:
    """One worker's values. Made in the process that runs it, before it runs."""

    def __init__(self, worker: Worker, wanted: Callable[[], float | None]) -> None:
        self._worker = worker
        self._counters = counting.begin()
        self.asker = Asker(wanted)
        try:
            self.asker.loop.start()
        except (RuntimeError, MemoryError) as full:  # the worker, which needs more of them, decides what follows
            log.warning("metrics_without_database", error=str(full))

    def read(self) -> Readings:
        """All that is known now."""
        values = replace(self._counters.read(), gauges=_gauges(self._worker))
        latest = self.asker.latest
        return values if latest is None else replace(values, asked=latest[0], asked_at=latest[1])

    def stop(self) -> None:
        """The worker has stopped."""
        self.asker.stop()
        counting.end()


class OwnMeasures(_Measured):
    """Of a worker whose process answers for itself."""

    def __init__(self, worker: Worker) -> None:
        self._wanted_at: float | None = None
        super().__init__(worker, lambda: self._wanted_at)

    def page(self) -> tuple[str, bytes]:
        """The content type and the text for one scrape."""
        self._wanted_at = time.monotonic()
        return text.rendered(self.read())


class ChildMeasures(_Measured):
    """Of a worker under a supervisor: `publish` writes them where that one reads them."""

    def __init__(self, worker: Worker, number: int, shared: SharedMeasures) -> None:
        self._segment = shared.segments[number]
        self._has_complained = False
        super().__init__(worker, lambda: shared.wanted_of(number))

    def publish(self) -> None:
        """Writes the values of this moment."""
        if not self._segment.write(self.read()) and not self._has_complained:
            self._has_complained = True
            log.error("metrics_too_large")

    def stop(self) -> None:
        super().stop()
        self.publish()


class SharedMeasures:
    """The supervisor's part. Made before it forks: its children find the same memory. It asks no database, and has no
    thread.

    What a child has counted still counts when it has died. One child at a time asks the database.
    """

    def __init__(self, processes: int) -> None:
        self.segments = {number: Segment() for number in range(1, processes + 1)}
        self._wanted = Wanted()
        self._wanted_at = 0.0
        self._asker = 0
        self._ended = Readings()

    def wanted_of(self, number: int) -> float | None:
        """In a child: when somebody last wanted to know what the database says, or None if that is not its part."""
        asker, at = self._wanted.read()
        return at if asker == number and at else None

    def chosen(self, alive: Sequence[int]) -> None:
        """These children are alive: the first of them asks."""
        asker = min(alive, default=0)
        if asker != self._asker:
            self._asker = asker
            self._wanted.tell(asker=asker, at=self._wanted_at)

    def ended(self, number: int) -> None:
        """This child has died: keeps what it has counted."""
        left = self.segments[number].read()
        if left is not None:
            self._ended = readings.together([self._ended, left.lasting])
        self.segments[number].clear()

    def page(self) -> tuple[str, bytes]:
        """The content type and the text for one scrape."""
        self._wanted_at = time.monotonic()
        self._wanted.tell(asker=self._asker, at=self._wanted_at)
        parts = [part for segment in self.segments.values() if (part := segment.read()) is not None]
        return text.rendered(readings.together([self._ended, *parts]))


def _gauges(worker: Worker) -> dict[Key, float]:
    return {
        (series.BUSY.name, ()): worker.handlers.busy,
        (series.SLOTS.name, ()): worker.handlers.size,
        (series.CACHED.name, ()): len(worker.cache),
        (series.PROCESSES.name, ()): 1,
    }
