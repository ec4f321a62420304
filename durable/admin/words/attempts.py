"""Failed attempts for reading, and how much of its budgets a row has used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from durable.admin.words import failures, payloads, wording
from durable.admin.words.sentences import failure_words
from durable.admin.words.sight import FailureSight
from durable.conf import settings
from durable.models import FailedAttempt, OutboxRow
from durable.outcomes import OutboxStatus


@dataclass(frozen=True, slots=True)
class ReadAttempt:
    """One failed attempt, with its error as far as it can be read."""

    number: int
    worker: str
    started_at: datetime | None
    ended_at: datetime
    cause: str
    words: str
    traceback: str
    placeholder: str = ""

    def error(self, space: payloads.Space) -> SafeString:
        """The error in words, with its traceback folded away."""
        said, is_all = space.fit(self.words or wording.cause(self.cause))
        if not is_all:
            said = format_html("{}…", said)
        if self.placeholder:
            return format_html('{}<span class="durable-quiet durable-below">{}</span>', said, self.placeholder)
        if not self.traceback:
            return format_html("{}", said)
        return format_html(
            "{}<details><summary>{}</summary>{}</details>", said, _("Traceback"), payloads.block(self.traceback, space)
        )


def newest_attempt_of_row() -> Subquery:
    """For annotating outbox rows: the id of the last failed attempt, or NULL."""
    return Subquery(FailedAttempt.objects.filter(outbox_row=OuterRef("pk")).order_by("-number", "-pk").values("pk")[:1])


def failed_attempts() -> QuerySet[FailedAttempt]:
    """Failed attempts with the error as raw text, which opens whatever it holds."""
    rows = FailedAttempt.objects.using(settings.database_alias)
    return rows.defer("error").annotate(
        error_text=Cast("error", TextField()), owner=F("outbox_row__workflow_id"), ordinal=F("outbox_row__ordinal")
    )


def read(attempts: Iterable[Any], seen: FailureSight) -> list[ReadAttempt]:
    """Rows of `failed_attempts()` for reading, without the texts of errors where those are hidden."""
    readable = []
    shown = seen.is_shown
    for row in attempts:
        error = wording.read_json(row.error_text)
        words, traceback = "", ""
        if isinstance(error, dict):
            failure = failures.readable(error, seen, row.owner, row.ordinal)
            words, traceback = failure_words(failure), str(failure.get("traceback") or "")
        elif shown and row.error_text and error is None and row.error_text != "null":
            words = row.error_text
        readable.append(
            ReadAttempt(
                row.number,
                row.worker,
                row.started_at,
                row.ended_at,
                row.cause,
                wording.shortened(words, 1_000),
                traceback,
                "" if shown or not row.error_text or row.error_text == "null" else seen.placeholder,
            )
        )
    return readable


def attempt_words(row: OutboxRow) -> str:
    """How many attempts of the handler there were, of how many."""
    if row.status == OutboxStatus.CLAIMED:
        return _("%(number)s of %(budget)s, running now") % {
            "number": wording.number(row.attempts + 1),
            "budget": wording.budget(row.attempt_budget),
        }
    return _("%(number)s of %(budget)s made") % {
        "number": wording.number(row.attempts),
        "budget": wording.budget(row.attempt_budget),
    }


def delivery_words(row: OutboxRow) -> str:
    """How often the row was delivered to a worker, and how many deliveries were lost."""
    if not row.delivery_failures:
        return wording.number(row.deliveries)
    return _("%(number)s; %(lost)s of %(budget)s lost") % {
        "number": wording.number(row.deliveries),
        "lost": wording.number(row.delivery_failures),
        "budget": wording.number(row.delivery_budget),
    }


def next_try(row: OutboxRow, now: datetime) -> object:
    """When a pending row is due."""
    if row.status != OutboxStatus.PENDING:
        return wording.NOTHING
    if row.paused:
        return _("when the workflow is resumed")
    if row.visible_after <= now:
        return _("due for %(span)s") % {"span": wording.span(now - row.visible_after, units=1)}
    return wording.moment_and_distance(row.visible_after, now)
