"""Transactional handlers (specification A6): the handler's own writes and its completion commit together,
exactly once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from django.db.transaction import TransactionManagementError

from durable.errors import NoRetry, RetryAfter, TransactionSpoilt
from durable.errors.showing import is_a
from durable.flow.delivery import acknowledge
from durable.flow.transactions.faults import Fault, classify, is_empty_pool
from durable.flow.transactions.transaction import engine_connection
from durable.kernel.texts.failure import describe, type_name
from durable.outcomes import Completed
from durable.worker.handlers.ack_policy import WAITS_US
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.execute import Call, CommitFailed, Committed, Lacking, Outcome, PutOff, completed
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger, of_claim

log = get_logger("durable.worker.transactional")

PUT_OFF = timedelta(seconds=1)
"""How soon a handler that found no connection is delivered again."""


def wait_us(microseconds: int) -> None:
    """Lets the time between two tries pass."""
    time.sleep(microseconds / 1_000_000)


def run(call: Call, delivery: Delivery, *, wait: Callable[[int], None] = wait_us) -> Outcome:
    """Runs the handler and commits it with its completion, on this thread's connection.

    A retryable error has rolled back the handler's writes, so both are repeated on the schedule of acknowledgements,
    five tries in all, within one attempt. Returns `Committed`, the ending of an application error, `CommitFailed`, or
    `PutOff` if the handler never began because there was no connection.
    """
    tries = 0
    trial = _Trial(call, delivery)
    while True:
        tries += 1
        trial.again()
        try:
            hygiene.connect_as_the_host_does()
            trial.connected = True
            return Committed(call.claim, acknowledge.transactional(call.claim, trial.handler))
        # User code runs in there; errors of the code and of the database are distinguished below.
        except BaseException as error:  # noqa: BLE001
            fault = classify(error)
            outcome = trial.outcome(error, fault, is_last=tries > len(WAITS_US))
            if outcome is not None:
                return outcome
            log.warning("transactional_try_failed", tries=tries, error=type_name(type(error)), **of_claim(call.claim))
            if fault is Fault.NEW_CONNECTION:
                hygiene.drop()
        delivery.may_be_committed = False
        wait(WAITS_US[tries - 1])


class _Trial:
    """What is known of the tries of one delivery."""

    def __init__(self, call: Call, delivery: Delivery) -> None:
        self.connected = False
        self._call = call
        self._delivery = delivery
        self._began = False
        self._raised: BaseException | None = None
        self._is_of_another_database = False

    def again(self) -> None:
        """The next try begins."""
        self.connected = False
        self._raised = None

    def handler(self) -> Completed:
        """Runs the handler. Raises what it raises."""
        self._began = True
        try:
            ending = completed(self._call, self._delivery)
        except BaseException as error:
            self._raised = error
            self._is_of_another_database = not engine_connection().errors_occurred
            raise
        self._delivery.may_be_committed = True
        return ending

    def outcome(self, error: BaseException, fault: Fault, *, is_last: bool) -> Outcome | None:
        """Returns what a failed try means for the delivery; None: try again."""
        handlers_own = error is self._raised
        # Whatever error of a database such a one was raised from.
        decides_itself = handlers_own and is_a(error, NoRetry, RetryAfter)
        is_elsewhere = fault is not Fault.PERMANENT and handlers_own and self._is_of_another_database
        if decides_itself or is_elsewhere:
            # Our transaction was fine, and repeating it does not help another database: the activity's own retries have
            # to.
            return self._call.failed(error, self._delivery)
        if fault is Fault.PERMANENT:
            # The error that leaves our blocks may be another than the one that the handler raised in them: they set
            # attributes of it, and its class may refuse that.
            if self._raised is not None:
                return self._call.failed(self._raised, self._delivery)
            # If the handler has made its transaction uncommittable, its attempt has failed.
            if is_a(error, TransactionSpoilt, TransactionManagementError):
                return self._call.failed(error, self._delivery)
            return CommitFailed(self._call.claim, describe(error), error)
        if not self._began and not self.connected and (is_last or is_empty_pool(error)):
            # Waiting for a pool has already taken its time; waiting again would keep the slot from others.
            return PutOff(self._call.claim, PUT_OFF, Lacking.CONNECTION)
        return CommitFailed(self._call.claim, describe(error), error) if is_last else None
