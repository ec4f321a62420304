"""Every verb in a situation of its own: each scenario prepares, and answers the act."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from durable.flow.caller import cancel, enqueue, signal, start
from durable.flow.delivery import abandon, acknowledge, begin, claim, postpone, release, renew
from durable.flow.operator import pause, resume, terminate, unblock
from durable.flow.transactions.commits import ClaimCommit
from durable.flow.turns import poison
from durable.flow.upkeep import beat, reconcile, settle
from durable.models import OutboxRow, Workflow
from durable.outcomes import Cancelled, Cause, Completed, Ending, Failed, Failure, HeldDelivery, RetryLater
from tests.flow import cases
from tests.flow.driver import LEASE, Driver
from tests.flow.state import expire
from tests.ledger.models import Entry

Act = Callable[[], object]
ERROR = Failure("OSError", "no", "")


def _claims(driver: Driver, number: int = 4) -> list[Any]:
    """Deliveries of a workflow's activities and of single ones."""
    driver.start(cases.fan_out, number)
    driver.turn()
    for n in range(number):
        driver.enqueue(cases.step, n)
    return driver.claim(limit=2 * number)


def _start(driver: Driver) -> Act:
    new = [start.new_workflow(id=uuid.uuid4(), type="cases.nothing", payload="{}", key=f"key-{n}") for n in range(3)]
    return lambda: start.start(new)


def _enqueue(driver: Driver) -> Act:
    new = [
        enqueue.new_activity(
            id=uuid.uuid4(), activity="cases.step", payload='{"n":1}', attempt_budget=1, delivery_budget=1
        )
        for _ in range(3)
    ]
    return lambda: enqueue.enqueue(new)


def _turn(driver: Driver) -> Act:
    driver.start(cases.nothing)
    driver.start(cases.fan_out, 3)
    closing = driver.start(cases.sequence, 1)
    driver.turn()
    driver.complete(*[c for c in driver.claim() if c.workflow_id == closing], payload="1")
    driver.start(cases.nothing)
    signal.signal(driver.start(cases.signalled), "go", payload="1")
    return driver.turn


def _turn_of_a_cancelled(driver: Driver) -> Act:
    workflow_id = driver.start(cases.cleaner)
    driver.turn()
    driver.claim()
    cancel.cancel(workflow_id)
    return driver.turn


def _claim(driver: Driver) -> Act:
    driver.start(cases.fan_out, 2)
    driver.turn()
    driver.enqueue(cases.step, 1)
    return lambda: claim.claim(worker="w", limit=9, queues=("default",), lease_for=LEASE)


def _claim_to_send(driver: Driver) -> Act:
    for n in range(3):
        driver.enqueue(cases.step, n, queue="reports")
    commit = ClaimCommit("w")
    return lambda: claim.claim_to_send("w", limit=9, queue="reports", lease_for=LEASE, commit=commit)


def _begin(driver: Driver) -> Act:
    driver.enqueue(cases.step, 1, queue="reports")
    (sent,) = claim.claim_to_send("w", limit=9, queue="reports", lease_for=LEASE, commit=ClaimCommit("w"))
    commit = ClaimCommit("cluster")
    return lambda: begin.begin(sent.row_id, sent.token, worker="cluster", lease_for=LEASE, commit=commit)


def _acknowledge(driver: Driver) -> Act:
    claims, at = _claims(driver), datetime.now(UTC)
    endings: list[Ending] = []
    for a, b, c, d in (claims[:4], claims[4:]):
        endings += [
            Completed(a, "1"),
            Failed(b, ERROR, Cause.APPLICATION_ERROR, at),
            RetryLater(c, ERROR, Cause.APPLICATION_ERROR, at, 1000),
            Cancelled(d),
        ]
    return lambda: acknowledge.acknowledge(endings)


def _transactional(driver: Driver) -> Act:
    driver.enqueue(cases.step, 1)
    out = driver.claim_one()

    def handler() -> Completed:
        Entry.objects.create(label="paid")
        return Completed(out, "1")

    return lambda: acknowledge.transactional(out, handler)


def _abandon(driver: Driver) -> Act:
    out = _claims(driver)[0]
    return lambda: abandon.abandon(out, cause=Cause.ACK_ABANDONED, failure=ERROR)


def _dead_letter(driver: Driver, of: Callable[[Driver], object]) -> Act:
    of(driver)
    driver.turn()
    OutboxRow.objects.update(delivery_budget=1, options={"on_dead_letter": "deliver"})
    out = driver.claim_one()
    return lambda: abandon.abandon(out, cause=Cause.ACK_ABANDONED, failure=ERROR)


def _release(driver: Driver) -> Act:
    claims = _claims(driver)
    cancel.cancel(claims[-1].workflow_id)
    return lambda: release.release(claims)


def _postpone(driver: Driver) -> Act:
    out = _claims(driver)[0]
    return lambda: postpone.postpone(out, delay=timedelta(seconds=5))


def _renew(driver: Driver) -> Act:
    held = [HeldDelivery(c.row_id, c.token, '"here"') for c in _claims(driver)]
    return lambda: renew.renew(held, lease_for=2 * LEASE)


def _reconcile(driver: Driver) -> Act:
    claims = _claims(driver)
    OutboxRow.objects.filter(id=claims[0].row_id).update(delivery_budget=1, options={"on_dead_letter": "deliver"})
    OutboxRow.objects.filter(id=claims[5].row_id).update(delivery_budget=1, options={"on_dead_letter": "deliver"})
    cancel.cancel(claims[-1].workflow_id)
    expire(*claims)
    return reconcile.reconcile


def _settle(driver: Driver) -> Act:
    _claims(driver)
    Workflow.objects.update(status="completed", closed_at=datetime.now(UTC))
    return settle.settle_closed


def _cancel(driver: Driver) -> Act:
    workflow_id = driver.start(cases.sequence, 1)
    return lambda: cancel.cancel(workflow_id, reason="enough")


def _cancel_single(driver: Driver) -> Act:
    workflow_id = driver.enqueue(cases.step, 1)
    return lambda: cancel.cancel(workflow_id, reason="enough")


def _cancel_running(driver: Driver) -> Act:
    workflow_id = driver.enqueue(cases.step, 1)
    driver.claim()
    return lambda: cancel.cancel(workflow_id, reason="enough")


def _signal(driver: Driver) -> Act:
    workflow_id = driver.start(cases.signalled)
    return lambda: signal.signal(workflow_id, "go", payload="1")


def _terminate(driver: Driver) -> Act:
    workflow_id = driver.start(cases.fan_out, 3)
    driver.turn()
    driver.claim(limit=1)
    signal.signal(workflow_id, "go", payload="1")
    return lambda: terminate.terminate(workflow_id, reason="enough")


def _pause(driver: Driver) -> Act:
    workflow_id = driver.start(cases.fan_out, 3)
    driver.turn()
    return lambda: pause.pause(workflow_id, reason="later")


def _resume(driver: Driver) -> Act:
    act = _pause(driver)
    act()
    (workflow_id,) = Workflow.objects.values_list("id", flat=True)
    return lambda: resume.resume(workflow_id, reason="now")


def _blocked(driver: Driver) -> uuid.UUID:
    workflow_id = driver.start(cases.signalled)
    Workflow.objects.filter(id=workflow_id).update(blocked_reason="no", blocked_version="1")
    driver.turn()
    return workflow_id


def _unblock(driver: Driver) -> Act:
    workflow_id = _blocked(driver)
    return lambda: unblock.unblock(workflow_id, reason="tried")


def _after_deploy(driver: Driver) -> Act:
    _blocked(driver)
    return lambda: unblock.after_deploy("2")


def _poison(driver: Driver) -> Act:
    workflow_id = driver.start(cases.signalled)
    Workflow.objects.update(poison_turns=2)
    return lambda: poison.count(workflow_id)


def _beat(driver: Driver) -> Act:
    return lambda: beat.beat(name="w", queues=["default"], version="1")


SCENARIOS: dict[str, Callable[[Driver], Act]] = {
    "start": _start,
    "enqueue": _enqueue,
    "turn": _turn,
    "turn of a cancelled one": _turn_of_a_cancelled,
    "claim": _claim,
    "claim to send": _claim_to_send,
    "begin": _begin,
    "acknowledge": _acknowledge,
    "transactional": _transactional,
    "abandon": _abandon,
    "dead letter": lambda driver: _dead_letter(driver, lambda d: d.start(cases.sequence, 1)),
    "dead letter of a single one": lambda driver: _dead_letter(driver, lambda d: d.enqueue(cases.step, 1)),
    "release": _release,
    "postpone": _postpone,
    "renew": _renew,
    "reconcile": _reconcile,
    "settle": _settle,
    "cancel": _cancel,
    "cancel a single one": _cancel_single,
    "cancel a running one": _cancel_running,
    "signal": _signal,
    "terminate": _terminate,
    "pause": _pause,
    "resume": _resume,
    "unblock": _unblock,
    "after a deploy": _after_deploy,
    "poison": _poison,
    "beat": _beat,
}
JOINED = ("start", "enqueue", "cancel", "cancel a single one", "cancel a running one", "signal")
"""Those in the caller's transaction: never repeated."""

ONE_TRY = (_acknowledge, _transactional, _beat)
"""Own transactions that are the worker's to repeat, on a schedule of its own."""

SILENT = (_beat,)
"""Those that change nothing which has to be whole."""

RENEWING = (_renew,)
"""Those that may be done twice: they count from the moment of the call."""
