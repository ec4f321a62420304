"""The app's own activity: one batch of a job that redrives or discards all dead letters that match a filter."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, assert_never

from durable import logbook
from durable.conf import settings
from durable.decorators.activities import activity
from durable.errors import RedriveRefused, StoreUnavailable
from durable.flow.audit import auditing
from durable.flow.looks import look
from durable.flow.looks.selecting import Place
from durable.flow.operator.discard import discard_many
from durable.flow.operator.redrive import redrive_many
from durable.kernel.context.activity_context import activity_info
from durable.kernel.definitions.retry import Retry
from durable.logs import get_logger
from durable.outcomes import DeadLetterFilter, Discarded, RedriveMode, Redriven, Then, Through
from durable.scope import Scope

logger = get_logger("durable.activities")

QUEUE = "durable"
"""The queue of these jobs. A worker without `--queue` serves it, too."""
AT_ONCE = 200
"""Rows of one batch: a second or two of work, so that progress is visible and a stop takes effect soon."""
EXAMPLES = 5
"""Rows that are named for each kind of outcome."""

OUT_OF_SCOPE = "out_of_scope"
"""Counts the rows that the user who asked may no longer see; they are left unchanged."""
OUTCOME_UNKNOWN = "outcome_unknown"
"""Counts the changes that the database may or may not have committed, so that nobody is told that nothing was changed.
"""

_TRIES = 8


class BulkVerb(StrEnum):
    """What is done to each of them."""

    REDRIVE = "redrive"
    FORCE = "force"
    DISCARD = "discard"

    @property
    def done(self) -> str:
        """The key under which changed rows are counted; refused rows are counted under the refusal's code."""
        return "discarded" if self is BulkVerb.DISCARD else "redriven"

    @property
    def permission(self) -> str:
        """The permission that a user needs for it, in addition to the one to see dead letters."""
        return {
            BulkVerb.REDRIVE: "redrive_deadletter",
            BulkVerb.FORCE: "force_redrive_deadletter",
            BulkVerb.DISCARD: "discard_deadletter",
        }[self]


CANCELLING = "cancel_workflow"
"""The permission that a discard needs in addition to its own if it cancels the workflows that are waiting."""


class Stopped(StrEnum):
    """Why a job was stopped early. The values are stored."""

    ACTOR_GONE = "actor_gone"
    ACTOR_INACTIVE = "actor_inactive"
    PERMISSION_LOST = "permission_lost"
    SCOPE_FAILED = "scope_failed"


@dataclass(frozen=True, slots=True)
class BulkJob:
    """What was asked for, by whom. `request` is the id of the form, under which each row is changed once."""

    verb: BulkVerb
    wanted: DeadLetterFilter
    request: uuid.UUID
    reason: str = ""
    then: Then = "fail"
    actor_key: str | None = None
    actor_text: str = ""


@dataclass(frozen=True, slots=True)
class BulkProgress:
    """The progress of a job: rows by outcome, some examples of each (ids of outbox rows), and what comes next."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[int]] = field(default_factory=dict)
    coming: list[tuple[uuid.UUID, int, int, int]] = field(default_factory=list)
    """Workflow, ordinal, run and row id of the rows that the next batch will change."""
    behind: tuple[datetime, int] | None = None
    pause: timedelta = timedelta()
    over: bool = False
    stopped: str = ""
    """Why the job was stopped early, one of `Stopped`; the `coming` rows were not changed then. Empty otherwise."""


@activity(queue=QUEUE, retry=Retry(max_attempts=_TRIES, no_retry=()), on_dead_letter="deliver")
def change_some_dead_letters(job: BulkJob, progress: BulkProgress) -> BulkProgress:
    """Changes the dead letters that are `coming`, and finds the next ones after them.

    Safe to run again: the rows were recorded before, and the job's `request` makes sure that each is changed and
    counted once. While the database is away, the attempt fails and is retried; the last attempt counts the rest as
    refused.

    The user who asked is loaded again each time. The job stops as soon as the user is deleted, inactive, or no longer
    permitted to do this; rows that the user may no longer see are skipped.
    """
    user = _user(job)
    scope = Scope(user)
    stopped = _stopped(job, user, scope)
    if stopped is not None:
        logger.warning("bulk.stopped", why=stopped.value, verb=job.verb.value, actor=job.actor_text)
        return replace(progress, pause=timedelta(), over=True, stopped=stopped.value)
    seen = _seen(job, progress, scope)
    places = [
        Place(workflow_id, ordinal, run) for workflow_id, ordinal, run, row_id in progress.coming if row_id in seen
    ]
    with auditing.asked_through(Through.ADMIN, job=activity_info().workflow_id):
        done = iter(_change(job, places, user or job.actor_text))
    counts = dict(progress.counts)
    examples = {code: list(rows) for code, rows in progress.examples.items()}
    moved = 0
    changed = []
    for *_place, row_id in progress.coming:
        code = OUT_OF_SCOPE
        if row_id in seen:
            outcome = next(done)
            code = _code(job, outcome)
            if not isinstance(outcome, RedriveRefused):
                changed.append(outcome.row)
        moved += code == job.verb.done
        counts[code] = counts.get(code, 0) + 1
        if len(examples.setdefault(code, [])) < EXAMPLES:
            examples[code].append(row_id)
    logbook.log_dead_letter_actions(user, changed, words_of(job.verb, job.reason))
    next_letters = look.dead_letters_matching(
        job.wanted, limit=AT_ONCE, after=progress.behind, within=None if job.actor_key is None else scope.rows()
    )
    last = next_letters[-1] if next_letters else None
    return BulkProgress(
        counts=counts,
        examples=examples,
        coming=[(row.workflow_id, row.ordinal, row.run, row.pk) for row in next_letters],
        behind=progress.behind if last is None or last.dead_lettered_at is None else (last.dead_lettered_at, last.pk),
        pause=_pause(job, moved),
        over=not next_letters,
    )


def words_of(verb: BulkVerb, reason: str) -> str:
    """What Django's log says of a row that was changed."""
    did = {BulkVerb.REDRIVE: "Redriven", BulkVerb.FORCE: "Redriven by force", BulkVerb.DISCARD: "Discarded"}[verb]
    return f"{did}: {reason}" if reason else f"{did}."


def _change(job: BulkJob, places: list[Place], actor: Any) -> list[Redriven | Discarded | RedriveRefused]:
    outcomes: list[Redriven | Discarded | RedriveRefused] = []
    match job.verb:
        case BulkVerb.REDRIVE | BulkVerb.FORCE:
            mode = RedriveMode.FORCED if job.verb is BulkVerb.FORCE else RedriveMode.ELIGIBLE
            outcomes += redrive_many(places, mode=mode, actor=actor, reason=job.reason, request=job.request)
        case BulkVerb.DISCARD:
            outcomes += discard_many(places, reason=job.reason, then=job.then, actor=actor, request=job.request)
        case _:
            assert_never(job.verb)
    for outcome in outcomes:
        if isinstance(outcome, StoreUnavailable) and activity_info().attempt < _TRIES:
            raise outcome
    return outcomes


def _stopped(job: BulkJob, user: Any, scope: Scope) -> Stopped | None:
    """Why this job may not continue, or None if it may. A job that code has started without a user always may."""
    if job.actor_key is None:
        return None
    if user is None:
        return Stopped.ACTOR_GONE
    if not getattr(user, "is_active", True) or not getattr(user, "is_staff", True):
        return Stopped.ACTOR_INACTIVE
    needed = ["view_deadletter", job.verb.permission]
    if job.verb is BulkVerb.DISCARD and job.then == "cancel":
        needed.append(CANCELLING)
    if not user.has_perms([f"durable.{name}" for name in needed]):
        return Stopped.PERMISSION_LOST
    if not scope.has_failed():
        return None
    if activity_info().attempt < _TRIES:
        raise ScopeUnknown(f"ADMIN_SCOPE: {scope.fault}")  # it may have failed for want of the database
    return Stopped.SCOPE_FAILED


class ScopeUnknown(Exception):
    """The function of `ADMIN_SCOPE` has failed."""


def _seen(job: BulkJob, progress: BulkProgress, scope: Scope) -> set[int]:
    """Which of the rows that are `coming` the user may still see."""
    coming = {row_id for *_place, row_id in progress.coming}
    if job.actor_key is None or scope.is_whole or not coming:
        return coming
    return set(scope.rows().filter(pk__in=coming).values_list("pk", flat=True))


def _code(job: BulkJob, outcome: Redriven | Discarded | RedriveRefused) -> str:
    """Rows that an earlier delivery of this batch has changed count as done."""
    if not isinstance(outcome, RedriveRefused) or outcome.code == "already_done":
        return job.verb.done
    if isinstance(outcome, StoreUnavailable) and outcome.outcome_unknown:
        return OUTCOME_UNKNOWN
    return outcome.code


def _pause(job: BulkJob, moved: int) -> timedelta:
    """How long the rows of this batch take to come due; those of the next batch start after that."""
    rate = settings.redrive_per_second
    return timedelta() if rate is None or job.verb is BulkVerb.DISCARD else timedelta(seconds=moved / rate)


def _user(job: BulkJob) -> Any:
    """The user who asked for it, or None if the user no longer exists."""
    from django.contrib.auth import get_user_model

    if job.actor_key is None:
        return None
    return get_user_model()._default_manager.filter(pk=job.actor_key).first()
