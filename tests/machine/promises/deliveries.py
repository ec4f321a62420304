"""Claims, and everything that ends one. The token is the fence: without it nothing changes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from unittest.mock import ANY

from durable.conf import settings
from durable.outcomes import (
    AckOutcome,
    Cancelled,
    Cause,
    Claim,
    Completed,
    Ending,
    Failed,
    Failure,
    GiveBack,
    HeldDelivery,
    Renewal,
    RetryLater,
)
from tests.machine.promises.history import close, tell
from tests.machine.state import Row, State


class Between:
    """Equal to every moment in a span, for delays with jitter."""

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high

    def __eq__(self, other: object) -> bool:
        return bool(self.low <= other <= self.high)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"between {self.low} and {self.high}"


def due(state: State, *, queues: Sequence[str] | None, suspects: bool) -> list[Row]:
    """The rows that a claim may take, in its order."""
    found = [
        row
        for row in state.rows.values()
        if row["status"] == "pending"
        and not row["paused"]
        and row["visible_after"] <= state.now
        and row["suspect"] is suspects
        and (queues is None or row["queue"] in queues)
    ]
    return sorted(found, key=lambda row: (0 if suspects else -row["priority"], row["visible_after"], row["id"]))


def claim(state: State, rows: Sequence[Row], claims: Sequence[Claim], *, worker: str, lease_for: timedelta) -> None:
    """These rows are out now, counted, each with its item, all under one token that was never there before."""
    tokens = {c.token for c in claims}
    assert len(tokens) <= 1
    assert tokens.isdisjoint(item["lock_token"] for item in state.items.values())
    assert [c.row_id for c in claims] == [row["id"] for row in rows]
    for taken, row in zip(claims, rows, strict=True):
        row.update(status="claimed", claimed_at=state.now, worker=worker, deliveries=row["deliveries"] + 1)
        single = state.workflows[row["workflow_id"]]["single"]
        copied = {name: row[name] for name in ("attempts", "attempt_budget", "delivery_failures", "delivery_budget")}
        state.items[row["id"]] = {
            "outbox_row_id": row["id"],
            "workflow_id": row["workflow_id"],
            "lock_token": taken.token,
            "locked_until": state.now + lease_for,
            "worker": worker,
            "queue": "",
            "begun_at": None,
            "cancel_requested_at": None,
            "heartbeat": None,
            "single": single,
            **copied,
        }
        told = (taken.workflow_id, taken.run, taken.ordinal, taken.activity, taken.payload, taken.options)
        assert told == tuple(row[n] for n in ("workflow_id", "run", "ordinal", "activity", "input", "options"))
        told_counts = (taken.delivery, taken.single, taken.suspect, taken.worker, taken.last_heartbeat)
        assert told_counts == (row["deliveries"], single, row["suspect"], worker, row["last_heartbeat"])
        assert {name: getattr(taken, name) for name in copied} == copied


def item(state: State, row_id: int, token: uuid.UUID) -> Row | None:
    """The delivery, if the token is still good."""
    found = state.items.get(row_id)
    return found if found is not None and found["lock_token"] == token else None


def _failure_of(state: State, claim: Claim, cause: Cause, error: Any, started_at: Any) -> None:
    state.expect_new(
        "failures",
        outbox_row_id=claim.row_id,
        number=claim.delivery,
        worker=claim.worker,
        started_at=started_at,
        ended_at=state.now,
        cause=cause.value,
        error=error,
        error_class=True,
    )


def _returned(state: State, row: Row, delay: Any, **values: Any) -> None:
    due_at = state.now + delay if isinstance(delay, timedelta) else Between(*(state.now + span for span in delay))
    row.update(status="pending", claimed_at=None, visible_after=due_at, **values)


def _heartbeat(row: Row, latest: str | None) -> str | None:
    kept: str | None = row["last_heartbeat"] if latest is None else latest
    return kept


def acknowledge(state: State, endings: Sequence[Ending]) -> list[AckOutcome]:
    """Each delivery whose token holds is ended, once; the others are told so and change nothing."""
    return [_acknowledge(state, ending) for ending in endings]


def _acknowledge(state: State, ending: Ending) -> AckOutcome:
    claim = ending.claim
    out = item(state, claim.row_id, claim.token)
    if out is None:
        return AckOutcome.TOKEN_MISSING
    row, workflow_id = state.rows[claim.row_id], claim.workflow_id
    del state.items[claim.row_id]
    beat = _heartbeat(row, ending.heartbeat)
    held = isinstance(ending, Failed) and ending.spent and row["options"].get("on_exhausted") == "hold"
    if out["cancel_requested_at"] and (held or isinstance(ending, RetryLater)):
        ending = Cancelled(claim, ending.heartbeat)
    if isinstance(ending, Failed | RetryLater):
        _failure_of(state, claim, ending.cause, ending.failure.as_data(), ending.started_at)
    match ending:
        case Completed():
            row.update(status="done", attempts=row["attempts"] + 1, last_heartbeat=beat, suspect=False)
            if claim.single:
                close(state, workflow_id, "completed", {"result": ending.payload}, result=ending.payload)
            else:
                tell(state, workflow_id, "completed", ending.payload, ordinal=claim.ordinal)
        case Cancelled():
            row.update(status="cancelled", last_heartbeat=beat, suspect=False)
            if claim.single:
                close(state, workflow_id, "cancelled", {})
        case RetryLater():
            delay = timedelta(microseconds=ending.delay_us)
            counts = {"attempts": row["attempts"] + 1, "cause": ending.cause.value, "suspect": False}
            _returned(state, row, delay, last_heartbeat=beat, **counts)
        case Failed() if held:
            row.update(
                status="dead", dead_lettered_at=state.now, cause=Cause.RETRIES_EXHAUSTED.value, suspect=False,
                attempts=row["attempts"] + 1, last_heartbeat=beat,
            )  # fmt: skip
        case Failed():
            row.update(status="done", attempts=row["attempts"] + 1, last_heartbeat=beat, suspect=False)
            failure = ending.failure.as_data()
            if claim.single:
                close(state, workflow_id, "failed", {"failure": failure}, failure=failure)
            else:
                tell(state, workflow_id, "failed", ANY, ordinal=claim.ordinal)
    return AckOutcome.ACKNOWLEDGED


def give_back_uncounted(state: State, claims: Sequence[Claim], *, delay: timedelta) -> list[GiveBack]:
    """Release and postpone: as if the delivery had not been made."""
    answers = []
    for claim in claims:
        out = item(state, claim.row_id, claim.token)
        if out is None:
            answers.append(GiveBack.TOKEN_MISSING)
            continue
        row = state.rows[claim.row_id]
        del state.items[claim.row_id]
        beat = _heartbeat(row, out["heartbeat"])
        if out["cancel_requested_at"]:
            _stop(state, row, beat)
            answers.append(GiveBack.SETTLED)
        else:
            # Its number goes back, and what it was suspected of stays.
            one_less = {"deliveries": row["deliveries"] - 1, "suspect": claim.suspect, "cause": ""}
            _returned(state, row, delay, last_heartbeat=beat, **one_less)
            answers.append(GiveBack.PENDING)
    return answers


def _stop(state: State, row: Row, beat: str | None) -> None:
    """No further attempt starts of what was asked to be cancelled."""
    row.update(status="cancelled", suspect=False, last_heartbeat=beat)
    if state.workflows[row["workflow_id"]]["single"]:
        close(state, row["workflow_id"], "cancelled", {})


def _back_off(failures: int) -> tuple[timedelta, timedelta]:
    first, factor, cap = settings.delivery_backoff
    wait = min(cap, first * factor ** (failures - 1))
    return wait * 0.8, wait * 1.2


def abandon(state: State, claim: Claim, *, cause: Cause, failure: Failure | None, delay: timedelta | None) -> GiveBack:
    """One more delivery that failed; the last of the budget makes a dead letter."""
    out = item(state, claim.row_id, claim.token)
    if out is None:
        return GiveBack.TOKEN_MISSING
    row = state.rows[claim.row_id]
    del state.items[claim.row_id]
    _failure_of(state, claim, cause, None if failure is None else failure.as_data(), None)
    beat = _heartbeat(row, out["heartbeat"])
    if out["cancel_requested_at"]:
        _stop(state, row, beat)
        return GiveBack.SETTLED
    failures = row["delivery_failures"] + 1
    if failures >= row["delivery_budget"]:
        bury(state, row, cause, beat)
        return GiveBack.DEAD_LETTERED
    wait = _back_off(failures) if delay is None else delay
    _returned(state, row, wait, delivery_failures=failures, cause=cause.value, suspect=False, last_heartbeat=beat)
    return GiveBack.PENDING


def bury(state: State, row: Row, cause: Cause, beat: str | None) -> None:
    """A dead letter: told to its workflow under *deliver*, and the marker says so in the same transaction."""
    told = row["options"].get("on_dead_letter") == "deliver"
    row.update(
        status="dead", dead_lettered_at=state.now, cause=cause.value, suspect=False, last_heartbeat=beat,
        delivery_failures=row["delivery_failures"] + 1, failure_delivered=row["failure_delivered"] or told,
    )  # fmt: skip
    if told and state.workflows[row["workflow_id"]]["single"]:
        close(state, row["workflow_id"], "failed", {"failure": ANY}, failure=ANY)
    elif told:
        tell(state, row["workflow_id"], "failed", ANY, ordinal=row["ordinal"])


def renew(
    state: State, held: Sequence[HeldDelivery], *, lease_for: timedelta, busy: Sequence[int] = ()
) -> list[Renewal]:
    """Leases move by token; what somebody else has locked is busy and never lost."""
    answers = []
    for h in held:
        out = item(state, h.row_id, h.token)
        if out is None:
            answers.append(Renewal.LOST)
        elif h.row_id in busy:
            answers.append(Renewal.BUSY)
        else:
            out.update(
                locked_until=state.now + lease_for, heartbeat=out["heartbeat"] if h.heartbeat is None else h.heartbeat
            )
            answers.append(Renewal.CANCEL_REQUESTED if out["cancel_requested_at"] else Renewal.RENEWED)
    return answers


def reconcile(state: State, *, locked: uuid.UUID | None = None) -> dict[str, int]:
    """Everything whose lease has run out is taken up: stopped, given back as a suspect, or a dead letter."""
    counts = {"settled": 0, "rearmed": 0, "dead_lettered": 0}
    alive = {name for name, w in state.workers.items() if w["beat_at"] >= state.now - settings.lease_for / 2}
    for row_id, out in sorted(state.items.items()):
        if out["locked_until"] >= state.now or out["workflow_id"] == locked:
            continue
        row = state.rows[row_id]
        del state.items[row_id]
        beat = _heartbeat(row, out["heartbeat"])
        if out["cancel_requested_at"]:
            _stop(state, row, beat)
            counts["settled"] += 1
            continue
        cause = Cause.LEASE_LOST if out["worker"] in alive else Cause.WORKER_DIED
        state.expect_new(
            "failures", outbox_row_id=row_id, number=row["deliveries"], worker=out["worker"], started_at=None,
            ended_at=state.now, cause=cause.value, error=None, error_class=True,
        )  # fmt: skip
        failures = row["delivery_failures"] + 1
        if failures >= row["delivery_budget"]:
            bury(state, row, cause, beat)
            counts["dead_lettered"] += 1
            continue
        low, high = _back_off(failures)
        paced = timedelta(seconds=counts["rearmed"] / (settings.rearm_per_second or float("inf")))
        wait = (low + paced, high + paced)
        suspected = {"delivery_failures": failures, "cause": cause.value, "suspect": True}
        _returned(state, row, wait, last_heartbeat=beat, **suspected)
        counts["rearmed"] += 1
    return counts
