"""Transactional handlers (SPEC A6): the handler's own writes and its completion commit together, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db.transaction import TransactionManagementError

from durable.errors import TransactionSpoilt
from durable.flow import acknowledge
from durable.flow.steps.faults import Fault, classify
from durable.kernel.failure import describe
from durable.outcomes import Completed
from durable.worker import hygiene
from durable.worker.acks import WAITS_US
from durable.worker.delivery import Delivery
from durable.worker.execute import AckFailed, Call, Committed, Outcome, completed
from durable.worker.logs import get_logger, of_claim

log = get_logger("durable.worker.transactional")


def wait_us(microseconds: int) -> None:
    """Let the time between two tries pass."""
    time.sleep(microseconds / 1_000_000)


def run(call: Call, delivery: Delivery, *, wait: Callable[[int], None] = wait_us) -> Outcome:
    """Run the handler and commit it with its completion, on this thread's connection.

    A retryable error has undone the handler's writes, so both are repeated on the schedule of acknowledgements, five
    tries in all, within one attempt. Answers `Committed`, the ending of an application error, or `AckFailed`.
    """
    tries = 0
    raised: BaseException | None = None

    def handler() -> Completed:
        nonlocal raised
        try:
            ending = completed(call, delivery)
        except BaseException as error:
            raised = error
            raise
        delivery.may_be_committed = True
        return ending

    while True:
        tries += 1
        try:
            hygiene.connect()
            return Committed(call.claim, acknowledge.transactional(call.claim, handler))
        # User code runs in there; all that it, or the database, raises is told apart below.
        except BaseException as error:  # noqa: BLE001
            fault = classify(error)
            if fault is Fault.PERMANENT:
                # A handler that leaves a transaction which can not be committed has failed by its own fault.
                if error is raised or isinstance(error, TransactionSpoilt | TransactionManagementError):
                    return call.failed(error, delivery)
                return AckFailed(call.claim, describe(error))
            if tries > len(WAITS_US):
                return AckFailed(call.claim, describe(error))
            log.warning(
                "transactional_try_failed", tries=tries, error=f"{type(error).__qualname__}", **of_claim(call.claim)
            )
            if fault is Fault.NEW_CONNECTION:
                hygiene.drop()
        delivery.may_be_committed = False
        wait(WAITS_US[tries - 1])
