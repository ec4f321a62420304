"""The receiving side of every transport: runs one delivery in this process, as a worker would.

A process makes one `Receiver` when its first message comes. It has the worker's own parts: handlers with their slots,
time limits and isolation, a thread that renews leases, and one that acknowledges.
"""

from __future__ import annotations

import os
import random
import threading
import time
import uuid
from enum import Enum
from functools import partial
from multiprocessing import util

from django.db import Error as DatabaseFault

from durable.conf import settings
from durable.flow.delivery import begin
from durable.flow.transactions.commits import ClaimCommit
from durable.kernel.texts.failure import for_log
from durable.logs import words
from durable.outcomes import Claim
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.execute import Outcome
from durable.worker.handlers.slots import Handlers
from durable.worker.loops.acks import Acks
from durable.worker.loops.leases import Leases
from durable.worker.process import speaking
from durable.worker.process.presence import process_name
from durable.worker.threads import hygiene
from durable.worker.threads.calls import Calls
from durable.worker.threads.logs import get_logger, of_claim
from durable.worker.threads.loop import Loop
from durable.worker.threads.wakeup import Wake

log = get_logger("durable.worker.receiving")

LOOK_AGAIN = 0.5
"""Seconds between two looks whether a delivery is over; its end wakes the look as well."""

LAST_MOMENT = 1.0
"""Seconds that the end of a process waits for each of its threads."""

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0
"""Seconds between two tries to begin while the database is away."""


class Received(Enum):
    """What became of a message."""

    RAN = "ran"
    """The delivery has begun here, and is over."""

    STALE = "stale"
    """Nothing was changed: the delivery has begun before, has ended, or is another one by now."""

    LEAVE = "leave"
    """It is over, because its handler ran too long. The handler may still run, so this process should end."""


class Receiver:
    """Runs deliveries that were sent to this process, one at a time."""

    def __init__(self) -> None:
        self.name = process_name()
        self._lease_for = settings.lease_for
        self._changed = threading.Condition()
        self._calls = Calls("durable-receive")
        self._leases = Leases(lease_for=self._lease_for, idle=Wake())
        self._acks = Acks(ended=self._ended, set_aside=self._leases.set_aside, counted_again=self._leases.count_again)
        self._handlers = Handlers(
            concurrency=1,
            finished=self._acks.submit,
            slot_freed=self._look,
            rng=random.Random(),
        )
        self._lease_loop = Loop("lease", self._leases.beat)
        self._closed = False

    def start(self) -> None:
        """Starts the threads. Raises `RuntimeError` if the machine has no more."""
        speaking.start()
        self._acks.start()
        self._lease_loop.start()

    def close(self) -> None:
        """Ends the threads, and sends the last lines on their way. Waits a moment at most. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._calls.end()
        self._acks.finish(LAST_MOMENT)
        self._lease_loop.stop()
        self._lease_loop.join(LAST_MOMENT)
        self._handlers.close(LAST_MOMENT)
        speaking.stop()

    def receive(self, row_id: int, token: uuid.UUID) -> Received:
        """Runs the delivery on threads of this process, and waits until it is acknowledged or given back. Raises
        nothing: not even what a signal handler of the host raises in the waiting thread, such as an alarm, ends the
        wait.
        """
        over = self._calls.put(partial(self._run, row_id, token))
        while True:
            try:
                return over.result()
            # See above. Of the call itself: a bug, which is logged.
            except BaseException as error:
                if over.done():
                    log.error("receiving_failed", row=row_id, exc_info=for_log(error))
                    return Received.STALE
                log.warning("wait_interrupted", row=row_id, error=type(error).__name__)

    def _run(self, row_id: int, token: uuid.UUID) -> Received:
        """The same on a thread of ours, which nothing interrupts. Several are run one after the other."""
        claim = self._begin(row_id, token)
        if claim is None:
            return Received.STALE
        delivery = Delivery(claim)
        self._leases.hold([delivery])
        self._handlers.dispatch(delivery)
        with self._changed:
            while not self._is_over(delivery):
                self._changed.wait(LOOK_AGAIN)
        return Received.LEAVE if delivery.has_overrun else Received.RAN

    def _begin(self, row_id: int, token: uuid.UUID) -> Claim | None:
        """Takes the delivery over. While the database is away it tries again for `LEASE_FOR`: the message is the only
        one until the sender's patience is over.
        """
        commit = ClaimCommit(self.name)
        end = time.monotonic() + self._lease_for.total_seconds()
        wait = FIRST_WAIT
        while True:
            try:
                hygiene.connect()
                claim = begin.begin(row_id, token, worker=self.name, lease_for=self._lease_for, commit=commit)
            except DatabaseFault as fault:
                hygiene.drop()
                if time.monotonic() > end:
                    log.error("begin_failed", row=row_id, error=words(fault))
                    return None
                time.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
                continue
            if claim is None:
                log.info("message_without_delivery", row=row_id)
            else:
                log.debug("delivery_begun", **of_claim(claim))
            return claim

    def _is_over(self, delivery: Delivery) -> bool:
        return not (self._leases.holds(delivery) or self._handlers.runs(delivery))

    def _ended(self, delivery: Delivery, acknowledged: Outcome | None) -> None:
        self._leases.end(delivery)
        self._look()

    def _look(self) -> None:
        with self._changed:
            self._changed.notify_all()


_lock = threading.Lock()
_receiver: tuple[int, Receiver] | None = None


def receive(row_id: int, token: str) -> Received:
    """Runs the delivery that a transport's `send` has handed over, and returns when it is over. Raises nothing: an
    error is a line in the log, and the delivery goes back in time.

    For the entry point of a transport in its receiving process, where Django is set up. If it returns
    `Received.LEAVE`, the process should take no other message and end.
    """
    try:
        return _of_this_process().receive(row_id, uuid.UUID(token))
    # A bug of ours, a machine without threads, or a token that is none.
    except BaseException as error:
        log.error("receiving_failed", row=row_id, exc_info=for_log(error))
        return Received.STALE


def _of_this_process() -> Receiver:
    global _receiver
    with _lock:
        if _receiver is None or _receiver[0] != os.getpid():
            made = Receiver()
            made.start()
            # A process of `multiprocessing` runs no other exit handlers than these.
            util.Finalize(None, made.close, exitpriority=20)
            _receiver = (os.getpid(), made)
        return _receiver[1]
