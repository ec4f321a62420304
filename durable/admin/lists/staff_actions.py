"""The room of staff actions: who did what to which workflow or activity, when, through which interface and why. Kept
when the user is deleted.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from durable import clock
from durable.admin.lists.parts import Fact, Facts, Part, Table, Text
from durable.admin.lists.room import ROWS_SHOWN, ChoiceFilter, Page, Room, WorkflowFilter
from durable.admin.words import wording
from durable.conf import settings
from durable.models import DeadLetter, OutboxRow, StaffAction
from durable.outcomes import StaffVerb, Through

_VERBS: dict[str, Any] = {
    StaffVerb.START: gettext_lazy("Started"),
    StaffVerb.REDRIVE: gettext_lazy("Redriven"),
    StaffVerb.DISCARD: gettext_lazy("Discarded"),
    StaffVerb.SIGNAL: gettext_lazy("Signal sent"),
    StaffVerb.CANCEL: gettext_lazy("Cancellation requested"),
    StaffVerb.TERMINATE: gettext_lazy("Terminated"),
    StaffVerb.PAUSE: gettext_lazy("Paused"),
    StaffVerb.RESUME: gettext_lazy("Resumed"),
    StaffVerb.UNBLOCK: gettext_lazy("Unblocked"),
    StaffVerb.VIEW: gettext_lazy("Payload viewed"),
}
_MODES: dict[tuple[str, str], Any] = {
    (StaffVerb.REDRIVE, "forced"): gettext_lazy("Redriven by force"),
    (StaffVerb.DISCARD, "fail"): gettext_lazy("Discarded; the activity fails"),
    (StaffVerb.DISCARD, "cancel"): gettext_lazy("Discarded; the workflow is cancelled"),
}
_DATA: dict[str, Any] = {
    "page": gettext_lazy("page"),
    "address": gettext_lazy("address"),
    "signal": gettext_lazy("signal"),
    "login": gettext_lazy("login"),
}
_THROUGH: dict[str, Any] = {
    Through.ADMIN: gettext_lazy("the admin"),
    Through.COMMAND: gettext_lazy("the command line"),
    Through.OPERATIONS: gettext_lazy("Python"),
}


def what_words(audit: Any) -> str:
    """What was done."""
    return str(_MODES.get((audit.verb, audit.mode)) or _VERBS.get(audit.verb) or audit.verb.replace("_", " "))


def through_words(audit: Any) -> object:
    """The interface through which it was requested, and whether a background job did it."""
    words = wording.plain(str(_THROUGH.get(audit.through, audit.through)))
    return format_html("{} ({})", words, _("in the background")) if audit.job else words


def actor_shown(audit: Any) -> object:
    """Who did it: the name as it was then."""
    return wording.plain(wording.shortened(audit.actor_text, 80))


def actions_table(rows: QuerySet[Any], title: str, empty: str) -> Table:
    """The actions of staff on one workflow or one activity, the newest first, with a limit. Views are
    only in the list.
    """
    done = rows.using(settings.database_alias).exclude(verb=StaffVerb.VIEW.value).defer("data")
    audits = list(done.order_by("-at", "-pk")[: ROWS_SHOWN + 1])
    return Table(
        title,
        [_("When"), _("What"), _("Who"), _("Via"), _("Why"), _("Had the workflow moved on?")],
        [
            [
                wording.moment(audit.at),
                what_words(audit),
                actor_shown(audit),
                through_words(audit),
                wording.plain(wording.shortened(audit.reason, 1_000)),
                wording.NOTHING if audit.was_judged is None else _("yes") if audit.was_judged else _("no"),
            ]
            for audit in audits[:ROWS_SHOWN]
        ],
        empty=empty,
        footnote=_("Only the newest %(count)s are shown.") % {"count": wording.number(ROWS_SHOWN)}
        if len(audits) > ROWS_SHOWN
        else "",
    )


class VerbFilter(ChoiceFilter):
    """What was done with one verb."""

    title = gettext_lazy("what")
    parameter_name = "verb"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(str(verb), label) for verb, label in _VERBS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(verb=self.value()) if self.value() else queryset


class StaffActionAdmin(Room):
    """The audit of what staff did."""

    heavy = ("data",)
    ordering = ("-at", "-pk")
    list_display = ("what", "about", "who", "when", "why", "judged_shown")
    list_filter = (VerbFilter, WorkflowFilter)
    empty_text = gettext_lazy("No staff actions yet.")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """The activity; its row may no longer exist."""
        row = OutboxRow.objects.filter(pk=OuterRef("outbox_row_id"))
        rows: QuerySet[Any] = super().get_queryset(request).annotate(activity=Subquery(row.values("activity")[:1]))
        return rows

    @admin.display(description=gettext_lazy("what"))
    def what(self, audit: Any) -> object:
        return what_words(audit)

    @admin.display(description=pgettext_lazy("heading of a column: what it was done to", "of"))
    def about(self, audit: Any) -> object:
        if audit.outbox_row_id is None:
            return wording.NOTHING if audit.workflow_id is None else self.short_workflow_link(audit.workflow_id)
        name = wording.shortened(audit.activity or _("no longer there"), 60)
        return self.link(DeadLetter, audit.outbox_row_id, f"{name} #{audit.outbox_row_id}")

    @admin.display(description=gettext_lazy("who"))
    def who(self, audit: Any) -> object:
        return format_html(
            '{}<span class="durable-quiet durable-below">{}</span>', actor_shown(audit), through_words(audit)
        )

    @admin.display(description=gettext_lazy("when"))
    def when(self, audit: Any) -> object:
        return wording.moment_in_list(audit.at)

    @admin.display(description=gettext_lazy("why"))
    def why(self, audit: Any) -> object:
        return wording.plain(wording.shortened(audit.reason, 120))

    @admin.display(description=gettext_lazy("the workflow had moved on"))
    def judged_shown(self, audit: Any) -> object:
        return wording.badge(_("Moved on"), "off") if audit.was_judged else wording.NOTHING

    def page(self, request: HttpRequest, row: Any) -> Page:
        """What was done, to what, by whom, and why."""
        workflow = wording.NOTHING if row.workflow_id is None else self.workflow_link(row.workflow_id)
        facts = [
            Fact(_("When"), wording.moment_and_distance(row.at, clock.host_now())),
            Fact(_("What"), what_words(row)),
            Fact(_("Who"), actor_shown(row)),
            Fact(_("Via"), through_words(row)),
            Fact(_("Workflow"), workflow),
        ]
        if row.outbox_row_id is not None:
            facts.append(Fact(_("Activity"), self.about(row)))
        if row.was_judged is not None:
            facts.append(Fact(_("Had the workflow moved on?"), _("yes") if row.was_judged else _("no")))
        if row.job is not None:
            facts.append(Fact(_("Done by"), self.workflow_link(row.job)))
        data = self._data(row)
        for key, value in data.items():
            facts.append(Fact(str(_DATA.get(key, key)), wording.shortened(str(value), 1_000)))
        facts.append(Fact(_("Id"), format_html('<span class="durable-id">{}</span>', row.pk)))
        parts: list[Part] = [Facts(_("What was done"), facts)]
        if row.verb != StaffVerb.VIEW:
            parts.append(Text(_("Why"), wording.plain(row.reason)))
        return Page(title=what_words(row), subtitle=_("staff action"), badges=[], parts=parts)

    def _data(self, row: Any) -> dict[str, Any]:
        """What else is kept of it, as far as it can be read."""
        rows = StaffAction.objects.using(settings.database_alias).filter(pk=row.pk)
        text = rows.annotate(data_text=Cast("data", TextField())).values_list("data_text", flat=True).first()
        data = wording.read_json(text)
        return data if isinstance(data, dict) else {}
