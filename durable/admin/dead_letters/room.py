"""The room of the dead letters, with its three actions."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import unquote
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from durable import clock
from durable.admin.dead_letters.actions import ACTIONS
from durable.admin.dead_letters.bulk import bulk_list, bulk_page
from durable.admin.dead_letters.confirming import ask, selected_keys
from durable.admin.dead_letters.filters import FILTERS, searched
from durable.admin.dead_letters.page import letter_page
from durable.admin.dead_letters.telling import in_brackets
from durable.admin.lists.room import Page, Room, on_the_list, outside_transactions
from durable.admin.lists.scoping import scope_of
from durable.admin.words import payloads, refusals, wording
from durable.kernel.payloads.birthplace import Birthplace, arguments
from durable.models import DeadLetter, FailedAttempt, Workflow


class DeadLetterAdmin(Room):
    """Dead letters: activities that will not be retried until someone acts."""

    heavy = ("input", "options", "last_heartbeat")
    payload_columns = ("input",)
    ordering = ("-dead_lettered_at", "-pk")
    list_display = ("activity_shown", "why", "tries", "failed", "workflow_shown")
    list_filter: ClassVar[Any] = FILTERS
    search_fields = ("workflow",)
    search_help_text = gettext_lazy("Id or key of a workflow, or a dispatch key.")
    empty_text = gettext_lazy("There are no dead letters. Activities that need a decision appear here.")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """All rows, for pages; the list narrows it to dead letters."""
        rows = super().get_queryset(request)
        workflow = Workflow.objects.filter(pk=OuterRef("workflow_id"))
        first = FailedAttempt.objects.filter(outbox_row=OuterRef("pk")).order_by("number", "pk").values("ended_at")
        annotated: QuerySet[Any] = rows.annotate(
            workflow_type=Subquery(workflow.values("type")[:1]),
            workflow_key=Subquery(workflow.values("key")[:1]),
            workflow_status=Subquery(workflow.values("status")[:1]),
            first_failed_at=Subquery(first[:1]),
        )
        return annotated

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """The list's rows: dead letters, of the workflow that was searched for."""
        return searched(queryset.dead_letters(), search_term, scope_of(request)), False

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        """The actions that this user may take, on the list; the page of one row has buttons of its own."""
        if not on_the_list(action_location):
            return {}
        return {name: (self._act, name, action.label) for name, action in ACTIONS.items() if action.allowed(request)}

    def get_urls(self) -> list[URLPattern]:
        """Besides the usual URLs: the confirmation page of each action on one row, and the background jobs.

        Each change is a transaction of the engine's own, so none of these views may begin one before it.
        """
        wrap = self.admin_site.admin_view
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        actions = [
            path(f"<str:object_id>/{action}/", wrap(self.one_view), {"action": action}, name=f"{name}_{action}")
            for action in ACTIONS
        ]
        urls = [
            path("bulk/", wrap(self.bulk_list_view), name=f"{name}_bulk_list"),
            path("bulk/<uuid:workflow_id>/", wrap(self.bulk_view), name=f"{name}_bulk"),
            *actions,
            *super().get_urls(),
        ]
        return outside_transactions(urls)

    def act(self, request: HttpRequest) -> HttpResponse:
        """A POST to the list: one of the actions on the selected rows, or on all that match."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if "action" not in request.POST:
            raise PermissionDenied
        name = request.POST["action"]
        whole = request.POST.get("select_across", "0") not in ("", "0")
        back = request.get_full_path()
        if not name and self.get_actions(request):
            messages.warning(request, _("Choose an action first. Nothing was changed."))
            return HttpResponseRedirect(back)
        keys = None if whole else selected_keys(request)
        if keys == [] and name in self.get_actions(request):
            messages.warning(request, _("Select dead letters first. Nothing was changed."))
            return HttpResponseRedirect(back)
        try:
            return ask(request, self, name, keys=keys, back=back)
        except IncorrectLookupParameters as error:
            raise BadRequest(str(error)) from error

    def one_view(self, request: HttpRequest, object_id: str, action: str) -> HttpResponse:
        """One of the actions on one row: GET asks, POST does it."""
        if request.method not in ("GET", "HEAD", "POST"):
            raise PermissionDenied
        key = unquote(object_id)
        if not self.has_view_permission(request) or not ACTIONS[action].allowed(request):
            raise PermissionDenied
        row = self.get_object(request, key)
        if row is None:
            return self.not_there(request, object_id)
        return ask(request, self, action, keys=[row.pk], back=self.address(DeadLetter, "change", row.pk))

    def bulk_list_view(self, request: HttpRequest) -> HttpResponse:
        """What was handed to the workers lately."""
        self._only_viewers(request)
        return self.answer(
            request, "durable/admin/bulk_list.html", _("Background jobs"), bulk_list(self, scope_of(request))
        )

    def bulk_view(self, request: HttpRequest, workflow_id: uuid.UUID) -> HttpResponse:
        """The page of a background job."""
        self._only_viewers(request)
        context = bulk_page(self, workflow_id, scope_of(request))
        if context is None:
            return self.not_there(request, str(workflow_id))
        return self.answer(request, "durable/admin/bulk.html", str(context["title"]), context)

    def progress_address(self, workflow_id: uuid.UUID) -> str:
        """The URL of a background job's page."""
        return reverse("admin:durable_deadletter_bulk", args=[workflow_id], current_app=self.admin_site.name)

    def bulk_list_address(self) -> str:
        """The URL of the list of background jobs."""
        return reverse("admin:durable_deadletter_bulk_list", current_app=self.admin_site.name)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list, with the action bar for users who may take an action."""
        more = {"across": True, "bulk_list_url": self.bulk_list_address()}
        return super().changelist_view(request, {**more, **(extra_context or {})})

    def birthplace(self, row: Any, column: str) -> Birthplace:
        """Of its arguments."""
        return arguments(row.workflow_id, row.activity)

    def looked_at(self, request: HttpRequest, row: Any) -> payloads.Looked:
        return payloads.Looked(row.workflow_id, "dead letter", row.pk, row.ordinal)

    def page(self, request: HttpRequest, row: Any) -> Page:
        return letter_page(self, request, row)

    def named(self, row: Any, about: str = "") -> object:
        """A row as a link that tells what it is, with its business key and its error beside it."""
        link = self.link(DeadLetter, row.pk, f"{wording.name(row.activity, 60)} #{row.pk}")
        return format_html("{}{}", link, in_brackets(about))

    def _only_viewers(self, request: HttpRequest) -> None:
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied

    def _act(self, *args: Any) -> None:
        """Django asks for a function for each action; a POST to the list is answered by `act`."""

    @admin.display(description=gettext_lazy("activity"))
    def activity_shown(self, row: Any) -> object:
        return format_html(
            '{}<span class="durable-below">#{} · {}</span>',
            wording.name(row.activity, 80),
            row.pk,
            wording.name(row.queue, 40),
        )

    @admin.display(description=gettext_lazy("why"))
    def why(self, row: Any) -> object:
        return format_html(
            '{}<span class="durable-line">{}</span>', wording.cause(row.cause), refusals.judged_badge(row)
        )

    @admin.display(description=gettext_lazy("attempts"))
    def tries(self, row: Any) -> object:
        lines = [
            ngettext("%(count)s delivery", "%(count)s deliveries", row.deliveries)
            % {"count": wording.number(row.deliveries)}
        ]
        if row.redrive_count:
            lines.append(_("redriven %(count)s×") % {"count": wording.number(row.redrive_count)})
        made = _("%(made)s of %(budget)s") % {
            "made": wording.number(row.attempts),
            "budget": wording.budget(row.attempt_budget),
        }
        below = format_html_join("", '<span class="durable-quiet durable-below">{}</span>', ((line,) for line in lines))
        return format_html("{}{}", made, below)

    @admin.display(description=gettext_lazy("last failure"))
    def failed(self, row: Any) -> object:
        below = wording.relative(row.dead_lettered_at, clock.host_now(), units=1)
        last = wording.moment_in_list(row.dead_lettered_at, below)
        if row.first_failed_at is None:
            return last
        first = _("first %(moment)s") % {"moment": wording.short_moment(row.first_failed_at)}
        return format_html('{}<span class="durable-quiet durable-below">{}</span>', last, first)

    @admin.display(description=gettext_lazy("workflow"))
    def workflow_shown(self, row: Any) -> object:
        name = wording.name(row.workflow_key or row.workflow_type or _("no longer there"), 40)
        return format_html(
            '{}<span class="durable-below">{}</span>',
            self.link(Workflow, row.workflow_id, name),
            wording.short_id(row.workflow_id),
        )
