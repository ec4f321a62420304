"""One page of a workflow's history: a fixed number of statements, however long the history is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

from django.db.models import Case, F, QuerySet, TextField, When
from django.db.models.functions import Cast, Length
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from durable.admin.lists import downloads
from durable.admin.words import failures, payloads, wording
from durable.admin.words.sentences import sentence, tone
from durable.admin.words.sight import FailureSight, PayloadSight
from durable.client import hidden
from durable.conf import settings
from durable.kernel.history.events import DIGEST_KEY, EventType
from durable.kernel.payloads import birthplace
from durable.kernel.payloads.birthplace import NOWHERE, Birthplace
from durable.models import Event, OutboxRow

EVENTS_SHOWN = 100
DATA_SHOWN = 10_000
_REPORT_READ = 250_000
"""Characters of a *blocked* event that are read: its traceback has 20,000 at most, before it is escaped or sealed."""
"""Characters of one event's data that a page of the history loads; longer data has a page of its own."""

_LAST_SEQ = 2**31 - 1


class Order(StrEnum):
    """Which end of the history comes first."""

    NEWEST = "newest"
    OLDEST = "oldest"


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, ready to be read. `too_long` means that its data was not loaded for this page.

    `seq` is for addresses and attributes, `number` for the reader.
    """

    seq: int
    number: str
    type: str
    tone: str
    at: SafeString
    sentence: str
    data: SafeString
    traceback: SafeString
    characters: str
    too_long: bool


@dataclass(frozen=True, slots=True)
class Link:
    """A link of the pager. `address` is empty where there is nothing to go to."""

    label: str
    address: str


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of events, its position in the history, and the links to other pages."""

    entries: Sequence[Entry]
    order: Order
    place: str
    links: Sequence[Link]
    turn_around: Link

    @property
    def paged(self) -> bool:
        """Whether there is more than this page."""
        return any(link.address for link in self.links)


def history_page(
    request: HttpRequest,
    workflow: Any,
    seen: PayloadSight,
    failure_sight: FailureSight,
    space: payloads.Space,
) -> HistoryPage:
    """The page of the history that the URL asks for; an invalid URL gets the first page.

    `seq` has no gaps, so pages are cut by it: any page is one range of the primary key, without a count or an offset.
    """
    order = Order.OLDEST if request.GET.get("order") == Order.OLDEST.value else Order.NEWEST
    newest = order is Order.NEWEST
    start = _seq(request.GET.get("seq"), workflow.last_seq if newest else 1)
    if newest:
        high = min(start, workflow.last_seq)
        low = max(high - EVENTS_SHOWN + 1, 1)
    else:
        low, high = start, min(start + EVENTS_SHOWN - 1, _LAST_SEQ)
    events = _events(workflow.pk).filter(seq__gte=low, seq__lte=high).order_by("-seq" if newest else "seq")
    records = list(events.values_list("seq", "type", "ordinal", "recorded_at", "characters", "text"))
    entries = _entries(workflow, records, seen, failure_sight, space)
    last = workflow.last_seq
    if newest:
        onward, back, end = low - 1, high + EVENTS_SHOWN, min(EVENTS_SHOWN, last)
        links = [
            Link(_("Newest"), _address(order, None) if high < last else ""),
            Link(_("Newer"), _address(order, min(back, last)) if high < last else ""),
            Link(_("Older"), _address(order, onward) if onward >= 1 else ""),
            Link(_("Oldest"), _address(order, end) if onward >= 1 else ""),
        ]
        turn_around = Link(_("Oldest first"), _address(Order.OLDEST, None))
    else:
        onward, back, end = high + 1, low - EVENTS_SHOWN, max(last - EVENTS_SHOWN + 1, 1)
        links = [
            Link(_("Oldest"), _address(order, None) if low > 1 else ""),
            Link(_("Older"), _address(order, max(back, 1)) if low > 1 else ""),
            Link(_("Newer"), _address(order, onward) if onward <= last else ""),
            Link(_("Newest"), _address(order, end) if onward <= last else ""),
        ]
        turn_around = Link(_("Newest first"), _address(Order.NEWEST, None))
    place = ""
    if entries:
        first, final = sorted((entries[0].seq, entries[-1].seq))
        place = _("Events %(first)s to %(final)s of %(last)s") % {
            "first": wording.number(first),
            "final": wording.number(final),
            "last": wording.number(last),
        }
    return HistoryPage(entries, order, place, links, turn_around)


def single_event(
    workflow: Any,
    seq: int,
    seen: PayloadSight,
    failure_sight: FailureSight,
    space: payloads.Space,
    address: str,
) -> Entry | None:
    """One event with its data, or `None`. If the data is longer than a page loads, only the beginning of the payload:
    all of it is at `address`.
    """
    events = _events(workflow.pk, payloads.LOADED_CHARACTERS).filter(seq=min(seq, _LAST_SEQ + 1))
    record = events.values_list("seq", "type", "ordinal", "recorded_at", "characters", "text").first()
    if record is None:
        return None
    entry = _entries(workflow, [record], seen, failure_sight, space)[0]
    return replace(entry, data=_beginning(workflow, seq, seen, space, address)) if entry.too_long else entry


def _beginning(workflow: Any, seq: int, seen: PayloadSight, space: payloads.Space, address: str) -> SafeString:
    columns, born = None, NOWHERE
    if seen.is_shown:
        events = one_event(workflow.pk, seq)
        born = birthplace_of_event(workflow, seq)
        expression = downloads.payload_within("data")
        columns = events.only("pk").annotate(**payloads.of_expression("payload", expression)).first()
    return payloads.payload(payloads.stored(columns, "payload", born, address), seen, space)


def birthplace_of_event(workflow: Any, seq: int) -> Birthplace:
    """Where the payload of an event was made."""
    return downloads.birthplace_within(one_event(workflow.pk, seq), "data", single=workflow.single)


def one_event(workflow_id: Any, seq: int) -> QuerySet[Any]:
    """The event of a workflow with this number, if there is one."""
    events: QuerySet[Any] = Event.objects.using(settings.database_alias)
    return events.filter(workflow_id=workflow_id, seq=min(seq, _LAST_SEQ + 1))


def block_report(workflow: Any) -> Mapping[str, Any]:
    """What the last *blocked* event says (position, recorded, asked, traceback), as far as it can be read.

    It is looked for among the last events only: a blocked workflow's history hardly grows.
    """
    recent = _events(workflow.pk, _REPORT_READ).filter(seq__gt=workflow.last_seq - 1_000)
    events = recent.filter(type=EventType.WORKFLOW_BLOCKED.value)
    data = wording.read_json(events.order_by("-seq").values_list("text", flat=True).first())
    return data if isinstance(data, dict) else {}


def _events(workflow_id: Any, shown: int = DATA_SHOWN) -> QuerySet[Any]:
    """Events of a workflow with their data as raw text where it is short, and its length."""
    return (
        Event.objects.using(settings.database_alias)
        .filter(workflow_id=workflow_id)
        .annotate(characters=Length(Cast("data", TextField())))
        .annotate(
            text=Case(
                When(characters__lte=shown, then=Cast(F("data"), TextField())),
                default=None,
                output_field=TextField(null=True),
            )
        )
    )


def _entries(
    workflow: Any,
    records: Sequence[Any],
    seen: PayloadSight,
    failure_sight: FailureSight,
    space: payloads.Space,
) -> list[Entry]:
    names = _activity_names(workflow, records)
    entries = []
    for seq, event_type, ordinal, recorded_at, characters, text in records:
        data = failures.of_event(event_type, wording.read_json(text), failure_sight, workflow, ordinal)
        name = names.get(seq)
        shown, traceback = _shown(workflow, text, data, ordinal, seen, failure_sight)
        entries.append(
            Entry(
                seq=seq,
                number=wording.number(seq),
                type=event_type,
                tone=tone(event_type),
                at=wording.moment(recorded_at),
                sentence=sentence(event_type, data, ordinal=ordinal, activity=name),
                data=payloads.block(shown, space) if shown else SafeString(""),
                traceback=payloads.block(traceback, space) if traceback else SafeString(""),
                characters=wording.number(characters or 0),
                too_long=text is None,
            )
        )
    return entries


def _shown(
    workflow: Any,
    text: str | None,
    data: Any,
    ordinal: int | None,
    seen: PayloadSight,
    failure_sight: FailureSight,
) -> tuple[str, str]:
    """The data for reading, and the traceback separately, since its lines are not readable inside JSON."""
    if text is None or data == {}:
        return "", ""
    if data is None:
        return _unreadable(text, seen, failure_sight), ""
    traceback = ""
    if isinstance(data, dict) and isinstance(data.get("failure"), dict):
        failure = dict(data["failure"])
        traceback = str(failure.pop("traceback", "") or "")
        data = {**data, "failure": failure}
    elif isinstance(data, dict) and "traceback" in data:
        data = dict(data)
        traceback = str(data.pop("traceback") or "")
    places: Mapping[str, Birthplace] = {}
    if isinstance(data, dict):
        places = birthplace.within(data, workflow.pk, ordinal=ordinal, single=workflow.single)
    try:
        return payloads.indented(payloads.opened(data, seen, places)), traceback
    except RecursionError:  # nested as deeply as Python can read it, and no deeper
        return _("Not shown: it is nested too deeply."), traceback


def _unreadable(text: str, seen: PayloadSight, failure_sight: FailureSight) -> str:
    """The payload cannot be separated from the rest, so all of it is shown as it is, or nothing."""
    if DIGEST_KEY in text:
        return _("Hidden: it is damaged, and contains the key of the digests.")
    if hidden.names():
        return _("Hidden: it is damaged, so its secret fields cannot be left out.")
    if not seen.is_shown:
        return seen.placeholder
    return text if failure_sight.is_shown else failure_sight.placeholder


def _activity_names(workflow: Any, records: Sequence[Any]) -> dict[int, str]:
    """The activity's name by `seq`: from the rows of the current run, otherwise from these records.

    Each run uses the ordinals again, so a row says nothing about events before its run began.
    """
    ordinals = {ordinal for seq, _t, ordinal, *_rest in records if ordinal is not None and seq >= workflow.run_seq}
    rows = OutboxRow.objects.using(settings.database_alias).filter(
        workflow_id=workflow.pk, run=workflow.run, ordinal__in=ordinals
    )
    current: dict[int, str] = dict(rows.values_list("ordinal", "activity"))
    earlier: dict[int, str] = {}
    names: dict[int, str] = {}
    for seq, event_type, ordinal, _at, _length, text in sorted(records, key=lambda record: record[0]):
        if ordinal is None:
            continue
        if event_type == EventType.ACTIVITY_SCHEDULED:
            data = wording.read_json(text)
            if isinstance(data, dict) and isinstance(data.get("activity"), str):
                earlier[ordinal] = data["activity"]
        name = earlier.get(ordinal) if seq < workflow.run_seq else earlier.get(ordinal) or current.get(ordinal)
        if name:
            names[seq] = name
    return names


def _seq(text: str | None, default: int) -> int:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 10:
        return default
    return min(max(int(text), 1), _LAST_SEQ)


def _address(order: Order, seq: int | None) -> str:
    asked: dict[str, str] = {"order": order.value}
    if seq is not None:
        asked["seq"] = str(seq)
    return f"?{urlencode(asked)}#history"
