"""Slots, pools and time limits: everything between a claim and the outcome of its handler."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from durable.errors import AlreadyRegistered, NotRegistered, TransactionLeftOpen
from durable.kernel.definitions.registry import registry
from durable.kernel.texts.failure import describe, for_log
from durable.metrics import counting, series
from durable.outcomes import Cancelled, Cause, Completed, Ending
from durable.worker.handlers import execute, isolation, transactional
from durable.worker.handlers.async_pool import AsyncPool, interruptible
from durable.worker.handlers.deadlines import Deadlines
from durable.worker.handlers.delivery import Conclusion, Delivery, Start
from durable.worker.handlers.execute import Call, CommitFailed, GiveUp, Outcome, PutOff
from durable.worker.handlers.foresight import Foresight
from durable.worker.handlers.lanes import Lanes
from durable.worker.handlers.pool import HandlerPool
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger, of_claim

log = get_logger("durable.worker.handlers")


class Handlers:
    """Runs deliveries, at most `concurrency` at once, sync and async ones together; a few more may wait their turn.

    `finished` gets the outcome of each delivery that nothing else has decided. `slot_freed` is called when another
    delivery can be taken. A delivery takes a slot when it starts, and frees it when the handler ends or has timed out.
    Waiting deliveries have not begun, and can be taken back.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        finished: Callable[[Delivery, Outcome], None],
        slot_freed: Callable[[], None],
        rng: random.Random,
    ) -> None:
        self._concurrency = concurrency
        self._finished = finished
        self._slot_freed = slot_freed
        self._rng = rng
        self._lock = threading.Lock()
        self._busy: set[Delivery] = set()
        self._waiting: deque[Delivery] = deque()
        self._foresight = Foresight(concurrency)
        self._deadlines = Deadlines()
        self.pool = HandlerPool(concurrency, work=self._run, more=self._next_sync)
        self._async_pool = AsyncPool(work=self._run_async)
        self._lanes = Lanes()

    @property
    def size(self) -> int:
        """How many deliveries can run at once."""
        return self._concurrency

    @property
    def ahead(self) -> int:
        """How many deliveries to claim beyond those that run, at the current pace."""
        return self._foresight.ahead

    @property
    def free(self) -> int:
        """How many more deliveries can be taken."""
        with self._lock:
            return self._concurrency + self._foresight.ahead - len(self._busy) - len(self._waiting)

    @property
    def busy(self) -> int:
        """How many deliveries are here: running, or waiting for a slot."""
        with self._lock:
            return len(self._busy) + len(self._waiting)

    def runs(self, delivery: Delivery) -> bool:
        """Whether a delivery is here: running, or waiting for a slot."""
        with self._lock:
            return delivery in self._busy or delivery in self._waiting

    @property
    def waiting(self) -> int:
        """How many deliveries wait for a slot."""
        return len(self._waiting)

    def dispatch(self, delivery: Delivery) -> None:
        """Runs a delivery, now or as soon as a slot is free."""
        with self._lock:
            self._waiting.append(delivery)
        self._fill()

    def withdraw(self) -> list[Delivery]:
        """The deliveries that have not begun. None of them will."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        return waiting

    def _fill(self) -> None:
        """Starts what waits while there are free slots."""
        while (delivery := self._next_sync()) is not None:
            self._launch(delivery, self.pool.submit)

    def _next_sync(self) -> Delivery | None:
        """Gives free slots to waiting deliveries, in order: starts the async ones, and returns the first sync one."""
        while True:
            with self._lock:
                if not self._waiting or len(self._busy) >= self._concurrency:
                    return None
                delivery = self._waiting.popleft()
                self._busy.add(delivery)
            if not _is_async(delivery):
                return delivery
            self._launch(delivery, self._async_pool.submit)

    def _launch(self, delivery: Delivery, submit: Callable[[Delivery], None]) -> None:
        """Starts a delivery. If it cannot be started (no thread, descriptor or memory left), it is given back and frees
        its slot.
        """
        try:
            submit(delivery)
        except (RuntimeError, OSError, MemoryError) as full:
            log.exception("delivery_not_started", **of_claim(delivery.claim))
            gc.collect()  # what other code has dropped may still fill the memory: errors and their frames are cycles
            self._finish(delivery, GiveUp(delivery.claim, Cause.TRANSPORT_DOWN, describe(full), full))
            with self._lock:
                self._busy.discard(delivery)
            self._slot_freed()

    def close(self, seconds: float) -> None:
        """Stops taking work. Waits `seconds` at most for async handlers that were told to stop."""
        self._deadlines.stop()
        self.pool.close(seconds)
        self._async_pool.close(seconds)
        self._lanes.close(seconds)

    # --- one delivery ---

    def _run(self, delivery: Delivery) -> None:
        began = time.monotonic()
        with self._lanes.borrowed() as lane:
            try:
                isolation.begin()
                call = self._ready(delivery)
                if call is None:
                    return
                if call.definition.is_async:  # found only now, on the wrong thread
                    self._finish(delivery, PutOff(delivery.claim, timedelta()))
                    return
                run = transactional.run if call.definition.transactional else execute.perform
                outcome: Outcome = run(call, delivery)
                self._finish_clean(call, delivery, outcome, hygiene.left_open() + lane.left_open_now())
            # Handlers' errors were caught inside. An error here is a bug of ours, or comes from a receiver of Django's
            # connection signals. Not even a SystemExit may leak the slot or end the thread.
            except BaseException as bug:
                log.error("delivery_raised", exc_info=for_log(bug), **of_claim(delivery.claim))
                self._finish(delivery, CommitFailed(delivery.claim, describe(bug), bug))
            finally:
                isolation.leave()
                self._lanes.give_back(lane)
                self._ended_after(time.monotonic() - began, delivery)
                self._free(delivery)

    async def _run_async(self, delivery: Delivery) -> None:
        began = time.monotonic()
        with self._lanes.borrowed() as lane:
            try:
                call = self._ready(delivery)
                if call is None:
                    return
                try:
                    outcome: Outcome = await interruptible(delivery, execute.perform_async(call, delivery))
                except asyncio.CancelledError as cancelled:
                    outcome = call.failed(cancelled, delivery)
                self._finish_clean(call, delivery, outcome, await lane.left_open())
            # As in `_run`.
            except BaseException as bug:
                log.error("delivery_raised", exc_info=for_log(bug), **of_claim(delivery.claim))
                self._finish(delivery, CommitFailed(delivery.claim, describe(bug), bug))
            finally:
                self._lanes.give_back(lane)
                self._ended_after(time.monotonic() - began, delivery)
                self._free(delivery)
                self._fill()

    def _ready(self, delivery: Delivery) -> Call | None:
        """Checks again whether it may start, decodes, and starts the clock. None if it is concluded already decided."""
        match delivery.begin():
            case Start.OVER:
                return None
            case Start.CANCELLED:
                self._finish(delivery, Cancelled(delivery.claim))
                return None
            case Start.GO:
                pass
        call = execute.prepare(delivery.claim, rng=self._rng)
        if not isinstance(call, Call):
            self._finish(delivery, call)
            return None
        if call.start_to_close is not None:
            self._deadlines.watch(delivery, call.start_to_close, partial(self._overrun, delivery, call.timed_out))
        if call.heartbeat_timeout is not None:
            silent = partial(self._overrun, delivery, call.fell_silent)
            self._deadlines.watch_silence(delivery, call.heartbeat_timeout, silent)
        return call

    def _finish_clean(self, call: Call, delivery: Delivery, outcome: Outcome, left_open: list[str]) -> None:
        if left_open:
            error = TransactionLeftOpen(call.claim.activity, left_open)
            log.error("transaction_left_open", aliases=left_open, **of_claim(call.claim))
            if isinstance(outcome, Completed):
                outcome = call.failed(error, delivery)
        self._finish(delivery, outcome)

    def _finish(self, delivery: Delivery, outcome: Outcome) -> None:
        if delivery.conclude() is Conclusion.FIRST:
            self._finished(delivery, outcome)
        else:
            log.info("late_outcome_dropped", outcome=type(outcome).__name__, **of_claim(delivery.claim))

    def _ended_after(self, seconds: float, delivery: Delivery) -> None:
        self._foresight.ended_after(seconds)
        if delivery.started_at is not None:
            counting.observe(series.ATTEMPT_SECONDS, seconds, delivery.claim.activity)

    def _overrun(self, delivery: Delivery, ending: Callable[[Delivery], Ending]) -> None:
        """The time is up: the attempt has failed, whatever its handler still does."""
        outcome = ending(delivery)
        if delivery.conclude() is Conclusion.LATE:
            return
        delivery.has_overrun = True
        delivery.leave()
        self._finished(delivery, outcome)
        self.pool.replace(delivery)
        self._free(delivery)
        self._fill()

    def _free(self, delivery: Delivery) -> None:
        with self._lock:
            self._busy.discard(delivery)
        self._slot_freed()


def _is_async(delivery: Delivery) -> bool:
    try:
        return registry.activity(delivery.claim.activity).is_async
    except (NotRegistered, AlreadyRegistered):
        return False  # `prepare` says what is to become of it
