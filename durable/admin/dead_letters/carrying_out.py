"""Carries out a confirmed form: at once for a few rows, otherwise as a background job."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, assert_never

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest

from durable import logbook
from durable.activities import BulkJob, BulkVerb, words_of
from durable.admin.dead_letters.actions import Asked
from durable.admin.dead_letters.previews import letters
from durable.admin.dead_letters.telling import RowOutcome, gone, tell
from durable.admin.words import failures, sight
from durable.conf import settings
from durable.errors import KeyTaken, RedriveRefused, StoreUnavailable, WorkflowNotFound
from durable.flow.audit import auditing
from durable.flow.looks import look
from durable.models import StaffAction
from durable.operations import discard_many, redrive_many
from durable.outcomes import Through
from durable.workflows import change_dead_letters

if TYPE_CHECKING:
    from durable.admin.lists.room import Room

AT_MOST_HERE = 200
"""Rows that are changed while the browser waits: a second or two. More rows become a background job."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """There is a background job. `how` says whether this form has started it now, or before."""

    workflow_id: uuid.UUID
    how: Literal["now", "before"]


class NotConfirmed(Exception):
    """It is not known whether the job was started. The form can be submitted again: the job starts only once."""


def carry_out(request: HttpRequest, room: Room, asked: Asked) -> HandedOver | None:
    """Does it, and adds messages about the outcomes; or starts a background job.

    Each row is changed in its own transaction, and once under the form's id. Raises `OptionInvalid` before anything is
    changed, `StoreUnavailable` if the rows cannot even be read, `TransactionOpen` if a middleware has opened a
    transaction, `NotConfirmed`. After the first change nothing is read that could fail, so that the outcomes are always
    reported.
    """
    try:
        if asked.wanted is not None:
            begun = _begun_before(asked)
            if begun is not None:
                return begun
            rows: list[Any] = list(
                look.dead_letters_matching(asked.wanted, limit=AT_MOST_HERE + 1, within=asked.scope.rows())
            )
        else:
            rows = letters(asked.keys or (), asked.scope)
        before = _done_before(asked, rows)
        names = look.naming([row.pk for row in rows[:AT_MOST_HERE]])
    except (DatabaseError, InterfaceError) as error:
        raise StoreUnavailable(error, outcome_unknown=False) from error
    if asked.wanted is not None and len(rows) > AT_MOST_HERE:
        return _start(request, asked)
    missing = sorted(set(asked.keys or ()) - {row.pk for row in rows})
    with auditing.asked_through(Through.ADMIN):
        outcomes = _change(request, asked, rows)
    changed = [outcome.row for outcome in outcomes if not isinstance(outcome, RedriveRefused)]
    logbook.log_dead_letter_actions(request.user, changed, words_of(asked.action.verb, asked.reason))
    seen = sight.of_failures(request)
    row_outcomes = [
        RowOutcome(row.pk, row.activity, outcome, failures.named(names.get(row.pk), seen))
        for row, outcome in zip(rows, outcomes, strict=True)
    ]
    row_outcomes += [gone(key) for key in missing]
    tell(request, room, asked, row_outcomes, before=before)
    return None


def _change(request: HttpRequest, asked: Asked, rows: Sequence[Any]) -> Sequence[Any]:
    match asked.action.verb:
        case BulkVerb.REDRIVE | BulkVerb.FORCE:
            return redrive_many(
                rows, mode=asked.action.mode, actor=request.user, reason=asked.reason, request=asked.request_id
            )
        case BulkVerb.DISCARD:
            then: Any = asked.then
            return discard_many(rows, reason=asked.reason, then=then, actor=request.user, request=asked.request_id)
        case _:
            assert_never(asked.action.verb)


def _done_before(asked: Asked, rows: Sequence[Any]) -> int:
    """How many rows this form moved when it was submitted before, not counting those that it meets again now."""
    if asked.wanted is None:
        return 0
    audits = StaffAction.objects.using(settings.database_alias).filter(request=asked.request_id)
    moved = set(audits.values_list("outbox_row_id", flat=True)[: 2 * AT_MOST_HERE])
    return len(moved - {row.pk for row in rows})


def _begun_before(asked: Asked) -> HandedOver | None:
    """The workflow that this form has started, however long ago."""
    try:
        return HandedOver(look.by_key(change_dead_letters.name, str(asked.request_id)).id, "before")
    except WorkflowNotFound:
        return None


def _start(request: HttpRequest, asked: Asked) -> HandedOver:
    assert asked.wanted is not None
    then: Any = asked.then
    job = BulkJob(
        verb=asked.action.verb,
        wanted=asked.wanted,
        request=asked.request_id,
        reason=asked.reason,
        then=then,
        actor_key=str(request.user.pk),
        actor_text=str(request.user)[:300],
    )
    try:
        return HandedOver(change_dead_letters.options(key=str(asked.request_id)).start(job).id, "now")
    except KeyTaken as begun:  # the same form, sent twice at the same moment
        return HandedOver(begun.holder, "before")
    except (DatabaseError, InterfaceError) as error:
        raise NotConfirmed from error
