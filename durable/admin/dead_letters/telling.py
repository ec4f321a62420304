"""Messages about the outcomes of an action on dead letters: one for each kind of outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from durable.activities import BulkVerb
from durable.admin.dead_letters.actions import Asked
from durable.admin.words import refusals, wording
from durable.errors import RedriveRefused, RowNotFound, RowUnreadable, StoreUnavailable
from durable.models import DeadLetter
from durable.outcomes import Discarded, OutboxStatus, Redriven

if TYPE_CHECKING:
    from durable.admin.lists.room import Room

NAMED = 5
"""Rows that a message names; more are counted."""

LetterOutcome = Redriven | Discarded | RedriveRefused

_AS_BEFORE = (StoreUnavailable, RowUnreadable)
"""Refusals that do not mean a change: the row is as the preview saw it, or its state is unknown."""


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """One selected row, and its outcome."""

    key: int
    activity: str
    outcome: LetterOutcome
    about: str = ""


def tell(request: HttpRequest, room: Room, asked: Asked, outcomes: Sequence[RowOutcome], *, before: int) -> None:
    """Adds the messages: what was done, each kind of refusal with its reason and what to do next, what changed since
    the preview. `before` rows no longer match because this form has already moved them.
    """
    done = [entry for entry in outcomes if not isinstance(entry.outcome, RedriveRefused)]
    if done:
        messages.success(request, _done(room, asked, done))
    kinds: dict[tuple[str, refusals.Wording], list[RowOutcome]] = {}
    for entry in outcomes:
        if isinstance(entry.outcome, RedriveRefused):
            kinds.setdefault((entry.outcome.code, refusals.of(entry.outcome)), []).append(entry)
    for (code, words), refused in kinds.items():
        level = {"already_done": messages.INFO, "store_unavailable": messages.ERROR}.get(code, messages.WARNING)
        messages.add_message(request, level, _refused(room, words, refused, code))
    if before:
        words = refusals.of_code("already_done")
        text = ngettext("%(count)s was already done. %(why)s", "%(count)s were already done. %(why)s", before)
        messages.info(request, text % {"count": wording.number(before), "why": words.why})
    changed = "" if before else _changed(room, asked, outcomes, len(done))
    if changed:
        messages.warning(request, changed)
    if not outcomes and not before:
        messages.info(request, _("Nothing matches any longer, so nothing was done."))


def named(room: Room, rows: Sequence[RowOutcome]) -> SafeString:
    """The first few rows as links, and how many more there are."""
    links = format_html_join(
        ", ",
        "{}{}",
        (
            (room.link(DeadLetter, entry.key, _name(entry.key, entry.activity)), in_brackets(entry.about))
            for entry in rows[:NAMED]
        ),
    )
    if len(rows) <= NAMED:
        return links
    return format_html("{} {}", links, _("and %(count)s more") % {"count": wording.number(len(rows) - NAMED)})


def in_brackets(about: str) -> str:
    """The business key and the error of a row, beside its name; shortened, empty where there are none."""
    return f" ({wording.shortened(about, 160)})" if about else ""


def _name(key: int, activity: str) -> str:
    return f"{wording.name(activity, 60)} #{key}" if activity else f"#{key}"


def _done(room: Room, asked: Asked, done: Sequence[RowOutcome]) -> SafeString:
    count = {"count": wording.number(len(done))}
    if asked.action.verb is BulkVerb.DISCARD:
        text = ngettext(
            "%(count)s dead letter was discarded. It will not run again.",
            "%(count)s dead letters were discarded. They will not run again.",
            len(done),
        )
    else:
        text = ngettext(
            "%(count)s dead letter was queued for retry.",
            "%(count)s dead letters were queued for retry.",
            len(done),
        )
    parts = [text % count]
    rows = [entry.outcome.row for entry in done if not isinstance(entry.outcome, RedriveRefused)]
    paused = sum(1 for row in rows if row.paused and row.status is OutboxStatus.PENDING)
    if paused and len(done) == 1:
        parts.append(_("Its workflow is paused; it runs when the workflow is resumed."))
    elif paused:
        parts.append(
            ngettext(
                "%(count)s of them belongs to a paused workflow and runs when it is resumed.",
                "%(count)s of them belong to paused workflows and run when these are resumed.",
                paused,
            )
            % {"count": wording.number(paused)}
        )
    judged = sum(1 for entry in done if not isinstance(entry.outcome, RedriveRefused) and entry.outcome.was_judged)
    if judged and asked.action.verb is BulkVerb.FORCE and len(done) == 1:
        parts.append(_("Its workflow has moved on, so its result will be dropped."))
    elif judged and asked.action.verb is BulkVerb.FORCE:
        parts.append(
            ngettext(
                "The workflow of %(count)s of them has moved on, so its result will be dropped.",
                "The workflows of %(count)s of them have moved on, so their results will be dropped.",
                judged,
            )
            % {"count": wording.number(judged)}
        )
    return format_html("{} {}", " ".join(parts), named(room, done))


def _refused(room: Room, words: refusals.Wording, refused: Sequence[RowOutcome], code: str) -> SafeString:
    count = {"count": wording.number(len(refused)), "why": words.why, "next": words.next}
    if code == "already_done":
        text = ngettext("%(count)s was already done. %(why)s", "%(count)s were already done. %(why)s", len(refused))
    elif words == refusals.of_code("outcome_unknown"):
        text = "%(count)s × %(why)s %(next)s"
    else:
        text = ngettext(
            "%(count)s was refused. %(why)s %(next)s", "%(count)s were refused. %(why)s %(next)s", len(refused)
        )
    return format_html("{} {}", text % count, named(room, refused))


def _changed(room: Room, asked: Asked, outcomes: Sequence[RowOutcome], done: int) -> SafeString | str:
    """What is different from the preview: by name if rows were selected one by one, else by number."""
    again = [
        entry
        for entry in outcomes
        if isinstance(entry.outcome, RedriveRefused) and entry.outcome.code == "already_done"
    ]
    if again:
        return ""
    if asked.could_go is not None:
        changed = [entry for entry in outcomes if _has_changed(entry) and entry.key in asked.could_go]
        if not changed:
            return ""
        text = ngettext(
            "%(count)s changed between the preview and the confirmation:",
            "%(count)s changed between the preview and the confirmation:",
            len(changed),
        )
        return format_html("{} {}", text % {"count": wording.number(len(changed))}, named(room, changed))
    as_before = sum(1 for entry in outcomes if isinstance(entry.outcome, _AS_BEFORE))
    if asked.previewed is None or done <= asked.previewed <= done + as_before:
        return ""
    return _("This changed between the preview and the confirmation: %(then)s were expected, %(now)s were done.") % {
        "then": wording.number(asked.previewed),
        "now": wording.number(done),
    }


def _has_changed(entry: RowOutcome) -> bool:
    """Whether it was refused because of its current state."""
    return isinstance(entry.outcome, RedriveRefused) and not isinstance(entry.outcome, _AS_BEFORE)


def gone(key: int) -> RowOutcome:
    """A selected row that no longer exists."""
    return RowOutcome(key, "", RowNotFound(None, 0))
