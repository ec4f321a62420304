"""Doing what a confirmed form asks for: here and now for a few rows, else as a workflow of this engine."""

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
"""Rows that are changed while the browser waits: a second or two. What is more goes to the workers."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The work is a workflow. `how` says whether this form has begun it now, or had before."""

    workflow_id: uuid.UUID
    how: Literal["now", "before"]


class NotConfirmed(Exception):
    """The database did not say whether the work was begun. The form can be sent again: the work is begun once."""


def carry_out(request: HttpRequest, room: Room, asked: Asked) -> HandedOver | None:
    """Do it, and tell the person what became of each row; or hand it over to the workers.

    Each row is a transaction of its own, and is changed once under the form's id. Raises `OptionInvalid` before
    anything is changed, `StoreUnavailable` when the rows can not even be read, `TransactionOpen` where a middleware has
    opened a transaction, `NotConfirmed`. From the first change
    on, nothing is read that could fail: what was done is told.
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
    """How many rows this form has moved when it was sent before, beside those that it meets again now."""
    if asked.wanted is None:
        return 0
    audits = StaffAction.objects.using(settings.database_alias).filter(request=asked.request_id)
    moved = set(audits.values_list("outbox_row_id", flat=True)[: 2 * AT_MOST_HERE])
    return len(moved - {row.pk for row in rows})


def _begun_before(asked: Asked) -> HandedOver | None:
    """The workflow that this very form has begun, however long ago."""
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
    except KeyTaken as held:  # the same form, sent twice at the same moment
        return HandedOver(held.holder, "before")
    except (DatabaseError, InterfaceError) as error:
        raise NotConfirmed from error
