"""The room of the redrives: who gave what back, or closed it, when and why. Kept also when the person is gone."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from durable import clock
from durable.admin import wording
from durable.admin.parts import Fact, Facts, Text
from durable.admin.room import ChoiceFilter, Page, Room
from durable.models import DeadLetter, OutboxRow

_MODES: dict[str, Any] = {
    "eligible": gettext_lazy("Redriven"),
    "forced": gettext_lazy("Redriven by force"),
    "discard_fail": gettext_lazy("Discarded; the activity fails"),
    "discard_cancel": gettext_lazy("Discarded; the workflow is cancelled"),
}


def mode_words(mode: str) -> str:
    """What was done."""
    return str(_MODES.get(mode, mode.replace("_", " ")))


def actor_shown(audit: Any) -> object:
    """Who did it: the name as it was then."""
    return wording.plain(wording.shortened(audit.actor_text, 80))


class ModeFilter(ChoiceFilter):
    """Redrives of one kind."""

    title = gettext_lazy("what")
    parameter_name = "mode"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(_MODES.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(mode=self.value()) if self.value() else queryset


class RedriveAdmin(Room):
    """The audit of redrives and discards."""

    ordering = ("-at", "-pk")
    list_display = ("what", "row_shown", "who", "when", "why", "judged_shown")
    list_filter = (ModeFilter,)
    empty_text = gettext_lazy("Nobody has redriven or discarded anything yet.")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With what is left of the activity: its row may be gone."""
        row = OutboxRow.objects.filter(pk=OuterRef("outbox_row_id"))
        rows: QuerySet[Any] = (
            super()
            .get_queryset(request)
            .annotate(
                activity=Subquery(row.values("activity")[:1]), workflow_id=Subquery(row.values("workflow_id")[:1])
            )
        )
        return rows

    @admin.display(description=gettext_lazy("what"))
    def what(self, audit: Any) -> object:
        return mode_words(audit.mode)

    @admin.display(description=gettext_lazy("activity"))
    def row_shown(self, audit: Any) -> object:
        name = wording.shortened(audit.activity or _("no longer there"), 60)
        return self.link(DeadLetter, audit.outbox_row_id, f"{name} #{audit.outbox_row_id}")

    @admin.display(description=gettext_lazy("who"))
    def who(self, audit: Any) -> object:
        return actor_shown(audit)

    @admin.display(description=gettext_lazy("when"))
    def when(self, audit: Any) -> object:
        return wording.moment_in_list(audit.at)

    @admin.display(description=gettext_lazy("why"))
    def why(self, audit: Any) -> object:
        return wording.plain(wording.shortened(audit.reason, 120))

    @admin.display(description=gettext_lazy("was judged"))
    def judged_shown(self, audit: Any) -> object:
        return wording.badge(_("Judged"), "off") if audit.was_judged else wording.NOTHING

    def page(self, request: HttpRequest, row: Any) -> Page:
        """What was done, to what, by whom, and why."""
        workflow = wording.NOTHING if row.workflow_id is None else self.workflow_link(row.workflow_id)
        return Page(
            title=mode_words(row.mode),
            subtitle=_("redrive"),
            badges=[],
            parts=[
                Facts(
                    _("What was done"),
                    [
                        Fact(_("When"), wording.moment_and_distance(row.at, clock.host_now())),
                        Fact(_("What"), mode_words(row.mode)),
                        Fact(_("Who"), actor_shown(row)),
                        Fact(_("Activity"), self.row_shown(row)),
                        Fact(_("Workflow"), workflow),
                        Fact(_("Had the workflow been told?"), _("yes") if row.was_judged else _("no")),
                        Fact(_("Id"), format_html('<span class="durable-id">{}</span>', row.pk)),
                    ],
                ),
                Text(_("Why"), wording.plain(row.reason)),
            ],
        )
