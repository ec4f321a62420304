"""The end of a worker: handlers get their grace, acknowledgements their schedule, and the rest is
released uncounted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.db import connections

from durable.conf import settings
from durable.flow.delivery import release, renew
from durable.flow.upkeep import beat
from durable.logs import words
from durable.outcomes import GiveBack
from durable.worker.handlers.delivery import Conclusion, Delivery
from durable.worker.process.modes import WorkerExit
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger

if TYPE_CHECKING:
    # A circle: this is the end of the worker, in a file of its own.
    from durable.worker.process.worker import Worker

log = get_logger("durable.worker.stopping")

LAST_WORDS = 5.0
"""Seconds after `GRACE_FOR` in which acknowledgements and releases have to end."""

SHORT_CLAIM = 4.0
"""Seconds that a claim in progress may take to finish, even without grace."""

LOCKED_FOR = 0.1
"""Seconds between two tries to release what another session has locked."""

BURST_PATIENCE = 100
"""How many looks at a database that does not answer before a burst gives up: about two seconds."""


class _Farewell(threading.Thread):
    """Releases what cannot be finished. On a separate thread, so that a database that is away does not
    hold up the end.
    """

    def __init__(self, worker: Worker, left: Sequence[Delivery]) -> None:
        super().__init__(name="durable-farewell", daemon=True)
        self._worker = worker
        self._left = left
        self.said = threading.Event()
        self.late = threading.Event()
        """Nobody waits for the last releases any longer."""
        self.trouble = ""

    def run(self) -> None:
        try:
            hygiene.connect()
            if self._left:
                # The last heartbeats go along, for the next attempt to read.
                renew.renew([delivery.to_renew for delivery in self._left], lease_for=settings.lease_for)
                self._release()
            beat.gone(self._worker.name)
        # Whatever keeps the last releases from being written, the exit code has to show it.
        except BaseException as fault:  # noqa: BLE001
            self.trouble = words(fault)
        finally:
            connections.close_all()
            self.said.set()

    def _release(self) -> None:
        """Releases everything; retries what another session has locked while there is time."""
        left = list(self._left)
        while left:
            outcomes = release.release([delivery.claim for delivery in left])
            busy = [delivery for delivery, outcome in zip(left, outcomes, strict=True) if outcome is GiveBack.BUSY]
            for delivery in left:
                if delivery not in busy:
                    self._worker.leases.end(delivery)
            left = busy
            self.trouble = f"another session has locked {len(left)} of the deliveries to be given back" if left else ""
            if left and self.late.wait(LOCKED_FOR):
                return


def stop(worker: Worker, code: WorkerExit, *, grace: float) -> WorkerExit:
    """Stops a worker cleanly. Returns its exit code: `code`, or `WorkerExit.STORE` if something could not be written.

    Claims and turns end first. Handlers have `grace` seconds, acknowledgements five more; deliveries that have not
    ended by then are released uncounted, and their handlers are told to stop, but not waited for. What a claim brings
    later is released at once; one that does not finish in time is logged, and makes the exit code `WorkerExit.STORE`.
    """
    deadline = time.monotonic() + grace
    for dispatcher in worker.dispatchers:
        dispatcher.stop()
    for loop in (worker.claim_loop, worker.turn_loop, worker.housekeeping_loop, *worker.dispatch_loops):
        loop.stop()
    # What a claim under way brings, and what a turn under way takes, has to be known here.
    worker.claim_loop.join(max(grace, SHORT_CLAIM))
    worker.claims.end_reservations(SHORT_CLAIM)
    while worker.handlers.busy and not worker.grace_is_cut and (left := deadline - time.monotonic()) > 0:
        worker.wait_for_slot(min(left, 0.1))
    unfinished = [delivery for delivery in worker.leases.all() if delivery.conclude() is Conclusion.FIRST]
    for delivery in unfinished:
        delivery.leave()
    end = deadline + LAST_WORDS
    unwritten = worker.acks.finish(end - time.monotonic())
    farewell = _Farewell(worker, unfinished)
    try:
        farewell.start()
    except RuntimeError:  # no more threads on this machine: emit it here, however long that takes
        farewell.run()
    farewell.said.wait(max(0.1, end - time.monotonic()))
    farewell.late.set()
    for loop in (worker.claim_loop, worker.turn_loop):
        loop.join(end - time.monotonic())
    for loop in worker.dispatch_loops:  # they give back themselves what has not begun
        loop.join(end - time.monotonic())
    unclaimed = worker.claims.end(end - time.monotonic())
    worker.lease_loop.stop()
    for loop in worker.loops:
        loop.stop()
    worker.handlers.close(0.0 if worker.grace_is_cut else 1.0)
    end = time.monotonic() + 1.0
    for loop in worker.loops:
        loop.join(end - time.monotonic())
    return _exit_code(worker, code, farewell, unwritten, unclaimed)


def _exit_code(worker: Worker, code: WorkerExit, farewell: _Farewell, unwritten: int, unclaimed: str) -> WorkerExit:
    unsent = any(dispatcher.held for dispatcher in worker.dispatchers)
    if not unwritten and not farewell.trouble and farewell.said.is_set() and not unclaimed and not unsent:
        return code
    trouble = farewell.trouble or ("" if farewell.said.is_set() else "no answer in time")
    held = [*worker.leases.all(), *(delivery for dispatcher in worker.dispatchers for delivery in dispatcher.held)]
    still_leased = [delivery.claim.idempotency_key for delivery in held]
    log.error(
        "stopped_with_work_left",
        worker=worker.name,
        unwritten=unwritten,
        still_leased=still_leased,
        error="; ".join(filter(None, [trouble, unclaimed])),
    )
    # A turn that hangs inside its transaction may be the reason: the process still has to restart.
    return code if code is WorkerExit.RESTART else WorkerExit.STORE
