"""The room of the work items: deliveries that are out with a worker right now."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from durable import clock
from durable.admin.lists.parts import Fact, Facts, Text
from durable.admin.lists.room import Page, Room, WorkflowFilter
from durable.admin.words import payloads, sight, wording
from durable.conf import settings
from durable.kernel.payloads import birthplace
from durable.kernel.payloads.birthplace import Birthplace
from durable.models import OutboxRow, WorkItem


def cancel_words(item: WorkItem) -> object:
    """Whether the worker was asked to stop. A work item is gone as soon as the worker has seen that."""
    if item.cancel_requested_at is None:
        return _("no")
    return format_html(
        "{} {}", wording.badge(_("Requested, not yet seen"), "wait"), wording.moment(item.cancel_requested_at)
    )


class WorkItemAdmin(Room):
    """Deliveries that are out with workers. A row exists from the claim until the delivery has ended."""

    heavy = ("heartbeat",)
    payload_columns = ("heartbeat",)
    list_display = ("row_shown", "state", "worker_shown", "held_until", "cancel", "workflow_shown")
    list_filter = (WorkflowFilter,)
    empty_text = gettext_lazy("No activity is running.")

    @admin.display(description=gettext_lazy("outbox row"))
    def row_shown(self, item: Any) -> str:
        return str(item.pk)

    @admin.display(description=gettext_lazy("lease"))
    def state(self, item: Any) -> object:
        if item.locked_until <= clock.host_now():
            return wording.badge(_("Expired"), "bad")
        if item.queue and item.begun_at is None:
            return wording.badge(_("Sent, not begun"), "wait")
        return wording.badge(_("Held"), "live")

    @admin.display(description=gettext_lazy("worker"))
    def worker_shown(self, item: Any) -> str:
        return wording.name(item.worker, 60)

    @admin.display(description=gettext_lazy("held until"))
    def held_until(self, item: Any) -> object:
        return wording.moment_in_list(item.locked_until)

    @admin.display(description=gettext_lazy("cancel"))
    def cancel(self, item: Any) -> object:
        return cancel_words(item)

    @admin.display(description=gettext_lazy("workflow"))
    def workflow_shown(self, item: Any) -> object:
        return self.short_workflow_link(item.workflow_id)

    def _sent(self, item: Any) -> list[Fact]:
        """Of a delivery that a transport takes to another process."""
        now = clock.host_now()
        begun = _("not yet") if item.begun_at is None else wording.moment_and_distance(item.begun_at, now)
        return [Fact(_("Sent by the transport of queue"), item.queue), Fact(_("Begun"), begun)]

    def birthplace(self, row: Any, column: str) -> Birthplace:
        """Of the heartbeat of its activity."""
        rows = OutboxRow.objects.using(settings.database_alias).filter(pk=row.pk)
        return birthplace.heartbeat(row.workflow_id, rows.values_list("ordinal", flat=True).first() or 0)

    def looked_at(self, request: HttpRequest, row: Any) -> payloads.Looked:
        return payloads.Looked(row.workflow_id, "work item", row.pk)

    def page(self, request: HttpRequest, row: Any) -> Page:
        """Its facts, and the details of its last heartbeat."""
        seen, space = sight.of_payloads(request), payloads.Space()
        heartbeat = None
        if seen.is_shown:
            rows = WorkItem.objects.using(settings.database_alias).filter(pk=row.pk).only("pk")
            columns = rows.annotate(**payloads.columns("heartbeat")).first()
            address = self.payload_address(row, "heartbeat")
            heartbeat = payloads.stored(columns, "heartbeat", self.birthplace(row, "heartbeat"), address)
        return Page(
            title=_("Delivery of outbox row %(id)s") % {"id": row.pk},
            subtitle=_("work item"),
            badges=[self.state(row)],
            parts=[
                Facts(
                    _("Delivery"),
                    [
                        Fact(_("Outbox row"), self.link(OutboxRow, row.pk, row.pk)),
                        Fact(_("Workflow"), self.workflow_link(row.workflow_id)),
                        Fact(_("Worker"), row.worker),
                        *(self._sent(row) if row.queue else []),
                        Fact(_("Held until"), wording.moment_and_distance(row.locked_until, clock.host_now())),
                        Fact(_("Cancel"), cancel_words(row)),
                        Fact(_("Attempts before this one"), wording.of(row.attempts, row.attempt_budget)),
                        Fact(_("Failed deliveries"), wording.of(row.delivery_failures, row.delivery_budget)),
                    ],
                ),
                Text(_("Last heartbeat"), payloads.payload(heartbeat, seen, space)),
            ],
            space=space,
        )
