"""The room of the outbox rows: every staged activity, and its deliveries."""

from __future__ import annotations

import re
import uuid
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Left
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from durable import clock
from durable.admin.dead_letters.page import attempts_table
from durable.admin.lists.parts import Fact, Facts, Part, Text
from durable.admin.lists.room import ChoiceFilter, Page, Room, WorkflowFilter
from durable.admin.lists.work_items import cancel_words
from durable.admin.words import attempts, payloads, sight, wording
from durable.admin.words.sight import PayloadSight
from durable.conf import settings
from durable.kernel.payloads.birthplace import Birthplace, arguments, heartbeat
from durable.models import OutboxRow, WorkItem
from durable.outcomes import OutboxStatus

_OPTIONS_SHOWN = 2_000
_DISPATCH_KEY = re.compile(r"(?P<workflow>[0-9a-fA-F-]{32,36}):(?P<run>\d{1,9}):(?P<ordinal>\d{1,9})", re.ASCII)

_STATES: dict[str, tuple[Any, list[str]]] = {
    "waiting": (gettext_lazy("Pending"), [OutboxStatus.PENDING.value]),
    "working": (gettext_lazy("With a worker"), [OutboxStatus.CLAIMED.value]),
    "dead": (gettext_lazy("Dead letter"), [OutboxStatus.DEAD.value]),
    "finished": (gettext_lazy("Finished"), [OutboxStatus.DONE.value, OutboxStatus.CANCELLED.value]),
}
"""The first three have a partial index each; nearly all other rows are finished, so a page of them is found at once."""


class StateFilter(ChoiceFilter):
    """Rows in one state of their life."""

    title = gettext_lazy("status")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(key, label) for key, (label, _statuses) in _STATES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return queryset.filter(status__in=_STATES[chosen][1]) if chosen else queryset


class OutboxRowAdmin(Room):
    """Activities that workflows have staged for dispatch."""

    heavy = ("input", "options", "last_heartbeat")
    payload_columns = ("input", "last_heartbeat")
    list_display = ("activity_shown", "status_shown", "attempts_shown", "next_try", "queue_shown", "workflow_shown")
    list_filter = (StateFilter, WorkflowFilter)
    search_fields = ("workflow",)
    search_help_text = gettext_lazy("Id of a workflow or of an outbox row, or a complete dispatch key.")
    empty_text = gettext_lazy("No activities yet. They appear here when a workflow calls one.")

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """By workflow, by id or by dispatch key, each exactly: these have an index."""
        term = term.strip()
        if dispatch := _DISPATCH_KEY.fullmatch(term):
            workflow_id = _uuid(dispatch["workflow"])
            place = {"run": int(dispatch["run"]), "ordinal": int(dispatch["ordinal"])}
            return queryset.filter(workflow_id=workflow_id, **place) if workflow_id else queryset.none()
        if workflow_id := _uuid(term):
            return queryset.filter(workflow_id=workflow_id)
        if term.isascii() and term.isdigit() and len(term) <= 18:
            return queryset.filter(pk=int(term))
        return queryset.none()

    @admin.display(description=gettext_lazy("activity"))
    def activity_shown(self, row: Any) -> str:
        return wording.name(row.activity, 80)

    @admin.display(description=gettext_lazy("status"))
    def status_shown(self, row: Any) -> object:
        return wording.outbox_status(row.status, paused=row.paused)

    @admin.display(description=gettext_lazy("attempts"))
    def attempts_shown(self, row: Any) -> object:
        return attempts.attempt_words(row)

    @admin.display(description=gettext_lazy("next try"))
    def next_try(self, row: Any) -> object:
        return attempts.next_try(row, clock.host_now())

    @admin.display(description=gettext_lazy("queue"))
    def queue_shown(self, row: Any) -> str:
        return wording.name(row.queue, 40)

    @admin.display(description=gettext_lazy("workflow"))
    def workflow_shown(self, row: Any) -> object:
        return self.short_workflow_link(row.workflow_id)

    def looked_at(self, request: HttpRequest, row: Any) -> payloads.Looked:
        return payloads.Looked(row.workflow_id, "outbox row", row.pk, row.ordinal)

    def page(self, request: HttpRequest, row: Any) -> Page:
        """Its facts, the delivery that is out, its attempts, and its payloads."""
        now = clock.host_now()
        seen, space = sight.of_payloads(request), payloads.Space()
        stored = self._stored(row, seen)
        item = WorkItem.objects.using(settings.database_alias).filter(pk=row.pk).defer("heartbeat").first()
        parts: list[Part] = [Facts(_("Activity"), self._facts(row, stored, now))]
        if item is not None:
            parts.append(self._delivery(item, now))
        parts += [
            attempts_table(row, sight.of_failures(request), space),
            Text(_("Input"), self._payload(row, stored, "input", seen, space)),
            Text(_("Last heartbeat"), self._payload(row, stored, "last_heartbeat", seen, space)),
        ]
        badges = [self.status_shown(row)]
        return Page(title=row.activity, subtitle=_("outbox row"), badges=badges, parts=parts, space=space)

    def _stored(self, row: Any, seen: PayloadSight) -> Any:
        """The heavy columns as raw text; payloads only for users who may see them. None: the row no longer exists."""
        wanted = payloads.columns(*self.payload_columns) if seen.is_shown else {}
        rows = OutboxRow.objects.using(settings.database_alias).filter(pk=row.pk).only("pk")
        return rows.annotate(options_text=Left(Cast("options", TextField()), _OPTIONS_SHOWN), **wanted).first()

    def birthplace(self, row: Any, column: str) -> Birthplace:
        """Of its arguments, or its heartbeat."""
        if column == "input":
            return arguments(row.workflow_id, row.activity)
        return heartbeat(row.workflow_id, row.ordinal)

    def _payload(self, row: Any, stored: Any, name: str, seen: PayloadSight, space: payloads.Space) -> SafeString:
        text = payloads.stored(stored, name, self.birthplace(row, name), self.payload_address(row, name))
        return payloads.payload(text, seen, space)

    def _facts(self, row: Any, stored: Any, now: Any) -> list[Fact]:
        facts = [
            Fact(_("Workflow"), self.workflow_link(row.workflow_id)),
            Fact(_("Position in the history"), wording.place_in_history(row)),
            Fact(_("Dispatch key"), format_html('<span class="durable-id">{}</span>', row.dispatch_key)),
            Fact(_("Queue"), wording.plain(row.queue)),
            Fact(_("Priority"), wording.number(row.priority)),
            Fact(_("Attempts"), attempts.attempt_words(row)),
            Fact(_("Deliveries"), attempts.delivery_words(row)),
            Fact(_("Next try"), attempts.next_try(row, now)),
            Fact(_("Staged"), wording.moment_and_distance(row.created_at, now)),
            Fact(_("Given to a worker"), wording.moment_and_distance(row.claimed_at, now)),
        ]
        if row.node:
            facts.append(Fact(_("Only on node"), row.node))
        if row.suspect:
            facts.append(Fact(_("Suspect"), _("A worker process died while running it, so it is delivered alone.")))
        if row.cause:
            facts.append(Fact(_("Cause"), wording.cause(row.cause)))
        if row.dead_lettered_at:
            facts.append(Fact(_("Dead letter since"), wording.moment_and_distance(row.dead_lettered_at, now)))
            was_told = _("yes, and it has moved on") if row.failure_delivered else _("no, it is waiting")
            facts.append(Fact(_("Did the workflow get the failure?"), was_told))
        if row.redrive_count:
            facts.append(Fact(_("Redriven"), wording.number(row.redrive_count)))
        if row.discarded_at:
            facts.append(Fact(_("Discarded"), wording.moment(row.discarded_at)))
        options = getattr(stored, "options_text", None)
        if options and options != "{}":
            facts.append(Fact(_("Options"), format_html('<span class="durable-id">{}</span>', options)))
        return facts

    def _delivery(self, item: WorkItem, now: Any) -> Facts:
        begun = _("not yet") if item.begun_at is None else wording.moment_and_distance(item.begun_at, now)
        return Facts(
            _("With a worker now"),
            [
                Fact(_("Worker"), item.worker),
                *([Fact(_("Begun"), begun)] if item.queue else []),
                Fact(_("Held until"), wording.moment_and_distance(item.locked_until, now)),
                Fact(_("Cancel"), cancel_words(item)),
                Fact(_("Work item"), self.link(WorkItem, item.pk, item.pk)),
            ],
        )


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
