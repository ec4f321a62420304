"""`start_to_close` and `heartbeat_timeout`: which handlers have run, or were silent, too long. On a separate thread,
since an async handler can block its own loop.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from datetime import timedelta

from durable.kernel.texts.failure import for_log
from durable.worker.handlers.delivery import Delivery
from durable.worker.threads.logs import get_logger
from durable.worker.threads.wakeup import HostTiming, Timing

log = get_logger("durable.worker.deadlines")

SMALLEST_SWEEP = 256


class Deadlines:
    """Calls back for each watched delivery whose time is over and that is not concluded yet. Starts its thread at the
    first.
    """

    def __init__(self, *, timing: Timing | None = None) -> None:
        self._timing = timing or HostTiming()
        self._condition = threading.Condition()
        self._heap: list[tuple[int, int, Delivery, Callable[[], None], int | None]] = []
        self._order = itertools.count()
        self._sweep_at = SMALLEST_SWEEP
        self._stopping = False
        self._thread: threading.Thread | None = None

    def watch(self, delivery: Delivery, span: timedelta, overrun: Callable[[], None]) -> None:
        """Calls `overrun` when `span` has passed from now on, unless the delivery is concluded by then."""
        self._watch(delivery, span, overrun, None)

    def watch_silence(self, delivery: Delivery, span: timedelta, silent: Callable[[], None]) -> None:
        """Calls `silent` when the handler has sent no heartbeat for `span`, unless the delivery is concluded first."""
        delivery.listen(self._timing.now)
        self._watch(delivery, span, silent, span // timedelta(microseconds=1))

    def _watch(self, delivery: Delivery, span: timedelta, due: Callable[[], None], silence: int | None) -> None:
        with self._condition:
            if (
                len(self._heap) >= self._sweep_at
            ):  # most end long before their time, and must not be kept here until then
                self._heap = [entry for entry in self._heap if not entry[2].concluded]
                heapq.heapify(self._heap)
                self._sweep_at = max(SMALLEST_SWEEP, 2 * len(self._heap))
            at = self._timing.now() + span // timedelta(microseconds=1)
            heapq.heappush(self._heap, (at, next(self._order), delivery, due, silence))
            if self._thread is None and not self._stopping:
                thread = threading.Thread(target=self._run, name="durable-deadlines", daemon=True)
                thread.start()  # if this raises, the next one has to try again
                self._thread = thread
            self._condition.notify_all()

    def stop(self) -> None:
        """Ends the thread."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def _run(self) -> None:
        while (due := self._next()) is not None:
            try:
                due()
            # Without this thread no time limit works: a bug of ours with one delivery must not end it.
            except BaseException as bug:
                log.error("deadline_raised", exc_info=for_log(bug))

    def _next(self) -> Callable[[], None] | None:
        with self._condition:
            while not self._stopping:
                while self._heap and self._heap[0][2].concluded:
                    heapq.heappop(self._heap)
                wait = max(0, self._heap[0][0] - self._timing.now()) if self._heap else None
                if wait == 0:
                    _, order, delivery, due, silence = heapq.heappop(self._heap)
                    if silence is None or (at := delivery.last_beat() + silence) <= self._timing.now():
                        return due
                    heapq.heappush(self._heap, (at, order, delivery, due, silence))
                    continue
                self._timing.wait(self._condition, wait)
            return None
