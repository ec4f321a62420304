"""Redrives dead letters: makes them pending and claimable again. Moves the row, or raises a refusal."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.errors import (
    AlreadyJudged,
    HistoryRecordsOutcome,
    NotDeadLettered,
    OptionInvalid,
    RedriveRefused,
    TransactionOpen,
)
from durable.flow.audit import actors, reasons
from durable.flow.looks import selecting
from durable.flow.looks.selecting import Place, RowsOrFilter
from durable.flow.operator import budgets, gates
from durable.flow.operator.changing import Change
from durable.flow.transactions import reporting, transaction
from durable.kernel.history.events import EventType
from durable.logs import get_logger
from durable.outcomes import OutboxStatus, RedriveMode, Redriven, RedrivePreview, StaffVerb, WorkflowStatus
from durable.store.operators import redrives
from durable.store.operators.redrives import Facts
from durable.store.runs import history, workflows
from durable.store.runs.workflows import LockedWorkflow

logger = get_logger("durable.flow")


class _Redrive(Change[Redriven]):
    def __init__(
        self,
        workflow_id: uuid.UUID,
        ordinal: int,
        *,
        run: int | None,
        mode: RedriveMode,
        actor: Any,
        reason: str,
        request: uuid.UUID | None,
        delay: timedelta,
    ) -> None:
        super().__init__(workflow_id, ordinal, run=run, actor=actor, reason=reason, request=request, answer=Redriven)
        self.mode = mode
        self.delay = delay
        self.passed_over: list[str] = []

    def change(self, connection: BaseDatabaseWrapper, workflow: LockedWorkflow, facts: Facts) -> tuple[int, bool]:
        forced = self.mode is RedriveMode.FORCED
        self.passed_over.clear()
        if (refusal := gates.of_history(facts, self.mode)) is not None:
            raise refusal
        if facts.outcomes:
            self.passed_over.append(HistoryRecordsOutcome.code)
        letter = redrives.lock_row(connection, workflow.id, run=workflow.run, ordinal=self.ordinal)
        facts = replace(facts, letter=letter)
        moved = None
        with suppress(budgets.Unreadable):  # the gates say so, below
            moved = letter and redrives.revive(
                connection,
                workflow.id,
                run=workflow.run,
                ordinal=self.ordinal,
                judged_too=int(forced),
                paused=int(workflow.status is WorkflowStatus.PAUSED),
                deliveries=settings.delivery_attempts,
                attempts=budgets.attempts(letter.activity, letter.options),
                delay=self.delay,
            )
        if moved is None:
            raise gates.of_redrive(facts, self.mode) or AssertionError("A dead letter that no gate refuses is moved.")
        if moved.was_delivered:
            self.passed_over.append(AlreadyJudged.code)
        was_judged = moved.was_delivered or facts.outcomes > 0
        self.record(connection, moved.row_id, verb=StaffVerb.REDRIVE, mode=self.mode.value, was_judged=was_judged)
        event = self.marker(
            connection, workflow, EventType.ACTIVITY_REDRIVEN, mode=self.mode.value, was_judged=was_judged
        )
        added = history.append(connection, [(workflow.id, event)])
        workflows.advance_seq(connection, workflow.id, event.seq, added)
        return moved.row_id, was_judged


def redrive(
    workflow_id: uuid.UUID,
    ordinal: int,
    *,
    mode: RedriveMode = RedriveMode.ELIGIBLE,
    actor: Any = None,
    reason: str = "",
    request: uuid.UUID | None = None,
) -> Redriven:
    """Makes the dead letter of an activity in the current run pending again, due now.

    Commits together: the row (pending, both budgets extended by a full one, attempts and errors kept), the audit row,
    and a marker event in the history. Returns the row and whether it was judged. Raises the `RedriveRefused` of
    the first gate that refuses (before any of them `TransactionOpen`, inside a transaction of the caller's;
    `StoreUnavailable` if the database did not answer), and `OptionInvalid` for a forced redrive without a reason.
    `actor` is a user or a text. A second call with the same `request` raises `AlreadyDone`.
    """
    _check(mode, reason)
    return _one(
        workflow_id,
        ordinal,
        run=None,
        mode=mode,
        actor=actor,
        reason=reason,
        request=request,
        delay=timedelta(),
    )


def redrive_many(
    rows_or_filter: RowsOrFilter,
    *,
    mode: RedriveMode = RedriveMode.ELIGIBLE,
    actor: Any = None,
    reason: str = "",
    per_second: float | None = None,
    request: uuid.UUID | None = None,
) -> list[Redriven | RedriveRefused]:
    """Redrives many dead letters, each in a transaction of its own; one outcome per row, refusals included.

    `rows_or_filter`: outbox rows, pairs of workflow id and ordinal, or a `DeadLetterFilter`, which selects the dead
    letters that match it now; rows that fail again meanwhile are left out. The rows come due at most `per_second` a
    second (None: `REDRIVE_PER_SECOND`), the first at once. If the database cannot be reached, the rest is not tried:
    the outcome of each is `StoreUnavailable`, which is raised if not even the rows can be read. With the same `request`
    each row is redriven once; later outcomes are `AlreadyDone`. Inside a transaction of the caller's it raises
    `TransactionOpen` once, before anything is read. Raises `OptionInvalid` for a filter, a reason or an actor that no
    database accepts.
    """
    _check(mode, reason)
    actors.identify(actor)
    rate = settings.redrive_per_second if per_second is None else per_second
    if rate is not None and not rate > 0:
        raise OptionInvalid("per_second", per_second, "a number above zero")
    _outside_transactions()
    moved = 0

    def one(place: Place) -> Redriven:
        nonlocal moved
        delay = timedelta(seconds=moved / rate) if rate is not None else timedelta()
        done = _one(
            place.workflow_id,
            place.ordinal,
            run=place.run,
            mode=mode,
            actor=actor,
            reason=reason,
            request=request,
            delay=delay,
        )
        moved += 1
        return done

    meant = selecting.places(rows_or_filter, transaction.reading)
    return selecting.each(meant, one, store_is_away=transaction.store_is_away)


def preview_redrive(rows_or_filter: RowsOrFilter, *, mode: RedriveMode = RedriveMode.ELIGIBLE) -> RedrivePreview:
    """Returns what `redrive_many` would do now: how many it would redrive, and how many it would refuse, by code.
    Writes nothing.

    At most 10,000 rows are checked; `capped` says that there are more. The redrive itself checks the gates again.
    """
    answers, more = _verdicts(rows_or_filter, mode)
    refused = Counter(answers)
    redrivable = refused.pop(REDRIVABLE, 0)
    return RedrivePreview(redrivable=redrivable, refused=dict(refused), looked_at=len(answers), capped=more > 0)


def verdicts(rows: RowsOrFilter, *, mode: RedriveMode = RedriveMode.ELIGIBLE) -> list[str]:
    """The verdict of `redrive_many` on each of at most 10,000 rows now, in order: `REDRIVABLE`, or the code of the
    refusal. Writes nothing. Raises `StoreUnavailable`.
    """
    answers, _more = _verdicts(rows, mode)
    return answers


REDRIVABLE = "redrivable"
"""The verdict on a dead letter that every gate lets through."""

PREVIEW_LIMIT = 10_000


def _verdicts(rows_or_filter: RowsOrFilter, mode: RedriveMode) -> tuple[list[str], int]:
    """The gates' verdicts on at most `PREVIEW_LIMIT` of them, in order; and how many more there are (1: some).

    A row that is passed twice is a dead letter only the first time. Raises what `selecting.places` raises.
    """
    known, more = selecting.facts(
        rows_or_filter, transaction.reading, outcomes=mode is not RedriveMode.FORCED, limit=PREVIEW_LIMIT
    )
    answers: list[str] = []
    moved: set[int] = set()
    faults: gates.Faults = {}
    for facts in known:
        refusal = gates.of_redrive(facts, mode, faults)
        if refusal is None and facts.letter is not None:
            if facts.letter.row_id in moved:
                refusal = NotDeadLettered(facts.workflow_id, facts.ordinal, OutboxStatus.PENDING.value)
            moved.add(facts.letter.row_id)
        answers.append(REDRIVABLE if refusal is None else refusal.code)
    return answers, more


def _check(mode: RedriveMode, reason: str) -> None:
    if mode is RedriveMode.FORCED:
        reasons.demand(reason, of="a forced redrive")
    reasons.check(reason)


def _outside_transactions() -> None:
    try:
        transaction.demand_none()
    except TransactionOpen as refusal:
        logger.warning("redrive.refused", code=refusal.code, text=str(refusal))
        raise


def _one(
    workflow_id: uuid.UUID,
    ordinal: int,
    *,
    run: int | None,
    mode: RedriveMode,
    actor: Any,
    reason: str,
    request: uuid.UUID | None,
    delay: timedelta,
) -> Redriven:
    change = _Redrive(
        workflow_id, ordinal, run=run, mode=mode, actor=actor, reason=reason, request=request, delay=delay
    )
    log = logger.bind(workflow=str(workflow_id), ordinal=ordinal, mode=mode.value)
    try:
        done = transaction.certain(change.body, change.commit)
    except RedriveRefused as refusal:
        log.warning("redrive.refused", code=refusal.code, text=str(refusal))
        raise
    for code in change.passed_over:
        log.warning("redrive.gate_passed_over", code=code, reason=reason)
    log.info("redrive.done", was_judged=done.was_judged, actor=change.actor_text)
    reporting.redriven(
        workflow_id,
        run=done.row.run,
        ordinal=ordinal,
        activity=done.row.activity,
        mode=mode.value,
        was_judged=done.was_judged,
        actor=change.actor_text,
        reason=reason,
    )
    return done
