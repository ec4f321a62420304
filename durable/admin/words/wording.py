"""Words for people: statuses, causes, times and spans. Everything returned here is text or already escaped HTML."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import dateformat, formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, npgettext, npgettext_lazy, pgettext_lazy

from durable import clock
from durable.errors.showing import visible
from durable.kernel.history.events import MessageKind
from durable.outcomes import Cause, OutboxStatus, WakesBy, WorkflowStatus

NOTHING = mark_safe('<span class="durable-quiet durable-nothing">–</span>')

GROUP_VAR = "error_group"
"""The URL parameter of the lists for the group of errors."""
_ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
_GROUP = re.compile(r"[0-9a-f]{16}")

_WORKFLOW_STATUS: dict[str, tuple[Any, str]] = {
    WorkflowStatus.RUNNING: (gettext_lazy("Running"), "live"),
    WorkflowStatus.PAUSED: (gettext_lazy("Paused"), "wait"),
    WorkflowStatus.COMPLETED: (gettext_lazy("Completed"), "good"),
    WorkflowStatus.FAILED: (gettext_lazy("Failed"), "bad"),
    WorkflowStatus.CANCELLED: (gettext_lazy("Cancelled"), "off"),
    WorkflowStatus.TIMED_OUT: (gettext_lazy("Timed out"), "bad"),
}

_ENDED_AS: dict[str, Any] = {
    WorkflowStatus.COMPLETED: pgettext_lazy("how it ended, within a sentence", "completed"),
    WorkflowStatus.FAILED: pgettext_lazy("how it ended, within a sentence", "failed"),
    WorkflowStatus.CANCELLED: pgettext_lazy("how it ended, within a sentence", "cancelled"),
    WorkflowStatus.TIMED_OUT: pgettext_lazy("how it ended, within a sentence", "timed out"),
}

_OUTBOX_STATUS: dict[str, tuple[Any, str]] = {
    OutboxStatus.PENDING: (gettext_lazy("Pending"), "wait"),
    OutboxStatus.CLAIMED: (gettext_lazy("With a worker"), "live"),
    OutboxStatus.DONE: (gettext_lazy("Done"), "good"),
    OutboxStatus.DEAD: (gettext_lazy("Dead letter"), "bad"),
    OutboxStatus.CANCELLED: (gettext_lazy("Cancelled"), "off"),
}

_CAUSES: dict[str, Any] = {
    Cause.WORKER_DIED: gettext_lazy("The worker died"),
    Cause.LEASE_LOST: gettext_lazy("The worker lost its lease"),
    Cause.ACK_ABANDONED: gettext_lazy("The result could not be stored"),
    Cause.UNKNOWN_HANDLER: gettext_lazy("Unknown activity"),
    Cause.UNDECODABLE_INPUT: gettext_lazy("The input could not be read"),
    Cause.TRANSPORT_DOWN: gettext_lazy("The transport could not be reached"),
    Cause.TRANSPORT_LOST: gettext_lazy("Was sent, and did not begin"),
    Cause.RETRIES_EXHAUSTED: gettext_lazy("All attempts failed"),
    Cause.APPLICATION_ERROR: gettext_lazy("The handler raised an error"),
    Cause.TIMEOUT: gettext_lazy("Timed out"),
    Cause.HEARTBEAT_TIMEOUT: gettext_lazy("Sent no heartbeat in time"),
}

_MESSAGES: dict[str, Any] = {
    MessageKind.START: gettext_lazy("Start"),
    MessageKind.COMPLETED: gettext_lazy("Result of an activity"),
    MessageKind.FAILED: gettext_lazy("Failure of an activity"),
    MessageKind.SIGNAL: gettext_lazy("Signal"),
    MessageKind.CANCEL: gettext_lazy("Cancel request"),
    MessageKind.TERMINATE: gettext_lazy("Order to terminate"),
    MessageKind.CHILD: gettext_lazy("News of another workflow"),
}

_WAKES_BY: dict[str, Any] = {
    WakesBy.POLLING: gettext_lazy("polling"),
    WakesBy.NOTIFICATION: gettext_lazy("notification"),
    WakesBy.LOST: gettext_lazy("polling (channel lost)"),
}

_WITHIN: dict[str, Any] = {
    "year": npgettext_lazy("length of time within a sentence", "%(num)d year", "%(num)d years", "num"),
    "month": npgettext_lazy("length of time within a sentence", "%(num)d month", "%(num)d months", "num"),
    "week": npgettext_lazy("length of time within a sentence", "%(num)d week", "%(num)d weeks", "num"),
    "day": npgettext_lazy("length of time within a sentence", "%(num)d day", "%(num)d days", "num"),
    "hour": npgettext_lazy("length of time within a sentence", "%(num)d hour", "%(num)d hours", "num"),
    "minute": npgettext_lazy("length of time within a sentence", "%(num)d minute", "%(num)d minutes", "num"),
}
"""As Django's own, which are for a length that stands alone: in German *seit 3 Tagen*, but *3 Tage*."""

_MOMENT: Any = pgettext_lazy("format of Django's date filter", "j M Y, H:i:s")
_THIS_YEAR: Any = pgettext_lazy("format of Django's date filter", "j M, H:i:s")
_OTHER_YEARS: Any = pgettext_lazy("format of Django's date filter", "j M Y, H:i")


def number(value: int) -> str:
    """A number in the user's format: "1,241" in English, "1.241" in German. All numbers on pages are formatted here,
    except primary keys, which match the URLs.
    """
    return formats.number_format(value, decimal_pos=0, use_l10n=True, force_grouping=True)


def place(value: object) -> object:
    """A stored position in a history: a number in the user's format, a dash for none, and anything else as it is."""
    return number(value) if isinstance(value, int) and not isinstance(value, bool) else plain(value)


def place_in_history(row: Any) -> str:
    """Where an activity stands in its workflow's history."""
    return _("run %(run)s, activity %(ordinal)s") % {"run": number(row.run), "ordinal": number(row.ordinal)}


def budget(value: int | None) -> str:
    """How many attempts there may be."""
    return _("any number") if value is None else number(value)


def of(part: int, whole: int | None) -> str:
    """A part of a whole, as in "3 / 8"."""
    return f"{number(part)} / {budget(whole)}"


def badge(text: object, tone: str) -> SafeString:
    """A small coloured label. `tone` is one of good, bad, live, wait, off."""
    return format_html('<span class="durable-badge durable-{}">{}</span>', tone, text)


def workflow_status_word(status: str) -> str:
    """The status as a word."""
    return str(_WORKFLOW_STATUS.get(status, (status, ""))[0])


def ended_as(status: str) -> str:
    """How a workflow ended, as a word within a sentence."""
    return str(_ENDED_AS.get(status, status.replace("_", " ")))


def workflow_status(status: str, *, blocked_reason: str = "") -> SafeString:
    """The status, with the *blocked* mark beside it where there is one."""
    word, tone = _WORKFLOW_STATUS.get(status, (status, "off"))
    if not blocked_reason:
        return badge(word, tone)
    return format_html("{} {}", badge(word, tone), badge(_("Blocked"), "bad"))


def outbox_status(status: str, *, paused: bool = False) -> SafeString:
    """The status of an outbox row; an open row of a paused workflow says so."""
    word, tone = _OUTBOX_STATUS.get(status, (status, "off"))
    if paused and status in (OutboxStatus.PENDING, OutboxStatus.CLAIMED):
        return format_html("{} {}", badge(word, tone), badge(_("Paused"), "wait"))
    return badge(word, tone)


def cause(value: str) -> str:
    """Why a delivery or an attempt failed, as a sentence part."""
    return str(_CAUSES.get(value, value.replace("_", " ")))


def message_kind(value: str) -> str:
    """What kind of message it is."""
    return str(_MESSAGES.get(value, value))


def wakes_by(value: str) -> str:
    """How a worker learns of new work."""
    return str(_WAKES_BY.get(value, value))


def span(length: timedelta, *, units: int = 2) -> str:
    """A length of time for a sentence, rounded: seconds below a minute, else at most so many of the largest units."""
    seconds = int(abs(length).total_seconds())
    if seconds < 60:
        text = npgettext("length of time within a sentence", "%(count)s second", "%(count)s seconds", seconds)
        return text % {"count": number(seconds)}
    return timesince(_ORIGIN, _ORIGIN + timedelta(seconds=seconds), depth=units, time_strings=_WITHIN)


def span_alone(length: timedelta) -> str:
    """The same where nothing stands beside it, in the largest unit."""
    seconds = int(abs(length).total_seconds())
    if seconds < 60:
        text = npgettext("length of time by itself", "%(count)s second", "%(count)s seconds", seconds)
        return text % {"count": number(seconds)}
    return timesince(_ORIGIN, _ORIGIN + timedelta(seconds=seconds), depth=1)


def moment(value: datetime | None) -> SafeString:
    """A moment in the reader's time zone (the site's, also when `USE_TZ` is off), to the second."""
    if value is None:
        return NOTHING
    try:
        local = value.astimezone(timezone.get_current_timezone())
    except OverflowError:  # the last hours of the year 9999 have no local time
        local = value
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        value.isoformat(),
        dateformat.format(local, "Y-m-d H:i:s.u T"),
        dateformat.format(local, str(_MOMENT)),
    )


def moment_text(value: datetime) -> str:
    """A moment as plain text, to the second, in the reader's zone."""
    try:
        local = value.astimezone(timezone.get_current_timezone())
    except OverflowError:  # as above
        local = value
    return dateformat.format(local, str(_MOMENT))


def short_moment(value: datetime) -> str:
    """A moment as plain text, as short as a list has it."""
    try:
        local = value.astimezone(timezone.get_current_timezone())
    except OverflowError:  # as above
        local = value
    return dateformat.format(local, _short_format(local))


def _short_format(local: datetime) -> str:
    """With the time to the second, or for moments of other years with the year."""
    return str(_THIS_YEAR if local.year == clock.host_now().year else _OTHER_YEARS)


def moment_in_list(value: datetime, below: str = "") -> SafeString:
    """A moment short enough for a column, with a quiet line below it: how far it is from now, if nothing else."""
    below = below or relative(value, clock.host_now(), units=1)
    try:
        local = value.astimezone(timezone.get_current_timezone())
    except OverflowError:  # as above
        local = value
    return format_html(
        '<time class="durable-moment" datetime="{}" title="{}">{}</time>'
        '<span class="durable-quiet durable-below">{}</span>',
        value.isoformat(),
        dateformat.format(local, "Y-m-d H:i:s.u T"),
        dateformat.format(local, _short_format(local)),
        below,
    )


def short_id(value: object) -> SafeString:
    """The tail of an id, which is its random part; the whole of it on hover."""
    return format_html('<span class="durable-id durable-tail" title="{}">…{}</span>', value, str(value)[-8:])


def relative(value: datetime, now: datetime, *, units: int = 2) -> str:
    """How far a moment is from now: "3 minutes ago", "in 12 seconds"."""
    if value > now:
        return _("in %(span)s") % {"span": span(value - now, units=units)}
    return _("%(span)s ago") % {"span": span(now - value, units=units)}


def moment_and_distance(value: datetime | None, now: datetime) -> SafeString:
    """A moment and how far it is from now."""
    if value is None:
        return NOTHING
    return format_html('{} <span class="durable-quiet">({})</span>', moment(value), relative(value, now))


def plain(value: object) -> object:
    """The value itself, or a dash for an empty one."""
    if isinstance(value, str) and not isinstance(value, SafeString):
        return shortened(value, 4_000) if value else NOTHING
    return NOTHING if value is None else value


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters of another person's text, with an ellipsis if it was cut. Invisible characters, and
    those that change the direction of text, are escaped.
    """
    return _cut(visible(text[: limit + 1].replace("\r\n", "\n"), lines=True), limit)


def name(text: str, limit: int = 1_000) -> str:
    """The same for a name (a key, a type, a queue): one line, in which whatever tells two names apart is seen."""
    return _cut(visible(text[: limit + 1]), limit)


def isolated(value: object) -> SafeString:
    """A name among other words, in the direction of its own."""
    if isinstance(value, SafeString):
        return value
    return format_html("<bdi>{}</bdi>", shortened(value, 4_000) if isinstance(value, str) else value)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def read_group(text: str) -> str:
    """The group of errors that an address names. Raises `ValueError`."""
    if _GROUP.fullmatch(text) is None:
        raise ValueError(f"{GROUP_VAR} cannot be {text!r}")
    return text


def read_json(text: str | None) -> Any:
    """Stored plain JSON, or `None` when there is none or it cannot be read: pages open whatever a column holds."""
    try:
        return json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None


def read_moment(text: object) -> datetime | None:
    """An ISO moment out of stored JSON; `None` for anything else."""
    try:
        value = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)
