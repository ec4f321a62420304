"""The claim loop: fills free slots with due rows, and delivers suspects alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from threading import Event

from django.db import Error as DatabaseFault

from durable.flow.delivery import claim as claiming
from durable.flow.delivery import release as releasing
from durable.flow.transactions.commits import ClaimCommit
from durable.flow.turns.room import Room
from durable.flow.turns.staged_claims import StagedClaims
from durable.logs import words
from durable.outcomes import Claim, GiveBack
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.slots import Handlers
from durable.worker.loops.leases import Leases
from durable.worker.threads.logs import get_logger, of_claim
from durable.worker.threads.wakeup import Pace

log = get_logger("durable.worker.claims")

SUSPECTS_LOOK = 1.0
"""Seconds between two looks of an idle worker for suspects."""

WAIT_FOR_RING = 5.0
"""While no slot is free, the loop does not look; a slot that becomes free wakes it."""

IN_FLIGHT = 3
"""How many times the number of slots may be in flight, unwritten acknowledgements included."""

MOST_ASIDE = 1_000
"""How many results may also wait for other sessions' locks; each one beyond that reduces the room."""

NOT_BEGUN_FOR = 1.0
"""Deliveries that were claimed ahead and have not begun after this (because the handlers before them are slow) are
released uncounted.
"""

WAIT_FOR_EMPTY = 0.25
"""The last delivery that ends wakes the loop as well; this only limits the cost of a missed wake-up."""


class Claims:
    """Claims what can start at once, and as much more as will start within moments. `leases` renews it from then on.

    A suspect (a row whose worker died with it) is taken only while nothing else is in flight here, and nothing else is
    claimed until it has ended. So that suspects get their turn under constant load, a hint makes the loop stop claiming
    until nothing is in flight. This cannot stall the worker for ever: after `LEASE_FOR` of waiting for that, or of one
    suspect, or of suspects in a row, ordinary work continues for as long.

    `but` are queues that it leaves to others: a transport serves them.
    """

    def __init__(
        self,
        *,
        worker: str,
        queues: tuple[str, ...] | None,
        lease_for: timedelta,
        handlers: Handlers,
        leases: Leases,
        pace: Pace,
        ready: Event,
        hungry: Callable[[], None] = lambda: None,
        but: tuple[str, ...] = (),
    ) -> None:
        self._worker = worker
        self._queues = queues if queues is None else tuple(queue for queue in queues if queue not in but)
        self._but = but
        self._lease_for = lease_for
        self._patience = lease_for.total_seconds()
        self._handlers = handlers
        self._leases = leases
        self._pace = pace
        self._ready = ready
        self._tell_hungry = hungry
        self._hungry = True
        self._hinted = False
        self._suspect_is_out = False
        self._looked_at = 0.0
        self._suspended_since: float | None = None
        self._ordinary_until = 0.0
        self._waiting_since = 0.0
        self._lock = threading.Condition()
        self._claiming = False
        self._for_turns = Room()
        self._turned_away = False
        self._closed = False
        self._over = False
        self._commit = ClaimCommit(worker)
        self._unreturned: list[Delivery] = []
        self.made = 0
        """How many claims returned deliveries."""

    def suspects_due(self) -> None:
        """Suspects wait: let the process run empty, and claim them. From any thread."""
        with self._lock:
            self._hinted = True
            self._for_turns.close()

    def step(self) -> float:
        """Claims what there is room for. Returns the seconds to rest."""
        if not self._ready.is_set():
            return WAIT_FOR_RING
        now = time.monotonic()
        if self._empty():
            self._suspect_is_out = False
        if self._suspects_first(now):
            if not self._empty():
                if self._suspects_still_wait(now):
                    return WAIT_FOR_EMPTY
            elif self._hold(self._claim_suspect):
                self._suspect_is_out = True
                return 0.0
            self._hinted = False
            self._suspended_since = None
        return self._ordinary_step(now)

    @property
    def in_claim(self) -> bool:
        """Whether a claim is being made, or has failed with unknown outcome, so that rows may be ours that are not held
        yet. From any thread.
        """
        return self._claiming or self._for_turns.reserved > 0 or self._commit.in_doubt

    def staged_claims(self) -> StagedClaims:
        """Lets turns claim what they stage; call `receive` after each turn."""
        return StagedClaims(
            worker=self._worker,
            queues=self._queues,
            but=self._but,
            lease_for=self._lease_for,
            room=self._for_turns,
        )

    def offer(self) -> None:
        """Says how much room there is now, for a turn that is about to begin. On the turn thread."""
        with self._lock:
            self._for_turns.offer(self.room)

    def receive(self, claims: Sequence[Claim]) -> bool:
        """Holds and runs what a turn has claimed; its reservation ends. On the turn thread, after each turn.

        Returns whether the claim loop has to look again: it may have found no room because of the reservation, and no
        freed slot would wake it for the unused part.
        """
        if claims:
            self._waiting_since = time.monotonic()
            self._dispatch(claims)
        with self._lock:  # so that a claim step sees the reservation throughout, or not at all
            if not self._for_turns.release():
                return False
            turned_away, self._turned_away = self._turned_away, False
            self._lock.notify_all()
        return turned_away

    def end_reservations(self, seconds: float) -> None:
        """Makes no more reservations, and waits for a turn in progress, `seconds` at most. What a claim or a turn
        brings later, because its commit takes longer, is not begun, but released uncounted.
        """
        with self._lock:
            self._closed = True
            self._for_turns.close()
            self._lock.wait_for(lambda: not self._for_turns.reserved, seconds)
            self._over = True

    def end(self, seconds: float) -> str:
        """Waits until no claim is in progress, `seconds` at most. Returns what may still be leased, in words; empty if
        nothing is.
        """
        with self._lock:
            over = self._lock.wait_for(lambda: not self._claiming and not self._for_turns.reserved, max(0.0, seconds))
            left = [delivery.claim.idempotency_key for delivery in self._unreturned]
        if not over:
            return "a claim had not finished: what it claims stays leased until the lease expires"
        if self._commit.in_doubt:
            return "it is not known whether the last claim was committed: what it claimed stays leased"
        return f"late claims could not be given back: {', '.join(left)}" if left else ""

    @property
    def idle(self) -> int | None:
        """How many slots have no work, as far as the last claim has seen; None: all of them. From any thread.

        An ended delivery counts as work until it is acknowledged: until then its workflow cannot stage more.
        """
        in_flight = self._leases.in_flight
        if not in_flight:
            return None
        return max(0, self._handlers.size - in_flight) if self._hungry else 0

    @property
    def room(self) -> int:
        """How many more deliveries are wanted now; 0 while enough of them wait for a slot. From any thread."""
        ahead = self._handlers.ahead
        if self._handlers.waiting > ahead // 2:
            return 0
        # Ended handlers free their slots before their acknowledgements are written. Claims must not run ahead of these
        # without bound, nor starve them of SQLite's one write lock.
        unwritten = IN_FLIGHT * (self._handlers.size + ahead) - self._leases.in_flight
        # Results that wait for locks are no reason to stop, but they take memory, so their number is limited.
        unwritten -= max(0, self._leases.aside - MOST_ASIDE)
        return max(0, min(self._handlers.free, unwritten) - self._for_turns.reserved)

    def lose_sight(self, commit: ClaimCommit) -> None:
        """Rows may be leased under its token, and it cannot be found out. On the turn thread, at its end."""
        self._commit = self._commit if self._commit.in_doubt else commit

    def close(self) -> None:
        """Gives back what has not begun, uncounted. On the claim thread, at its end."""
        try:
            self._resolve_doubt()
            self._give_back()
        except DatabaseFault as fault:  # still held: the end of the worker releases it
            log.warning("give_back_failed", error=words(fault), worker=self._worker)

    def _ordinary_step(self, now: float) -> float:
        with self._lock:
            self._for_turns.close()  # what else is due is not known again before this claim has ended
            room = self.room
            self._turned_away = room <= 0 and self._for_turns.reserved > 0
        if room <= 0:
            self._hungry = False
            return self._wait_for_slots(now)
        claimed = self._hold(partial(self._claim, room))
        if claimed < room:
            self._let_turns_claim()
        was_hungry, self._hungry = self._hungry, claimed < room
        if self._hungry and not was_hungry:
            self._tell_hungry()
        if claimed:
            self._waiting_since = now
            return self._pace.worked()
        if self._empty() and now > max(self._looked_at + SUSPECTS_LOOK, self._ordinary_until):
            self._looked_at = now
            self.suspects_due()
            return 0.0
        return self._pace.idle()

    def _let_turns_claim(self) -> None:
        """A claim has left nothing due. Turns may take what one of them stages: only once after each such claim, so
        that what others stage waits no longer than it would otherwise; and never while suspects wait to be alone here.
        """
        with self._lock:
            if not (self._closed or self._hinted or self._suspect_is_out):
                self._for_turns.open(self.room)

    def _wait_for_slots(self, now: float) -> float:
        """Rests until a slot is free. Other workers may run what waits here for too long."""
        if not self._handlers.waiting:
            return WAIT_FOR_RING
        if now - self._waiting_since < NOT_BEGUN_FOR:
            return NOT_BEGUN_FOR
        self._give_back()
        return WAIT_FOR_RING

    def _give_back(self) -> None:
        """Releases the deliveries that have not begun. If that cannot be written, they keep waiting for their slots."""
        waiting = self._handlers.withdraw()
        if not waiting:
            return
        log.info("claimed_ahead_given_back", count=len(waiting), worker=self._worker)
        try:
            outcomes = releasing.release([delivery.claim for delivery in waiting])
        except DatabaseFault:
            for delivery in waiting:
                self._handlers.dispatch(delivery)
            raise
        for delivery, outcome in zip(waiting, outcomes, strict=True):
            if outcome is GiveBack.BUSY:
                self._handlers.dispatch(delivery)
                continue
            delivery.conclude()
            self._leases.end(delivery)

    def _return(self, deliveries: Sequence[Delivery]) -> None:
        """Releases, uncounted, what came after the stop had begun."""
        log.info("claimed_late_given_back", count=len(deliveries), worker=self._worker)
        try:
            outcomes = releasing.release([delivery.claim for delivery in deliveries])
        except DatabaseFault as fault:
            log.warning("give_back_failed", error=words(fault), worker=self._worker)
            outcomes = [GiveBack.BUSY] * len(deliveries)
        for delivery, outcome in zip(deliveries, outcomes, strict=True):
            delivery.conclude()
            if outcome is GiveBack.BUSY:
                self._unreturned.append(delivery)
            else:
                self._leases.end(delivery)

    def _suspects_first(self, now: float) -> bool:
        """Whether ordinary claims are suspended for the sake of suspects, now."""
        if not self._hinted or now < self._ordinary_until:
            return False
        if self._suspended_since is None:
            self._suspended_since = now
        if now - self._suspended_since <= self._patience:
            return True
        self._suspended_since = None
        self._ordinary_until = now + self._patience
        return False

    def _suspects_still_wait(self, now: float) -> bool:
        """Whether suspects still wait: others may have taken them, and a hint names no queues."""
        if not self._suspect_is_out and now >= self._looked_at + SUSPECTS_LOOK:
            self._looked_at = now
            return claiming.suspects_due(self._queues, but=self._but) > 0
        return True

    def _empty(self) -> bool:
        # A reservation under way has not seen the hint that this look may follow.
        return not self._for_turns.reserved and self._handlers.busy == 0 and self._leases.in_flight == 0

    def _claim(self, limit: int, commit: ClaimCommit) -> list[Claim]:
        return claiming.claim(
            worker=self._worker,
            limit=limit,
            queues=self._queues,
            but=self._but,
            lease_for=self._lease_for,
            commit=commit,
        )

    def _claim_suspect(self, commit: ClaimCommit) -> list[Claim]:
        return claiming.claim_suspect(
            worker=self._worker, queues=self._queues, but=self._but, lease_for=self._lease_for, commit=commit
        )

    def _hold(self, claim: Callable[[ClaimCommit], list[Claim]]) -> int:
        """Claims, holds and dispatches; returns how many there were."""
        self._claiming = True
        try:
            self._resolve_doubt()
            self._commit = commit = ClaimCommit(self._worker)
            claims = claim(commit)
            commit.confirmed()
            self._dispatch(claims)
        finally:
            with self._lock:
                self._claiming = False
                self._lock.notify_all()
        return len(claims)

    def _resolve_doubt(self) -> None:
        """Holds and runs what the last claim has claimed, if it failed with unknown outcome."""
        if not self._commit.in_doubt:
            return
        committed = claiming.made_in_doubt(self._commit)
        self._commit.confirmed()
        self._dispatch(committed)

    def _dispatch(self, claims: Sequence[Claim]) -> None:
        deliveries = [Delivery(claim) for claim in claims]
        self._leases.hold(deliveries)
        self.made += bool(deliveries)
        if self._over and deliveries:
            self._return(deliveries)
            return
        says_each = log.is_for_debug
        for delivery in deliveries:
            if says_each:
                log.debug("claimed", **of_claim(delivery.claim))
            self._handlers.dispatch(delivery)
