"""A worker on one thread, the caller's: turns, claims, handlers and acknowledgements one after another."""

from __future__ import annotations

import itertools
import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from django.db import Error as DatabaseFault

from durable import clock
from durable.conf import settings
from durable.errors import TransactionLeftOpen
from durable.flow.delivery import abandon, acknowledge, claim, postpone
from durable.flow.transactions.faults import Fault, classify
from durable.flow.turns import turn
from durable.flow.upkeep import reconcile
from durable.kernel.replay.cache import Cache
from durable.kernel.texts.failure import sentence
from durable.outbound import floods
from durable.outcomes import (
    AckOutcome,
    Claim,
    Completed,
    Ending,
    ReconcileReport,
    RetryLater,
    TurnReport,
)
from durable.testing import leftovers
from durable.testing.doubles import Standing
from durable.testing.errors import NeverIdle
from durable.worker.handlers import ack_policy, execute, transactional
from durable.worker.handlers.ack_policy import Abandon, Acknowledge, Known, Postpone, WaitForLock, nobody_locks
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.execute import Call, Committed, Outcome

NAME = "durable.testing"
MOST_ROUNDS = 100_000
TURNS = 100
PATIENCE = 5
"""How many errors of one verb in a row it tolerates."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Tally:
    """What was done so far."""

    turns: int = 0
    attempts: int = 0
    retried: int = 0
    closed: int = 0
    faults: list[str] = field(default_factory=list)


class Inline:
    """Does what a worker does, with `concurrency` slots, on this thread and its connections.

    Works inside a transaction of the test's. Database errors that are worth a retry are recorded, and it goes on as a
    worker would, but without waiting; others are raised. So is an error of workflow code that blocks its workflow, as
    it is, after that was committed. Back-off is repeatable: the jitter comes from a fixed seed.
    """

    def __init__(self, cache: Cache, *, slots: int | None = None) -> None:
        floods.reset()  # so that lines that one test logs too often are not missing in the next
        self.tally = Tally()
        self._cache = cache
        self._slots = slots or settings.concurrency
        self._rng = random.Random(0)
        self._troubles: Counter[Callable[[], object]] = Counter()

    def work(self) -> None:
        """Runs everything that is due now, until nothing is. Raises `NeverIdle`, and bugs of workflow code."""
        for _ in range(MOST_ROUNDS):
            faults = len(self.tally.faults)
            turned = self._turn()
            claims = self._claim()
            for claimed in claims:
                self._deliver(claimed)
            if not turned and not claims and not self._reconcile() and faults == len(self.tally.faults):
                return
        raise NeverIdle(MOST_ROUNDS)

    # --- verbs ---

    def _turn(self) -> bool:
        report = self._tried("turn", self._turn_batch, failed=TurnReport())
        self.tally.turns += report.workflows
        self.tally.closed += report.closed
        if report.raised:
            self._met_bugs(report.raised)
        return report != TurnReport()

    def _met_bugs(self, bugs: Sequence[BaseException]) -> None:
        """Errors of workflow code, each of which has blocked its workflow."""
        raise bugs[0]

    def _claim(self) -> list[Claim]:
        for claiming in (self._claim_due, self._claim_suspect):
            claimed: Sequence[Claim] = self._tried("claim", claiming, failed=())
            if claimed:
                return list(claimed)
        return []

    def _turn_batch(self) -> TurnReport:
        return turn.turn(cache=self._cache, queues=None, limit=TURNS, note=_note)

    def _claim_due(self) -> list[Claim]:
        return claim.claim(worker=NAME, limit=self._slots, queues=None, lease_for=settings.lease_for)

    def _claim_suspect(self) -> list[Claim]:
        return claim.claim_suspect(worker=NAME, queues=None, lease_for=settings.lease_for)

    def _reconcile(self) -> bool:
        report = self._tried("reconcile", reconcile.reconcile, failed=ReconcileReport())
        return bool(report.rearmed or report.settled or report.dead_lettered)

    def _tried(self, verb: str, call: Callable[[], Answer], *, failed: Answer) -> Answer:
        try:
            answer = call()
        except DatabaseFault as error:
            self._troubles[call] += 1
            if classify(error) is Fault.PERMANENT or self._troubles[call] > PATIENCE:
                raise
            self._keep_fault(verb, error)
            return failed
        self._troubles[call] = 0
        return answer

    def _keep_fault(self, verb: str, error: BaseException) -> None:
        self.tally.faults.append(f"{verb}: {sentence(error)}")

    # --- one delivery ---

    def _deliver(self, claimed: Claim) -> None:
        match ack_policy.verb(self._attempt(claimed), is_locked=nobody_locks):
            case Acknowledge(ending=ending):
                self._acknowledge(ending)
            case Known(outcome=outcome):
                self.tally.closed += outcome is AckOutcome.ACKNOWLEDGED and claimed.single
            case Abandon() as step:
                self._abandon(claimed, step)
            case Postpone(delay=delay):
                self._given_back("postpone", lambda: postpone.postpone(claimed, delay=delay))
            case WaitForLock():
                raise AssertionError("Nobody else is here who could hold a lock.")

    def _attempt(self, claimed: Claim) -> Outcome:
        prepared = execute.prepare(claimed, rng=self._rng)
        if not isinstance(prepared, Call):
            return prepared
        standing = Standing(prepared)
        call, delivery = standing.call, Delivery(claimed)
        delivery.begin()
        delivery.listen(_host_us)
        self.tally.attempts += 1
        if call.definition.transactional:
            outcome = transactional.run(call, delivery, wait=_no_wait)
        else:
            with leftovers.cleared() as mend:
                outcome = execute.perform(call, delivery)
                left_open = mend()
            if left_open and isinstance(outcome, Completed):
                outcome = call.failed(TransactionLeftOpen(claimed.activity, left_open), delivery)
        if standing.interruption is not None:
            raise standing.interruption
        if not isinstance(outcome, Committed):
            if _overran(call, delivery.started_at):
                outcome = call.timed_out(delivery)
            elif _fell_silent(call, delivery):
                outcome = call.fell_silent(delivery)
        return outcome

    def _acknowledge(self, ending: Ending) -> None:
        """The policy of the worker's acknowledgements, without its waits."""
        for tries in itertools.count(1):
            try:
                outcome = acknowledge.acknowledge([ending])[0]
            # Whatever the acknowledgement raises is classified; what the classifier does not know is permanent.
            except Exception as error:  # noqa: BLE001
                self._keep_fault("acknowledge", error)
                step = ack_policy.after_failure(error, tries=tries, together=False, is_locked=nobody_locks)
                if isinstance(step, Abandon):
                    self._abandon(ending.claim, step)
                    return
                continue
            if outcome is AckOutcome.ACKNOWLEDGED:
                again = isinstance(ending, RetryLater)
                self.tally.retried += again
                self.tally.closed += ending.claim.single and not again
            return

    def _abandon(self, claimed: Claim, step: Abandon) -> None:
        give_back = partial(abandon.abandon, claimed, cause=step.cause, failure=step.failure, delay=step.delay)
        self._given_back("abandon", give_back)

    def _given_back(self, verb: str, give_back: Callable[[], object]) -> None:
        try:
            give_back()
        except DatabaseFault as error:
            # As in a worker: the lease expires, and the reconciler recovers the delivery.
            self._keep_fault(verb, error)


def _overran(call: Call, started_at: datetime | None) -> bool:
    """`start_to_close` by the frozen clock: a handler, or its fake, that moves the clock beyond the limit has timed
    out.
    """
    if call.start_to_close is None or started_at is None or not clock.is_frozen():
        return False
    return clock.host_now() - started_at > call.start_to_close


def _fell_silent(call: Call, delivery: Delivery) -> bool:
    """`heartbeat_timeout`, likewise."""
    if call.heartbeat_timeout is None or not clock.is_frozen():
        return False
    silence = max(delivery.longest_silence, _host_us() - delivery.last_beat())
    return silence > call.heartbeat_timeout // timedelta(microseconds=1)


def _host_us() -> int:
    """The engine's time in microseconds."""
    return (clock.host_now() - _EPOCH) // timedelta(microseconds=1)


def _note(workflow_id: uuid.UUID | None) -> None:
    """Writes no notes: if workflow code kills the process, the test is gone, too, and nobody would read them."""


def _no_wait(microseconds: int) -> None:
    """On a single thread waiting changes nothing."""
