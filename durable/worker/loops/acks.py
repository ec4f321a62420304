"""The ack thread: acknowledges what handlers ended with, in batches, on a fixed schedule of retries (specification A2).

Outcomes that become ready during a commit go into the next one; a single item never waits for others. Each item has its
own count of attempts and its own next time. After a batch has failed, its items are tried one by one.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from django.db import Error as DatabaseFault
from django.db import connections

from durable.flow.delivery import abandon, acknowledge, postpone
from durable.flow.looks import probe
from durable.flow.transactions import transaction
from durable.flow.transactions.faults import Fault, classify, meets_lock
from durable.flow.transactions.troubles import trouble_of
from durable.kernel.texts.failure import for_log
from durable.logs import words
from durable.metrics import counting, series
from durable.outcomes import AckOutcome, Claim, Ending, GiveBack
from durable.worker.handlers import ack_policy
from durable.worker.handlers.ack_policy import Abandon, Acknowledge, Again, Known, Postpone, WaitForLock
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.execute import Outcome
from durable.worker.loops.aside import Aside, LockWait, Pending
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger, of_claim
from durable.worker.threads.loop import Pulse
from durable.worker.threads.wakeup import HostTiming, Timing

log = get_logger("durable.worker.acks")

LARGEST_BATCH = 500


FIRST_LOCK_WAIT, NEXT_LOCK_WAIT = "300ms", "20ms"
"""How long the first try of an item, and each later one, waits for a lock. They are short, since
other items are due.
"""


def _nothing(delivery: Delivery) -> None:
    """The default callback: does nothing."""


class Acks:
    """Takes outcomes from any thread and writes them. `ended` is called once for each delivery, however it ends, with
    the outcome if that was acknowledged, and with None if it was given back, came late, or could not be written.

    An outcome that is still locked after all tries is set aside (`set_aside` is called for it) and continues once the
    lock is gone (`counted_again`). `run` is the thread's body.
    """

    def __init__(
        self,
        *,
        ended: Callable[[Delivery, Outcome | None], None],
        timing: Timing | None = None,
        set_aside: Callable[[Delivery], None] = _nothing,
        counted_again: Callable[[Delivery], None] = _nothing,
    ) -> None:
        self.pulse = Pulse("ack")
        self._ended = ended
        self._set_aside = set_aside
        self._counted_again = counted_again
        self._aside = Aside()
        self._left = 0
        self._to_leases = 0
        self._timing = timing or HostTiming()
        self._condition = threading.Condition()
        self._fresh: deque[Pending] = deque()
        self._again: list[tuple[int, int, Pending]] = []
        self._order = itertools.count()
        self._fresh_had_its_turn = False
        self._troubled = False
        self._busy = 0
        self._looking = 0
        self._finishing = False
        self._thread = threading.Thread(target=self._main, name="durable-ack", daemon=True)

    def start(self) -> None:
        """Begins on a thread of its own."""
        self._thread.start()

    def submit(self, delivery: Delivery, outcome: Outcome) -> None:
        """Hands over the outcome of a delivery."""
        with self._condition:
            self._fresh.append(Pending(delivery, outcome))
            self._condition.notify_all()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def pending(self) -> int:
        """How many outcomes are not written yet."""
        with self._condition:
            return len(self._fresh) + len(self._again) + self._busy + self._aside.count + self._left

    @property
    def left_to_leases(self) -> int:
        """How many deliveries so far could neither be acknowledged nor given back: nobody has them until their leases
        expire.
        """
        return self._to_leases

    @property
    def locked(self) -> int:
        """How many of them wait for another session's lock, including those that are being probed."""
        with self._condition:
            return self._aside.count + self._looking + self._left

    @property
    def at_work(self) -> bool:
        """Whether there is an outcome to write that does not wait for a lock."""
        with self._condition:
            return bool(self._fresh or self._again) or self._busy > self._looking

    def finish(self, seconds: float) -> int:
        """Writes what is pending, then ends the thread. Waits `seconds` at most; returns how many were left."""
        with self._condition:
            self._finishing = True
            self._aside.stop(self._timing.now())
            self._condition.notify_all()
        if self._thread.ident is not None:
            self._thread.join(max(0.0, seconds))
        return self.pending

    def run(self) -> None:
        """Writes outcomes until `finish` has been called and each one is written or, if still locked, has used up its
        patience.
        """
        while batch := self._next():
            self.pulse.begin()
            try:
                self._write(batch)
            # Database errors were handled inside. A bug of ours must not end the thread: nothing would be
            # acknowledged. Then the renewal of these ends, and the reconciler takes over.
            except BaseException as bug:
                log.error("ack_raised", items=len(batch), exc_info=for_log(bug))
                self.pulse.fail(words(bug), is_bug=True)
                for item in batch:
                    with suppress(BaseException):
                        self._leave_to_lease(item)
            self.pulse.end()
            with self._condition:
                self._busy = self._looking = 0
                self._condition.notify_all()

    def _main(self) -> None:
        try:
            self.run()
        finally:
            connections.close_all()

    # --- what is due ---

    def _next(self) -> list[Pending]:
        """Waits for what is due: all new outcomes as one batch, the earliest single item, or everything set aside."""
        with self._condition:
            while True:
                now = self._timing.now()
                wait = max(0, self._again[0][0] - now) if self._again else None
                look = self._aside.wait(now)
                # They alternate when both are due: neither a stream of new work, nor a lock that each single item
                # runs into, keeps the others from their time.
                if look == 0:
                    batch = self._aside.pop_all()
                    self._looking = len(batch)
                elif self._fresh and not (wait == 0 and self._fresh_had_its_turn):
                    batch = self._fresh_batch()
                    self._fresh_had_its_turn = True
                elif wait == 0:
                    batch = [heapq.heappop(self._again)[2]]
                    self._fresh_had_its_turn = False
                elif self._finishing and wait is None and look is None:
                    return []
                else:
                    self._timing.wait(self._condition, min((w for w in (wait, look) if w is not None), default=None))
                    continue
                self._busy = len(batch)
                return batch

    def _fresh_batch(self) -> list[Pending]:
        """A batch of endings, or one of the outcomes that have a verb of their own."""
        batch = [self._fresh.popleft()]
        if isinstance(batch[0].outcome, Ending):
            while self._fresh and len(batch) < LARGEST_BATCH and isinstance(self._fresh[0].outcome, Ending):
                batch.append(self._fresh.popleft())
        return batch

    # --- writing ---

    def _write(self, batch: list[Pending]) -> None:
        first = batch[0]
        if first.locked_since is not None:
            self._look(batch)
            return
        match ack_policy.verb(first.outcome, is_locked=partial(self._is_locked, first)):
            case Acknowledge():
                self._acknowledge(batch)
            case Known(outcome=outcome):
                self._ended_as(first, outcome)
            case WaitForLock():
                self._wait_for_lock(first)
            case Abandon() as step:
                self._abandon(first, step)
            case Postpone(delay=delay, lacking=lacking):
                log.warning(lacking.value, retry_in=delay.total_seconds(), **of_claim(first.delivery.claim))
                self._give_back(first, "postpone", lambda claim: postpone.postpone(claim, delay=delay))

    def _acknowledge(self, batch: list[Pending]) -> None:
        endings = [item.outcome for item in batch if isinstance(item.outcome, Ending)]
        try:
            hygiene.connect()
            with transaction.short_waits(NEXT_LOCK_WAIT if batch[0].tries else FIRST_LOCK_WAIT):
                outcomes = acknowledge.acknowledge(endings)
        # Whatever the acknowledgement raises is classified; what the classifier does not know is permanent
        # (specification A3).
        except BaseException as error:  # noqa: BLE001
            self._failed(batch, error)
            return
        self._troubled = False
        self.pulse.recover()
        for item, outcome in zip(batch, outcomes, strict=True):
            self._ended_as(item, outcome)

    def _failed(self, batch: list[Pending], error: BaseException) -> None:
        fault = classify(error)
        fields = {"fault": fault.value, "error": words(error), "items": len(batch)}
        self._say_once("acknowledgement_failed", **fields)
        if isinstance(error, DatabaseFault) and not meets_lock(error):
            self.pulse.fail(str(fields["error"]), kind=trouble_of(error))
        if fault is Fault.NEW_CONNECTION:
            hygiene.drop()
        now = self._timing.now()
        for item in batch:
            item.tries += 1
            is_locked = partial(self._is_locked, item)
            match ack_policy.after_failure(error, tries=item.tries, together=len(batch) > 1, is_locked=is_locked):
                case Again(wait_us=wait):
                    counting.add(series.ACK_RETRIES)
                    self._later(item, now + wait)
                case WaitForLock():
                    self._wait_for_lock(item)
                case Abandon() as step:
                    self._abandon(item, step)

    def _later(self, item: Pending, due: int) -> None:
        with self._condition:
            heapq.heappush(self._again, (due, next(self._order), item))

    def _abandon(self, item: Pending, step: Abandon) -> None:
        def give_back(claim: Claim) -> GiveBack:
            return abandon.abandon(claim, cause=step.cause, failure=step.failure, error=step.error, delay=step.delay)

        self._give_back(item, "abandon", give_back)

    def _give_back(self, item: Pending, verb: str, give_back: Callable[[Claim], GiveBack]) -> None:
        claim = item.delivery.claim
        try:
            hygiene.connect()
            with transaction.short_waits(NEXT_LOCK_WAIT):
                answer = give_back(claim)
        # The verb has had its own retries. Nothing more can be done here: the renewal ends, the lease expires,
        # and the reconciler of whoever reaches the store takes over.
        except BaseException as error:
            if meets_lock(error) and self._is_locked(item):
                self._wait_for_lock(item)
                return
            if isinstance(error, MemoryError) and item.tries < len(ack_policy.WAITS_US):
                # No database error, so the verb has not tried again; other code may have taken all memory for a moment.
                self._later(item, self._timing.now() + ack_policy.WAITS_US[item.tries])
                item.tries += 1
                return
            acknowledge.forget(claim)
            # If the database is away, a traceback does not help, and each delivery logs the same.
            trace = None if isinstance(error, DatabaseFault) else for_log(error)
            log.error("give_back_failed", verb=verb, error=words(error), exc_info=trace, **of_claim(claim))
            hygiene.drop()
            self._leave_to_lease(item)
            return
        acknowledged = answer is GiveBack.TOKEN_MISSING and self._was_made(claim)
        if acknowledged:
            log.info("acknowledgement_found", tries=item.tries, **of_claim(claim))
        else:
            acknowledge.forget(claim)
            log.info("given_back", verb=verb, answer=answer.value, **of_claim(claim))
        self._ended(item.delivery, item.outcome if acknowledged else None)

    def _leave_to_lease(self, item: Pending) -> None:
        self._to_leases += 1
        self._ended(item.delivery, None)

    def _was_made(self, claim: Claim) -> bool:
        """Whether an earlier try with unknown outcome was committed."""
        try:
            return acknowledge.was_made(claim)
        except DatabaseFault as error:
            log.debug("acknowledgement_not_looked_for", error=words(error), **of_claim(claim))
            return False

    # --- locks of somebody else's ---

    def _is_locked(self, item: Pending) -> bool:
        """Whether another session holds the lock now. False if the database cannot be asked."""
        try:
            hygiene.connect()
            return bool(probe.locked([_asked(item)]))
        except BaseException as error:  # noqa: BLE001 - it only decides between waiting and giving back
            return meets_lock(error)

    def _wait_for_lock(self, item: Pending) -> None:
        """Keeps the outcome until the lock is gone. No try is made meanwhile, so none is counted."""
        log.warning("acknowledgement_waits_for_lock", tries=item.tries, **of_claim(item.delivery.claim))
        with self._condition:
            self._aside.put([item], self._timing.now())
        self._set_aside(item.delivery)

    def _look(self, items: list[Pending]) -> None:
        """Continues outcomes that are no longer locked, with a fresh set of tries; the rest waits, as long
        as it may.
        """
        # The rows of one claim share a token (ADR 002): only row and token together identify a delivery.
        locked: set[object] = {(item.delivery.claim.row_id, item.delivery.claim.token) for item in items}
        try:
            hygiene.connect()
            locked = set(probe.locked([_asked(item) for item in items]))
        # A table that is locked as a whole, or a store that is away: later.
        except DatabaseFault as error:
            if classify(error) is Fault.NEW_CONNECTION:
                hygiene.drop()
        now = self._timing.now()
        still: list[Pending] = []
        for item in items:
            claim = item.delivery.claim
            waited = round((now - (item.locked_since or now)) / 1_000_000, 3)
            if (claim.row_id, claim.token) not in locked:
                log.info("acknowledgement_goes_on", waited=waited, **of_claim(claim))
                item.tries, item.locked_since = 0, None
                self._later(item, now)
                self._counted_again(item.delivery)
                continue
            match self._aside.lock_wait(item, now):
                case LockWait.GOES_ON:
                    still.append(item)
                case LockWait.CUT_BY_STOP:
                    log.error("lock_outlasted_patience", waited=waited, **of_claim(claim))
                    self._left += 1  # still leased: the worker logs that when it ends
                case LockWait.SPENT:
                    log.error("lock_outlasted_patience", waited=waited, **of_claim(claim))
                    acknowledge.forget(claim)
                    self._leave_to_lease(item)
        with self._condition:
            self._aside.put(still, now)
            self._busy = self._looking = 0

    def _ended_as(self, item: Pending, outcome: AckOutcome) -> None:
        claim = item.delivery.claim
        acknowledged = True
        if outcome is AckOutcome.ACKNOWLEDGED:
            acknowledge.forget(claim)
        elif self._was_made(claim):
            log.info("acknowledgement_found", tries=item.tries + 1, **of_claim(claim))
        else:
            acknowledged = False
            log.warning("late_acknowledgement", tries=item.tries + 1, **of_claim(claim))
        self._ended(item.delivery, item.outcome if acknowledged else None)

    def _say_once(self, event: str, **fields: object) -> None:
        if not self._troubled:
            log.warning(event, **fields)
        self._troubled = True


def _asked(item: Pending) -> tuple[Claim, Ending | None]:
    return item.delivery.claim, item.outcome if isinstance(item.outcome, Ending) else None
