"""The room of the messages, which wait for a workflow's next turn."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from durable import clock
from durable.admin.lists import downloads
from durable.admin.lists.parts import Fact, Facts, Text
from durable.admin.lists.room import ChoiceFilter, Page, Room, WorkflowFilter
from durable.admin.words import failures, payloads, sight, wording
from durable.admin.words.sight import FailureSight, PayloadSight
from durable.conf import settings
from durable.kernel.history.events import MessageKind
from durable.kernel.payloads import birthplace
from durable.kernel.payloads.birthplace import NOWHERE, Birthplace
from durable.models import Message, Workflow

NAME_WITHIN = 1_500
"""Characters at the beginning of a payload in which the name of a signal stands, however it is escaped."""

_NAME = re.compile(r'\{\s*"name"\s*:\s*')


def message_state(message: Any, now: Any, *, ended: bool) -> object:
    """Never read (its workflow has ended), parked, due, or waiting for its time."""
    if ended and message.parked:
        return wording.badge(_("Never read"), "off")
    if message.parked:
        return wording.badge(_("Parked"), "wait")
    if message.visible_at > now:
        return wording.badge(_("Later"), "off")
    return wording.badge(_("Due"), "live")


def message_words(kind: str, beginning: str) -> str:
    """The kind of a message, and of a signal its name, read from the beginning of its payload without the payload."""
    words = wording.message_kind(kind)
    before = _NAME.match(beginning) if kind == MessageKind.SIGNAL.value else None
    if before is None:
        return words
    try:
        name, _end = json.JSONDecoder().raw_decode(beginning, before.end())
    except ValueError:
        return words
    if not isinstance(name, str):
        return words
    return _("%(kind)s “%(name)s”") % {"kind": words, "name": wording.name(name, 80)}


class KindFilter(ChoiceFilter):
    """Messages of one kind."""

    title = gettext_lazy("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind.value, wording.message_kind(kind)) for kind in MessageKind]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


class ParkedFilter(ChoiceFilter):
    """Messages that a paused or blocked workflow does not read."""

    title = gettext_lazy("state")
    parameter_name = "parked"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", _("Parked"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(parked=True) if self.value() else queryset


class MessageAdmin(Room):
    """Messages that no turn has read yet. A turn that reads one deletes it and records an event."""

    heavy = ("payload",)
    payload_columns = ("payload",)
    list_display = ("kind_shown", "state", "ordinal_shown", "due", "arrived", "workflow_shown")
    list_filter = (KindFilter, ParkedFilter, WorkflowFilter)
    empty_text = gettext_lazy("No messages waiting.")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """The rows, each with whether its workflow has ended."""
        ended = Workflow.objects.terminal().filter(pk=OuterRef("workflow_id"))
        messages: QuerySet[Any] = super().get_queryset(request).annotate(ended=Exists(ended))
        return messages

    @admin.display(description=gettext_lazy("kind"))
    def kind_shown(self, message: Any) -> str:
        return wording.message_kind(message.kind)

    @admin.display(description=gettext_lazy("state"))
    def state(self, message: Any) -> object:
        return message_state(message, clock.host_now(), ended=message.ended)

    @admin.display(description=gettext_lazy("activity"))
    def ordinal_shown(self, message: Any) -> object:
        return wording.place(message.ordinal)

    @admin.display(description=gettext_lazy("due"))
    def due(self, message: Any) -> object:
        return wording.moment_in_list(message.visible_at)

    @admin.display(description=gettext_lazy("arrived"))
    def arrived(self, message: Any) -> object:
        return wording.moment_in_list(message.created_at)

    @admin.display(description=gettext_lazy("workflow"))
    def workflow_shown(self, message: Any) -> object:
        return self.short_workflow_link(message.workflow_id)

    def file(self, row: Any, column: str) -> HttpResponseBase | None:
        """The payload in its envelope as a file."""
        rows = Message.objects.using(settings.database_alias).filter(pk=row.pk)
        if row.kind == MessageKind.COMPLETED.value:
            whole = downloads.payload_column(column)
            return downloads.answer(rows, whole, f"message-{row.pk}.json", _born(row))
        born = downloads.birthplace_within(rows, column, single=False)
        return downloads.answer(rows, downloads.payload_within(column), f"message-{row.pk}.json", born)

    def looked_at(self, request: HttpRequest, row: Any) -> payloads.Looked:
        return payloads.Looked(row.workflow_id, f"message {row.pk}", ordinal=row.ordinal)

    def page(self, request: HttpRequest, row: Any) -> Page:
        """Its facts and its payload."""
        now = clock.host_now()
        seen, space = sight.of_payloads(request), payloads.Space()
        stored = None
        if seen.is_shown:
            rows = Message.objects.using(settings.database_alias).filter(pk=row.pk).only("pk")
            columns = rows.annotate(**payloads.columns("payload")).first()
            stored = payloads.stored(columns, "payload", _born(row), self.payload_address(row, "payload"))
            if row.kind in (MessageKind.FAILED, MessageKind.CHILD) and stored is not None:
                failure_sight = sight.of_failures(request)
                text = stored.text if failure_sight.is_shown else failure_sight.placeholder
                if stored.is_whole:
                    text = _with_its_failure(row, stored.text, failure_sight)
                stored = replace(stored, text=text, characters=len(text) if stored.is_whole else stored.characters)
        return Page(
            title=_("%(kind)s, message %(id)s") % {"kind": wording.message_kind(row.kind), "id": row.pk},
            subtitle=_("message"),
            badges=[self.state(row)],
            parts=[
                Facts(
                    _("Message"),
                    [
                        Fact(_("Workflow"), self.workflow_link(row.workflow_id)),
                        Fact(_("Kind"), wording.message_kind(row.kind)),
                        Fact(_("Activity"), wording.place(row.ordinal)),
                        Fact(pgettext("part of a history", "Run"), wording.number(row.run)),
                        Fact(_("Due"), wording.moment_and_distance(row.visible_at, now)),
                        Fact(_("Arrived"), wording.moment_and_distance(row.created_at, now)),
                        Fact(_("Deduplication key"), wording.plain(row.dedup)),
                    ],
                ),
                Text(_("Payload"), _payload(row, stored, seen, space)),
            ],
            space=space,
        )


def _payload(message: Any, stored: payloads.Stored | None, seen: PayloadSight, space: payloads.Space) -> SafeString:
    """That of an activity's completion is its result itself; the others are envelopes, as those of events."""
    if message.kind == MessageKind.COMPLETED.value:
        return payloads.payload(stored, seen, space)
    return payloads.envelope(stored, seen, space, partial(_places, message))


def _born(message: Any) -> Birthplace:
    """Of a payload without an envelope."""
    completed = message.kind == MessageKind.COMPLETED.value
    return birthplace.result(message.workflow_id, message.ordinal) if completed else NOWHERE


def _places(message: Any, data: Mapping[str, Any]) -> Mapping[str, Birthplace]:
    return birthplace.within(data, message.workflow_id, ordinal=message.ordinal, single=False)


def _with_its_failure(message: Any, text: str, seen: FailureSight) -> str:
    """The payload of a message that tells of a failure, for this reader."""
    data = wording.read_json(text)
    if data is None:
        return text if seen.is_shown else seen.placeholder
    return json.dumps(failures.of_message(data, seen, message.workflow_id, message.ordinal))
