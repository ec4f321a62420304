"""The confirmation page of actions on dead letters: the data of its form, and how it is read back."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from durable import clock
from durable.activities import QUEUE, BulkVerb
from durable.admin.dead_letters import previews
from durable.admin.dead_letters.actions import ACTIONS, Action, Asked
from durable.admin.dead_letters.carrying_out import AT_MOST_HERE, NotConfirmed, carry_out
from durable.admin.dead_letters.filters import filter_of, in_words
from durable.admin.dead_letters.telling import NAMED
from durable.admin.lists.scoping import scope_of
from durable.admin.words import failures, problems, sight, wording
from durable.admin.words.sight import FailureSight
from durable.errors import OptionInvalid, PayloadError, StoreUnavailable, TransactionOpen
from durable.flow.audit import reasons
from durable.flow.looks import look
from durable.flow.transactions import transaction

if TYPE_CHECKING:
    # A circle: this is the part of the room that confirms, in a file of its own.
    from durable.admin.dead_letters.room import DeadLetterAdmin

LONGEST_REASON = 1_000
MOST_KEYS = 1_000
"""More than a page of the list has; a form with more was not made by this admin."""
THENS = ("fail", "cancel")


def ask(
    request: HttpRequest, room: DeadLetterAdmin, name: str, *, keys: Sequence[int] | None, back: str
) -> HttpResponse:
    """Shows the confirmation page; or, when its form was submitted, does it and redirects. `keys` is None for all that
    match.

    Users who may not do it, or may not see the list, get 403.
    """
    action = ACTIONS.get(name)
    if action is None or not room.has_view_permission(request) or not action.allowed(request):
        raise PermissionDenied
    asked = _read(request, action, keys)
    if action.verb is BulkVerb.DISCARD and asked.then == "cancel" and not action.may_cancel(request):
        raise PermissionDenied
    if request.method != "POST" or "confirmed" not in request.POST:
        return _page(request, room, asked, back)
    problem = _problem(asked)
    if problem:
        return _page(request, room, asked, back, problem=problem)
    try:
        handed = carry_out(request, room, asked)
    except (OptionInvalid, PayloadError, StoreUnavailable, TransactionOpen) as error:
        return _page(request, room, asked, back, problem=problems.of_form(error))
    except NotConfirmed:
        text = _(
            "The database did not answer, so the job may or may not have started. Submit the form again: the job "
            "starts only once."
        )
        return _page(request, room, asked, back, problem=text)
    if handed is None:
        return HttpResponseRedirect(back)
    progress = room.progress_address(handed.workflow_id)
    if handed.how == "before":
        messages.info(request, _("Already done: this form has started the job before."))
    else:
        messages.success(request, _("The job has been queued for the workers. This page shows its progress."))
    return HttpResponseRedirect(progress)


def _read(request: HttpRequest, action: Action, keys: Sequence[int] | None) -> Asked:
    """The form, or a new one. Its id and its upper limit in time stay the same while it is submitted
    and shown again.
    """
    sent = request.POST
    now = _now()
    at = min(_moment(sent.get("failed_before")) or now, now)
    try:
        request_id = uuid.UUID(sent.get("request_id", ""))
    except ValueError:
        request_id = uuid.uuid4()
    if keys is not None and len(keys) > MOST_KEYS:
        raise BadRequest("More rows than fit on a page.")
    could_go = _keys(sent.get("could_go", "").split(",")) if "could_go" in sent else None
    previewed = sent.get("previewed", "")
    return Asked(
        action=action,
        keys=keys,
        wanted=None if keys is not None else filter_of(request.GET.dict(), at=at, scope=scope_of(request)),
        at=at,
        request_id=request_id,
        reason=sent.get("reason", "").strip(),
        then=sent.get("then", "fail"),
        could_go=None if keys is None or could_go is None else frozenset(could_go),
        previewed=int(previewed) if previewed.isascii() and previewed.isdigit() and len(previewed) < 10 else None,
        scope=scope_of(request),
    )


def _now() -> datetime:
    """The database's time, by which dead letters are dated: this host's clock may be ahead of it, and a limit in the
    future would include rows that fail later. If the database does not answer, the query of the rows will report it.
    """
    try:
        return transaction.reading(clock.database_now)
    except (DatabaseError, InterfaceError):
        return clock.host_now()


def selected_keys(request: HttpRequest) -> list[int]:
    """The selected rows. Invalid keys are left out."""
    return _keys(request.POST.getlist(ACTION_CHECKBOX_NAME))


def _keys(texts: Sequence[str]) -> list[int]:
    return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) <= 18]


def _moment(text: str | None) -> datetime | None:
    try:
        value = datetime.fromisoformat(text or "")
        return value.astimezone(UTC) if value.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _problem(asked: Asked) -> str:
    """What is wrong with a submitted form, or an empty text."""
    if asked.action.reason == "required" and not asked.reason:
        return _("A reason is required. It is kept with the record.")
    if len(asked.reason) > LONGEST_REASON:
        return _("The reason is too long. The limit is %(most)s characters.") % {"most": wording.number(LONGEST_REASON)}
    if asked.action.verb is BulkVerb.DISCARD and asked.then not in THENS:
        return _("Choose what happens to the workflows that are waiting.")
    try:
        reasons.check(asked.reason)
    except OptionInvalid:
        return _("The reason contains characters that cannot be stored.")
    return ""


def _page(request: HttpRequest, room: DeadLetterAdmin, asked: Asked, back: str, *, problem: str = "") -> HttpResponse:
    preview = previews.preview(asked)
    whole = asked.keys is None
    many = whole and (preview.failed or preview.capped or preview.go + _refused(preview) > AT_MOST_HERE)
    forms: dict[str, Any] = {
        "action": asked.action,
        "asked": asked,
        "preview": preview,
        "problem": problem,
        "back": back,
        "many": many,
        "most_here": wording.number(AT_MOST_HERE),
        "checked": wording.number(preview.looked_at),
        "unserved": many and not _served(),
        "queue": QUEUE,
        "filter_words": _filter_words(asked),
        "chosen_words": _chosen_words(asked),
        "named": _named(room, asked, sight.of_failures(request)) if asked.keys is not None else [],
        "checkbox_name": ACTION_CHECKBOX_NAME,
        "could_go": ",".join(map(str, preview.could_go)) if asked.keys is not None and not preview.failed else None,
        "previewed": preview.go if whole and not preview.capped and not preview.failed else None,
        "discards": asked.action.verb is BulkVerb.DISCARD,
        "may_cancel": asked.action.may_cancel(request),
        "single": asked.keys is not None and len(asked.keys) == 1,
        "redrives": asked.action.verb is BulkVerb.REDRIVE,
        "may_force": ACTIONS["force_redrive"].allowed(request),
        "longest_reason": LONGEST_REASON,
    }
    return room.answer(request, "durable/admin/confirm.html", str(asked.action.title), forms)


def _filter_words(asked: Asked) -> list[str]:
    """The filter without the upper limit, for which the page has a sentence of its own."""
    if asked.wanted is None:
        return []
    if asked.wanted.failed_before == asked.at:
        return in_words(replace(asked.wanted, failed_before=None))
    return in_words(asked.wanted)


def _chosen_words(asked: Asked) -> str:
    """How many were selected, in words."""
    count = len(asked.keys or ())
    return ngettext("%(count)s dead letter", "%(count)s dead letters", count) % {"count": wording.number(count)}


def _refused(preview: previews.Preview) -> int:
    return sum(line.number for line in preview.refused)


def _served() -> tuple[str, ...]:
    return look.workers_of(QUEUE)


def _named(room: DeadLetterAdmin, asked: Asked, seen: FailureSight) -> list[object]:
    """The first few rows of a selection, to be recognised."""
    rows = previews.letters(list(asked.keys or ())[:20], asked.scope)
    if len(asked.keys or ()) > max(NAMED, 20):
        return []
    try:
        names = look.naming([row.pk for row in rows])
    except (DatabaseError, InterfaceError):  # it only helps to recognise them
        names = {}
    return [room.named(row, failures.named(names.get(row.pk), seen)) for row in rows]
