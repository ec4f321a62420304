"""The room of the workflows: the list, its filters and its search. The page of one is in `workflow_page`."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from durable import clock
from durable.admin.lists import downloads
from durable.admin.lists.keys import read_key, spellings
from durable.admin.lists.room import ChoiceFilter, Page, Room, on_the_list, outside_transactions
from durable.admin.lists.scoping import scope_of
from durable.admin.words import payloads, sight, wording
from durable.admin.workflows.family import PARENT_VAR
from durable.admin.workflows.history import birthplace_of_event, one_event, single_event
from durable.admin.workflows.page import WorkflowPage, dead_letters_of
from durable.admin.workflows.verbs import VERBS, ask
from durable.kernel.definitions.registry import registry
from durable.kernel.payloads.birthplace import Birthplace, arguments, result
from durable.models import Workflow
from durable.outcomes import WorkflowStatus
from durable.scope import Scope

LIST_DEAD_LETTERS = "list_dead_letters"
_SAMPLE = 1_000
_TYPES_OFFERED = 60


def known_types(scope: Scope) -> list[str]:
    """Names of types to choose from: those of the newest workflows that the user may see, and, if the user may see all,
    those installed here.

    One bounded statement. A list of all distinct types would read the whole table or index.
    """
    newest = scope.workflows().order_by("-pk").values("type")[:_SAMPLE]
    sampled = {row["type"] for row in newest}
    installed = {definition.name for definition in registry.workflows()} if scope.is_whole else set()
    return sorted(installed | sampled)


class StatusFilter(ChoiceFilter):
    """Workflows in one status."""

    title = gettext_lazy("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(status.value, wording.workflow_status_word(status)) for status in WorkflowStatus]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(status=self.value()) if self.value() else queryset


class BlockedFilter(ChoiceFilter):
    """Workflows whose code does not match their history, or cannot continue for another reason."""

    title = gettext_lazy("mark")
    parameter_name = "blocked"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", _("Blocked"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.blocked() if self.value() else queryset  # type: ignore[attr-defined]


class TypeFilter(admin.SimpleListFilter):
    """Workflows of one type. A type in the URL is accepted even if it is not among the choices."""

    title = gettext_lazy("type")
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        types = known_types(scope_of(request))[:_TYPES_OFFERED]
        chosen = request.GET.get(self.parameter_name)
        if chosen and chosen not in types:
            types.append(chosen)
        return [(name, wording.name(name, 60)) for name in types]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if not chosen:
            return queryset
        if "\x00" in chosen:
            raise IncorrectLookupParameters("a type cannot contain NUL")
        return queryset.filter(type=chosen)


class ErrorGroupFilter(admin.SimpleListFilter):
    """Workflows that failed, or are blocked, by errors of one group. Pages lead to it; the list offers none."""

    title = gettext_lazy("group of errors")
    parameter_name = wording.GROUP_VAR

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = request.GET.get(wording.GROUP_VAR)
        return [(chosen, wording.shortened(chosen, 60))] if chosen else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if not chosen:
            return queryset
        try:
            return queryset.of_error_group(wording.read_group(chosen))  # type: ignore[attr-defined, no-any-return]
        except ValueError as error:
            raise IncorrectLookupParameters(str(error)) from error


class ParentFilter(admin.SimpleListFilter):
    """Workflows that no other has started, or the children of one: to those pages lead."""

    title = gettext_lazy("parent")
    parameter_name = PARENT_VAR
    _NONE = "none"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        offered = [(self._NONE, _("Top level only"))]
        chosen = request.GET.get(PARENT_VAR)
        if chosen and chosen != self._NONE:
            offered.append((chosen, _("Children of %(id)s") % {"id": wording.shortened(chosen, 60)}))
        return offered

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if not chosen:
            return queryset
        if chosen == self._NONE:
            return queryset.filter(parent__isnull=True)
        try:
            return queryset.filter(parent_id=uuid.UUID(chosen))
        except ValueError as error:
            raise IncorrectLookupParameters(str(error)) from error


class WorkflowAdmin(Room):
    """Workflows: what runs, what ended and how, and what is blocked."""

    heavy = ("input", "result", "failure", "timers")
    payload_columns = ("input", "result")
    page_template = "durable/admin/workflow.html"
    list_display = ("type_shown", "status_shown", "key_shown", "created", "queue_shown")
    list_filter = (StatusFilter, BlockedFilter, TypeFilter, ParentFilter, ErrorGroupFilter)
    search_fields = ("key",)
    search_help_text = gettext_lazy("A complete id, a complete key, or the beginning of a type.")
    empty_text = gettext_lazy(
        "No workflows yet. Start one in code with “the_workflow.start(…)”, or with “manage.py durable start NAME”."
    )

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """By id, by key, or by the beginning of a type: each is answered by an index."""
        if not search_term.strip():
            return queryset, False
        keys = spellings(search_term)
        try:
            return queryset.filter(Q(pk=uuid.UUID(search_term.strip())) | Q(key__in=keys)), False
        except ValueError:
            pass
        types = [name for name in known_types(scope_of(request)) if name.startswith(search_term.strip())]
        return queryset.filter(Q(key__in=keys) | Q(type__in=[*types, *keys])), False

    @admin.display(description=gettext_lazy("type"))
    def type_shown(self, row: Any) -> object:
        # The whole cell becomes the link to the page.
        return format_html(
            '{}<span class="durable-below">{}</span>', wording.name(row.type, 80), wording.short_id(row.pk)
        )

    @admin.display(description=gettext_lazy("status"))
    def status_shown(self, row: Any) -> object:
        return wording.workflow_status(row.status, blocked_reason=row.blocked_reason)

    @admin.display(description=gettext_lazy("key"))
    def key_shown(self, row: Any) -> object:
        return wording.plain(wording.name(row.key, 60) if row.key else None)

    @admin.display(description=gettext_lazy("created"))
    def created(self, row: Any) -> object:
        if row.closed_at is None:
            below = _("open for %(span)s") % {"span": wording.span(clock.host_now() - row.created_at, units=1)}
        else:
            below = _("ended after %(span)s") % {"span": wording.span(row.closed_at - row.created_at, units=1)}
        return wording.moment_in_list(row.created_at, below)

    @admin.display(description=gettext_lazy("queue"))
    def queue_shown(self, row: Any) -> str:
        return wording.name(row.queue, 40)

    def find(self, request: HttpRequest, key: str) -> Any:
        """The workflow with what its page needs; payloads only for those who may see them."""
        try:
            workflow_id = uuid.UUID(key)
        except ValueError:
            return None
        return WorkflowPage.find(self.get_queryset(request), workflow_id, sight.of_payloads(request))

    def looked_at(self, request: HttpRequest, row: Any) -> payloads.Looked:
        return payloads.Looked(row.pk, "workflow")

    def page(self, request: HttpRequest, row: Any) -> Page:
        return WorkflowPage(self, request, row, sight.of_payloads(request), payloads.Space()).page(request)

    def birthplace(self, row: Any, column: str) -> Birthplace:
        """Of its arguments, or its result."""
        if column == "input":
            return arguments(row.pk, row.type)
        return result(row.pk, 1 if row.single else None)

    def more_context(self, request: HttpRequest, row: Any, page: Page) -> dict[str, Any]:
        return WorkflowPage(self, request, row, sight.of_payloads(request), page.space).history(request)

    def get_urls(self) -> list[URLPattern]:
        """Besides the usual URLs, one for each event, and the confirmation page of each verb.

        The verbs are transactions of the engine's own, so none of these views may begin one before it.
        """
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        wrap = self.admin_site.admin_view
        verbs = [
            path(f"<str:object_id>/{verb}/", wrap(self.verb_view), {"verb": verb}, name=f"{name}_{verb}")
            for verb in VERBS
        ]
        event = path("<str:object_id>/event/<int:seq>/", wrap(self.event_view), name=f"{name}_event")
        payload = path(
            "<str:object_id>/event/<int:seq>/payload/", wrap(self.event_payload_view), name=f"{name}_event_payload"
        )
        return outside_transactions([event, payload, *verbs, *super().get_urls()])

    def verb_view(self, request: HttpRequest, object_id: str, verb: str) -> HttpResponse:
        """One of the verbs on one workflow: GET shows the confirmation page, POST does it."""
        if request.method not in ("GET", "HEAD", "POST"):
            raise PermissionDenied
        if not self.has_view_permission(request) or not VERBS[verb].allowed(request):
            raise PermissionDenied
        workflow = self.get_object(request, unquote(object_id))
        return self.not_there(request, object_id) if workflow is None else ask(request, self, verb, workflow)

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        """This list changes nothing; it only leads to the dead letters of the selected workflows."""
        if not on_the_list(action_location) or not request.user.has_perm("durable.view_deadletter"):
            return {}
        return {LIST_DEAD_LETTERS: (self.act, LIST_DEAD_LETTERS, gettext_lazy("List dead letters"))}

    def act(self, request: HttpRequest) -> HttpResponse:
        """A POST to the list: redirects to the dead letters of the selected workflows, and changes nothing."""
        actions = self.get_actions(request)
        if not self.has_view_permission(request) or not actions:
            raise PermissionDenied
        if "action" not in request.POST:
            raise PermissionDenied
        name = request.POST["action"]
        if name and name not in actions:
            raise PermissionDenied
        ticked = request.POST.getlist(ACTION_CHECKBOX_NAME)
        keys = [key for text in ticked if (key := read_key(Workflow, text)) is not None]
        if not name or not keys:
            messages.warning(request, _("Choose an action and select workflows first."))
            return HttpResponseRedirect(request.get_full_path())
        return HttpResponseRedirect(dead_letters_of(self, keys))

    def event_view(self, request: HttpRequest, object_id: str, seq: int) -> HttpResponse:
        """The page of one event with its data. If there is none, redirects with a message."""
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied
        workflow = self.get_object(request, unquote(object_id))
        if workflow is not None:
            payloads.record_look(request, payloads.Looked(workflow.pk, f"event {seq}"))
        seen, space = sight.of_payloads(request), payloads.Space()
        entry = None
        if workflow is not None:
            address = self.address(Workflow, "event_payload", workflow.pk, seq)
            entry = single_event(workflow, seq, seen, sight.of_failures(request), space, address)
        if entry is None:
            return self.not_there(request, object_id)
        title = _("Event %(seq)s") % {"seq": wording.number(seq)}
        context = {"entry": entry, "workflow": workflow}
        return self.answer(request, "durable/admin/event.html", title, context)

    def event_payload_view(self, request: HttpRequest, object_id: str, seq: int) -> HttpResponseBase:
        """The payload of one event as a file."""
        downloads.only_for_viewers(request)
        if not self.has_view_permission(request):
            raise PermissionDenied
        workflow = self.get_object(request, unquote(object_id))
        if workflow is None:
            return self.not_there(request, object_id)
        downloads.record(request, payloads.Looked(workflow.pk, f"event {seq}, downloaded"))
        filename = f"event-{workflow.pk}-{seq}.json"
        born = birthplace_of_event(workflow, seq)
        download = downloads.answer(one_event(workflow.pk, seq), downloads.payload_within("data"), filename, born)
        return download or self.not_there(request, object_id)
