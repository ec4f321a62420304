"""Discards dead letters: closes them for good, with a reason."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.errors import OptionInvalid, RedriveRefused, TransactionOpen
from durable.flow.audit import actors, reasons
from durable.flow.endings import closing
from durable.flow.looks import selecting
from durable.flow.looks.selecting import Place, RowsOrFilter
from durable.flow.operator import gates
from durable.flow.operator.changing import Change
from durable.flow.transactions import reporting, transaction
from durable.kernel.history.events import EventType, MessageKind
from durable.kernel.payloads import wire
from durable.logs import get_logger
from durable.outcomes import Discarded, Failure, StaffVerb, Then, WorkflowStatus
from durable.store.operators import redrives
from durable.store.operators.redrives import Facts
from durable.store.runs import history, messages, workflows
from durable.store.runs.messages import NewMessage
from durable.store.runs.workflows import LockedWorkflow
from durable.store.texts import failures
from durable.store.texts.failures import StoredFailure

logger = get_logger("durable.flow")


class _Discard(Change[Discarded]):
    def __init__(
        self,
        workflow_id: uuid.UUID,
        ordinal: int,
        *,
        run: int | None,
        then: Then,
        actor: Any,
        reason: str,
        request: uuid.UUID | None,
    ) -> None:
        super().__init__(workflow_id, ordinal, run=run, actor=actor, reason=reason, request=request, answer=Discarded)
        self.then = then

    def change(self, connection: BaseDatabaseWrapper, workflow: LockedWorkflow, facts: Facts) -> tuple[int, bool]:
        where = {"run": workflow.run, "ordinal": self.ordinal}
        letter = redrives.lock_row(connection, workflow.id, **where)
        moved = redrives.discard(connection, workflow.id, **where)
        if letter is None or moved is None:
            refusal = gates.of_letter(replace(facts, letter=letter))
            raise refusal or AssertionError("A dead letter is closed.")
        was_judged = moved.was_delivered or facts.outcomes > 0
        self.record(connection, moved.row_id, verb=StaffVerb.DISCARD, mode=self.then, was_judged=was_judged)
        event = self.marker(connection, workflow, EventType.ACTIVITY_DISCARDED, then=self.then, was_judged=was_judged)
        discarded = Failure("Discarded", f"{letter.activity} was discarded: {self.reason}")
        failure = failures.stored(discarded, workflow.id, self.ordinal)
        if was_judged or not workflow.single:
            added = history.append(connection, [(workflow.id, event)])
            workflows.advance_seq(connection, workflow.id, event.seq, added)
            if not was_judged:
                messages.insert(connection, self._messages(workflow, failure, letter.attempts))
        elif self.then == "fail":
            closing.end(
                connection,
                workflow,
                event=EventType.WORKFLOW_FAILED,
                status=WorkflowStatus.FAILED,
                at=event.recorded_at,
                data={"failure": failure.data},
                failure=failure,
                before=[event],
            )
        else:
            closing.end(
                connection,
                workflow,
                event=EventType.WORKFLOW_CANCELLED,
                status=WorkflowStatus.CANCELLED,
                at=event.recorded_at,
                data={"reason": self.reason, "actor": self.actor_text},
                before=[event],
            )
        return moved.row_id, was_judged

    def _messages(self, workflow: LockedWorkflow, failure: StoredFailure, attempts: int) -> list[NewMessage]:
        """The messages to the workflow. A request to cancel is followed by the failure: code that keeps waiting
        (because it shields the activity, or cleans up with it after an earlier request) would otherwise wait for ever.
        """
        new_messages = []
        if self.then == "cancel":
            payload = wire.dump({"reason": self.reason, "actor": self.actor_text})
            new_messages.append(NewMessage(workflow.id, workflow.run, MessageKind.CANCEL, payload))
        payload = wire.dump({"failure": failure.data, "attempts": attempts})
        new_messages.append(NewMessage(workflow.id, workflow.run, MessageKind.FAILED, payload, self.ordinal))
        return new_messages


def discard(
    workflow_id: uuid.UUID,
    ordinal: int,
    *,
    reason: str,
    then: Then = "fail",
    actor: Any = None,
    request: uuid.UUID | None = None,
) -> Discarded:
    """Closes the dead letter of an activity in the current run as cancelled, for good.

    If it is judged, it is only closed. Otherwise its workflow is waiting: under `then="fail"` the activity fails in it,
    under `"cancel"` the workflow is asked to cancel itself (a single activity ends at once in both cases). Commits
    together: the row, the audit row, a marker event, and the messages to the workflow. Raises `RedriveRefused`, and
    `OptionInvalid` for an empty reason or another `then`. A second call with the same `request` raises `AlreadyDone`.
    """
    _check(reason, then)
    return _one(workflow_id, ordinal, run=None, then=then, actor=actor, reason=reason, request=request)


def discard_many(
    rows_or_filter: RowsOrFilter,
    *,
    reason: str,
    then: Then = "fail",
    actor: Any = None,
    request: uuid.UUID | None = None,
) -> list[Discarded | RedriveRefused]:
    """Discards many dead letters, each in a transaction of its own; one outcome per row, refusals included.

    A filter selects the dead letters that match it now; rows that fail again meanwhile are left out. If the database
    cannot be reached, the rest is not tried: the outcome of each is `StoreUnavailable`. With the same `request` each
    row is discarded once; later outcomes are `AlreadyDone`. Inside a transaction of the caller's it raises
    `TransactionOpen` once, before anything is read.
    """
    _check(reason, then)
    actors.identify(actor)
    try:
        transaction.demand_none()
    except TransactionOpen as refusal:
        logger.warning("discard.refused", code=refusal.code, text=str(refusal))
        raise

    def one(place: Place) -> Discarded:
        return _one(
            place.workflow_id,
            place.ordinal,
            run=place.run,
            then=then,
            actor=actor,
            reason=reason,
            request=request,
        )

    meant = selecting.places(rows_or_filter, transaction.reading)
    return selecting.each(meant, one, store_is_away=transaction.store_is_away)


def _check(reason: str, then: str) -> None:
    reasons.demand(reason, of="a discard")
    if then not in ("fail", "cancel"):
        raise OptionInvalid("then", then, "'fail' (the activity fails) or 'cancel' (the workflow is cancelled)")


def _one(
    workflow_id: uuid.UUID,
    ordinal: int,
    *,
    run: int | None,
    then: Then,
    actor: Any,
    reason: str,
    request: uuid.UUID | None,
) -> Discarded:
    change = _Discard(workflow_id, ordinal, run=run, then=then, actor=actor, reason=reason, request=request)
    log = logger.bind(workflow=str(workflow_id), ordinal=ordinal, then=then)
    try:
        done = transaction.certain(change.body, change.commit)
    except RedriveRefused as refusal:
        log.warning("discard.refused", code=refusal.code, text=str(refusal))
        raise
    log.info("discard.done", was_judged=done.was_judged, actor=change.actor_text, reason=reason)
    reporting.discarded(
        workflow_id,
        run=done.row.run,
        ordinal=ordinal,
        activity=done.row.activity,
        then=then,
        was_judged=done.was_judged,
        actor=change.actor_text,
        reason=reason,
    )
    return done
