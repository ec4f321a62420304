"""The room of the workers."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import TextField
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from durable import clock
from durable.admin.lists.parts import Fact, Facts, Table
from durable.admin.lists.room import ROWS_SHOWN, Page, Room
from durable.admin.lists.scoping import scope_of
from durable.admin.words import wording
from durable.conf import settings
from durable.models import OutboxRow, WorkItem
from durable.outcomes import WakesBy

_MISSED_BEATS = 2
"""A worker beats at least once per lease; after two leases without a beat it is marked as silent."""


class WorkerAdmin(Room):
    """Worker processes, and processes of clusters, with their last heartbeats."""

    heavy = ("queues",)
    ordering = ("pk",)
    list_display = (
        "name_shown",
        "state",
        "beat",
        "since",
        "queues_shown",
        "cluster_shown",
        "woken_by",
        "version_shown",
    )
    empty_text = gettext_lazy("No workers yet. Start one with “manage.py runworker”.")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(queues_text=Cast("queues", TextField()))

    @admin.display(description=pgettext_lazy("of a worker", "name"))
    def name_shown(self, row: Any) -> str:
        return wording.name(row.name, 60)

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: Any) -> object:
        if clock.host_now() - row.beat_at > settings.lease_for * _MISSED_BEATS:
            return wording.badge(_("Silent"), "bad")
        return wording.badge(_("Alive"), "good")

    @admin.display(description=gettext_lazy("last heartbeat"))
    def beat(self, row: Any) -> object:
        return wording.moment_in_list(row.beat_at)

    @admin.display(description=gettext_lazy("started"))
    def since(self, row: Any) -> object:
        return wording.moment_in_list(row.started_at)

    @admin.display(description=gettext_lazy("woken by"))
    def woken_by(self, row: Any) -> object:
        if row.wakes_by == WakesBy.LOST.value:
            return wording.badge(wording.wakes_by(row.wakes_by), "bad")
        return wording.wakes_by(row.wakes_by)

    @admin.display(description=pgettext_lazy("of the code", "version"))
    def version_shown(self, row: Any) -> str:
        return wording.name(row.version, 60)

    @admin.display(description=gettext_lazy("cluster"))
    def cluster_shown(self, row: Any) -> str:
        return wording.name(row.cluster, 60)

    @admin.display(description=gettext_lazy("queues"))
    def queues_shown(self, row: Any) -> str:
        queues = wording.read_json(row.queues_text)
        if isinstance(queues, list):
            return wording.name(", ".join(str(queue) for queue in queues), 500) or _("all")
        return wording.shortened(str(row.queues_text or _("all")), 500)

    def page(self, request: HttpRequest, row: Any) -> Page:
        """Its facts, and the deliveries that it holds."""
        now = clock.host_now()
        items = list(
            scope_of(request)
            .narrow(WorkItem.objects.using(settings.database_alias))
            .filter(worker=row.name)
            .order_by("pk")
            .values_list("outbox_row_id", "workflow_id", "locked_until")[: ROWS_SHOWN + 1]
        )
        return Page(
            title=row.name,
            subtitle=_("worker"),
            badges=[self.state(row)],
            parts=[
                Facts(
                    _("Worker"),
                    [
                        Fact(_("Last heartbeat"), wording.moment_and_distance(row.beat_at, now)),
                        Fact(_("Started"), wording.moment_and_distance(row.started_at, now)),
                        Fact(_("Queues"), self.queues_shown(row)),
                        *([Fact(_("Cluster"), self.cluster_shown(row))] if row.cluster else []),
                        Fact(_("Code version"), format_html('<span class="durable-id">{}</span>', row.version)),
                    ],
                ),
                Table(
                    _("Running now"),
                    [_("Outbox row"), _("Workflow"), _("Held until")],
                    [
                        [
                            self.link(OutboxRow, row_id, row_id),
                            self.workflow_link(workflow_id),
                            wording.moment_and_distance(until, now),
                        ]
                        for row_id, workflow_id, until in items[:ROWS_SHOWN]
                    ],
                    empty=_("Nothing is running."),
                    footnote=_("Only the first %(count)s are shown.") % {"count": wording.number(ROWS_SHOWN)}
                    if len(items) > ROWS_SHOWN
                    else "",
                ),
            ],
        )
