"""The dispatcher of one queue: claims what its cluster has room for, sends it, and holds it until it has begun there.

Several states of a delivery meet here: claimed and to be sent; out, until the other process takes it over by its token;
overdue; failed, because sending it raised; or asked to stop. All of it is in memory: if this process dies, the leases
expire, and reconciling gives the rows back uncounted.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import Error as DatabaseFault

from durable.flow.delivery import abandon, begin, release, renew
from durable.flow.delivery import claim as claiming
from durable.flow.looks import clusters
from durable.flow.transactions.commits import ClaimCommit
from durable.kernel.texts.failure import describe
from durable.logs import words
from durable.outcomes import Cause, Failure, GiveBack, Renewal
from durable.queues import SentQueue
from durable.transports import chosen
from durable.worker.handlers.delivery import Delivery
from durable.worker.loops.sending import Sender
from durable.worker.threads.logs import get_logger, of_claim
from durable.worker.threads.wakeup import Pace

log = get_logger("durable.worker.dispatch")

WAIT_FOR_READY = 5.0

FIRST_REST, LONGEST_REST = 1.0, 30.0
"""Seconds until a transport that refused is asked again: doubling from the first to the longest."""

MOST_AT_ONCE = 100
"""How many rows one claim takes."""

SENDS_FOR = 5.0
"""Seconds of sending after which the other duties have their turn."""

RELEASED_WITHIN = 5.0
"""Seconds at a stop for giving back what has not begun."""

LOCKED_FOR = 0.1


Key = tuple[int, uuid.UUID]
"""Row id and token: one delivery and no other."""


@dataclass(slots=True, eq=False)
class _Out:
    """A delivery that has not begun, as far as is known."""

    delivery: Delivery
    overdue_at: float | None = None
    """None: it has not been sent."""
    failed_with: BaseException | None = None

    @property
    def key(self) -> Key:
        return self.delivery.claim.row_id, self.delivery.claim.token


class Dispatcher:
    """`step` is the step of its loop, `beat` is called by the lease loop, `close` at the end of its own.

    Nothing is claimed while the transport refuses a ping, or while `max_out` deliveries have not begun.
    """

    def __init__(
        self,
        queue: SentQueue,
        *,
        worker: str,
        lease_for: timedelta,
        pace: Pace,
        ready: threading.Event,
        sender: Sender | None = None,
    ) -> None:
        self.queue = queue
        self._worker = worker
        self._lease_for = lease_for
        self._pace = pace
        self._ready = ready
        self._sender = sender or Sender(queue.name, lambda: chosen.make(queue))
        self._max_out = queue.max_out
        self._lock = threading.Lock()
        self._out: dict[Key, _Out] = {}
        self._commit = ClaimCommit(worker)
        self._where = {"queue": queue.name, "cluster": queue.cluster}
        self._refused = False
        self._rest = 0.0
        self._not_before = 0.0
        self._stopping = False

    @property
    def held(self) -> list[Delivery]:
        """What has not begun. From any thread."""
        return [out.delivery for out in self._all()]

    def beat(self) -> None:
        """Renews what has not begun. What is no longer ours has begun, or has ended. On the lease thread."""
        held = sorted(self._all(), key=lambda out: out.key[0])
        answers = renew.renew([out.delivery.to_renew for out in held], lease_for=self._lease_for) if held else []
        for out, answer in zip(held, answers, strict=True):
            if answer is Renewal.LOST:
                self._forget([out])
            elif answer is Renewal.CANCEL_REQUESTED:
                out.delivery.ask_to_stop()

    def step(self) -> float:
        """Does what is due. Returns the seconds to rest."""
        if not self._ready.is_set():
            return WAIT_FOR_READY
        self._resolve_doubt()
        began = self._forget_begun()
        self._give_back()
        if time.monotonic() < self._not_before:
            return self._pace.idle()
        unsent = self._unsent()
        room = self._room()
        if not unsent and (room <= 0 or not claiming.anything_to_send(self.queue.name)):
            return self._pace.worked() + 0.02 if began else self._pace.idle()
        if not self._answers():
            self._release(unsent)
            return self._pace.idle()
        if not unsent:
            self._claim(min(room, MOST_AT_ONCE))
            unsent = self._unsent()
        self._send(unsent)
        self._give_back()
        return self._pace.worked()

    def stop(self) -> None:
        """Sends nothing more. From any thread; the loop is stopped beside."""
        self._stopping = True

    def close(self) -> None:
        """Gives back, uncounted, what has not begun. On its own thread, at its end."""
        self._stopping = True
        end = time.monotonic() + RELEASED_WITHIN
        try:
            self._resolve_doubt()
            self._forget_begun()
            while self._all():
                self._release(self._all())
                if not self._all() or time.monotonic() > end:
                    break
                time.sleep(LOCKED_FOR)
        except DatabaseFault as fault:  # the leases expire, and reconciling gives the rows back uncounted
            log.warning("give_back_failed", error=words(fault), worker=self._worker)
        finally:
            self._sender.end()

    # --- what is out ---

    def _all(self) -> list[_Out]:
        with self._lock:
            return list(self._out.values())

    def _forget(self, outs: Sequence[_Out]) -> None:
        with self._lock:
            for out in outs:
                self._out.pop(out.key, None)

    def _unsent(self) -> list[_Out]:
        return [out for out in self._all() if out.overdue_at is None and out.failed_with is None]

    def _room(self) -> int:
        if self._max_out is None:
            self._max_out = chosen.max_out(self.queue)
        return self._max_out - len(self._out)

    def _forget_begun(self) -> bool:
        sent = [out for out in self._all() if out.overdue_at is not None]
        still = begin.unbegun([out.key for out in sent])
        begun = [out for out in sent if out.key not in still]
        self._forget(begun)
        return bool(begun)

    def _give_back(self) -> None:
        """Ends what will not begin: under its token, so that a process that takes it over meanwhile has it."""
        now = time.monotonic()
        everything = self._all()
        for out in everything:
            if out.failed_with is not None:
                error = out.failed_with
                self._abandon(out, Cause.TRANSPORT_DOWN, describe(error), error)
        self._release([out for out in everything if out.delivery.cancel_requested and out.failed_with is None])
        overdue = [
            out for out in self._all() if out.overdue_at is not None and out.overdue_at <= now and not out.failed_with
        ]
        if not overdue:
            return
        if clusters.processes(self.queue.cluster):
            log.warning("sent_anew", count=len(overdue), **self._where)
            self._release(overdue)
            return
        text = f"No process of the cluster {self.queue.cluster!r} has begun it within {self.queue.begin_for}."
        for out in overdue:
            self._abandon(out, Cause.TRANSPORT_LOST, Failure("TransportLost", text), None)

    def _abandon(self, out: _Out, cause: Cause, failure: Failure, error: BaseException | None) -> None:
        answer = abandon.abandon(out.delivery.claim, cause=cause, failure=failure, error=error)
        log.info("given_back", verb="abandon", answer=answer.value, **of_claim(out.delivery.claim))
        self._forget([out])

    def _release(self, outs: Sequence[_Out]) -> None:
        """Gives back uncounted. What another session has locked stays, for the next step."""
        if outs:
            answers = release.release([out.delivery.claim for out in outs])
            self._forget([out for out, a in zip(outs, answers, strict=True) if a is not GiveBack.BUSY])

    # --- claiming and sending ---

    def _claim(self, limit: int) -> None:
        self._commit = commit = ClaimCommit(self._worker)
        claims = claiming.claim_to_send(
            self._worker, limit=limit, queue=self.queue.name, lease_for=self._lease_for, commit=commit
        )
        commit.confirmed()
        self._hold([Delivery(claim) for claim in claims])

    def _resolve_doubt(self) -> None:
        """Holds what the last claim has claimed, if it failed with unknown outcome."""
        if self._commit.in_doubt:
            claims = claiming.made_in_doubt(self._commit)
            self._commit.confirmed()
            self._hold([Delivery(claim) for claim in claims])

    def _hold(self, deliveries: Sequence[Delivery]) -> None:
        with self._lock:
            for delivery in deliveries:
                out = _Out(delivery)
                self._out[out.key] = out

    def _send(self, outs: Sequence[_Out]) -> None:
        end = time.monotonic() + SENDS_FOR
        for out in outs:
            if self._stopping or time.monotonic() > end:
                return
            if out.delivery.cancel_requested or out.key not in self._out:
                continue
            # Before the call: the other process may begin it before the call is back.
            out.overdue_at = time.monotonic() + self.queue.begin_for.total_seconds()
            try:
                self._sender.send(*out.key)
            # Code of a broker's client, or of the project: whatever it raises, nothing was sent.
            except BaseException as error:  # noqa: BLE001
                out.failed_with = error
                log.warning("transport_failed", error=words(error), **self._where)
                self._rest_longer()
                return
            if self._rest:
                log.info("transport_sends_again", **self._where)
                self._rest = 0.0

    def _answers(self) -> bool:
        try:
            self._sender.ping()
        # As above.
        except BaseException as error:  # noqa: BLE001
            if not self._refused:
                log.warning("transport_refuses", error=words(error), **self._where)
            self._refused = True
            self._rest_longer()
            return False
        self._refused = False
        return True

    def _rest_longer(self) -> None:
        self._rest = min(max(FIRST_REST, 2 * self._rest), LONGEST_REST)
        self._not_before = time.monotonic() + self._rest
