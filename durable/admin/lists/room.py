"""The base of every room: a read-only list, and a read-only page per row."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db import connections, transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy

from durable.admin.lists import downloads
from durable.admin.lists.keys import read_key
from durable.admin.lists.keyset import KeysetChangeList
from durable.admin.lists.parts import Button, Part
from durable.admin.lists.scoping import scope_of
from durable.admin.words import payloads, wording
from durable.conf import settings
from durable.kernel.payloads.birthplace import NOWHERE, Birthplace
from durable.models import Workflow

if TYPE_CHECKING:
    _Base = admin.ModelAdmin[Any]
else:
    _Base = admin.ModelAdmin

NOTHING_SHOWN = gettext_lazy(
    "Nothing is shown: the function that limits what users see (ADMIN_SCOPE) failed. The log says why."
)
ROWS_SHOWN = 50
"""Rows of a table within a page; more are named by a link to their own list."""


def on_the_list(action_location: Any) -> bool:
    """Whether Django requests the actions of a list. Since 6.1 it also requests those of a row's page."""
    return getattr(action_location, "name", "CHANGE_LIST") == "CHANGE_LIST"


@dataclass(frozen=True, slots=True)
class Page:
    """What a row's page shows: a heading with a quiet line below it, what can be done, leads, and the parts. `space` is
    what they have left of the page's room.
    """

    title: str
    subtitle: str
    badges: Sequence[object]
    parts: Sequence[Part]
    buttons: Sequence[Button] = ()
    leads: Sequence[object] = ()
    space: payloads.Space = field(default_factory=payloads.Space)


class Room(_Base):
    """Read-only rows. Nobody can add, change or delete here, superusers included: other methods get 403.

    `heavy` names the columns that a list never selects: payloads, results, tracebacks, and stored JSON, which may not
    even decode. `payload_columns` are those that hold a payload: it can be downloaded.
    """

    heavy: ClassVar[tuple[str, ...]] = ()
    payload_columns: ClassVar[tuple[str, ...]] = ()
    page_template = "durable/admin/row.html"
    change_list_template = "admin/durable/change_list.html"
    empty_text: ClassVar[Any] = ""

    actions = None
    ordering: ClassVar[Any] = ("-pk",)
    sortable_by = ()
    list_per_page = 100
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    class Media:
        css = {"all": ["durable/admin.css"]}

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """The rows of the engine's database that this user may see, without their heavy columns."""
        rows = super().get_queryset(request).using(settings.database_alias)
        return scope_of(request).narrow(rows).defer(*self.heavy)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Only the filters of the list: others could read a hidden payload letter by letter, or scan the
        whole table.
        """
        return lookup in {shown.parameter_name for shown in self.list_filter}  # type: ignore[union-attr]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[KeysetChangeList]:
        return KeysetChangeList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list. The search and the filters are in the address; a POST asks for an action, where there are any."""
        if request.method == "POST":
            return self.act(request)
        _only_reading(request)
        title = capfirst(self.opts.verbose_name_plural)
        empty = NOTHING_SHOWN if scope_of(request).has_failed() else self.empty_text
        return super().changelist_view(request, {"empty_text": empty, "title": title, **(extra_context or {})})

    def act(self, request: HttpRequest) -> HttpResponse:
        """A POST to the list. Most rooms have no actions."""
        raise PermissionDenied

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The page of one row. For an invalid id, or one without a row, redirects with a message."""
        _only_reading(request)
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.find(request, unquote(object_id))
        if row is None:
            return self.not_there(request, object_id)
        payloads.record_look(request, self.looked_at(request, row))
        page = self.page(request, row)
        context = {"page": page, **self.more_context(request, row, page), **(extra_context or {})}
        return self.answer(request, self.page_template, page.title, context)

    def not_there(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Back to the index, with a message that there is no such row."""
        return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined, no-any-return]

    def answer(self, request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> HttpResponse:
        """A page of this room in the admin's frame."""
        request.current_app = self.admin_site.name
        frame = self.admin_site.each_context(request)
        return TemplateResponse(
            request,
            template,
            {
                **frame,
                "opts": self.opts,
                "media": self.media,
                "title": wording.shortened(title, 1_000),
                "list_url": self.address(self.model, "changelist"),
                **context,
            },
        )

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """The row of a key in a URL, or `None`, whatever was typed."""
        key = read_key(self.model, object_id)
        return None if key is None else self.get_queryset(request).filter(pk=key).first()

    def find(self, request: HttpRequest, key: str) -> Any:
        """The row as its page needs it, or `None`."""
        return self.get_object(request, key)

    def looked_at(self, request: HttpRequest, row: Any) -> payloads.Looked | None:
        """Whose payloads the row's page shows, or `None` if it shows none."""
        return None

    def page(self, request: HttpRequest, row: Any) -> Page:
        """The parts of a row's page."""
        raise NotImplementedError

    def more_context(self, request: HttpRequest, row: Any, page: Page) -> dict[str, Any]:
        """What a room's own template needs beside the parts."""
        return {}

    def get_urls(self) -> list[URLPattern]:
        """Besides the usual URLs, one for each payload as a file."""
        if not self.payload_columns:
            return super().get_urls()
        view = self.admin_site.admin_view(self.payload_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_payload"
        return [path("<path:object_id>/payload/<slug:column>/", view, name=name), *super().get_urls()]

    def payload_view(self, request: HttpRequest, object_id: str, column: str) -> HttpResponseBase:
        """A payload of a row as a file."""
        downloads.only_for_viewers(request)
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id)) if column in self.payload_columns else None
        if row is None:
            return self.not_there(request, object_id)
        looked = self.looked_at(request, row)
        downloads.record(request, looked and replace(looked, what=f"{looked.what}, {column} downloaded"))
        return self.file(row, column) or self.not_there(request, object_id)

    def file(self, row: Any, column: str) -> HttpResponseBase | None:
        """A payload of a row as a file, or `None` if it has none."""
        rows = self.model._default_manager.using(settings.database_alias).filter(pk=row.pk)
        filename = f"{self.opts.model_name}-{row.pk}-{column}.json"
        return downloads.answer(rows, downloads.payload_column(column), filename, self.birthplace(row, column))

    def birthplace(self, row: Any, column: str) -> Birthplace:
        """Where a payload of a row was made."""
        return NOWHERE

    def payload_address(self, row: Any, column: str) -> str:
        """Where a payload of a row can be downloaded."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_payload"
        return reverse(name, args=[quote(str(row.pk)), column], current_app=self.admin_site.name)

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """The room's own search, by what has an index; the whole term is one term."""
        return (self.search(queryset, search_term) if search_term.strip() else queryset), False

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """The rows that a term finds. A room without a search box never gets here."""
        return queryset

    def link(self, model: type[Model], key: object, text: object) -> SafeString:
        """A link to the page of a row, in this admin site. The row may be gone; its page then says so."""
        return format_html('<a href="{}">{}</a>', self.address(model, "change", key), wording.isolated(text))

    def workflow_link(self, workflow_id: uuid.UUID) -> SafeString:
        """A link to a workflow, with its id in full."""
        return format_html('<span class="durable-id">{}</span>', self.link(Workflow, workflow_id, workflow_id))

    def short_workflow_link(self, workflow_id: uuid.UUID) -> SafeString:
        """A link to a workflow, short enough for a column."""
        return self.link(Workflow, workflow_id, wording.short_id(workflow_id))

    def kind_of_error(self, model: type[Model], row: Any, text: str) -> object:
        """The class of a row's error, which every user who sees the row may see, and a link to all rows of the list
        with the same kind of error.
        """
        shown = wording.plain(wording.name(row.error_class, 200))
        if not row.error_group:
            return shown
        address = f"{self.address(model, 'changelist')}?{urlencode({wording.GROUP_VAR: row.error_group})}"
        return format_html('{}<br><a href="{}">{}</a>', shown, address, text)

    def address(self, model: type[Model], view: str, *keys: object) -> str:
        """The address of a view of another room of this site."""
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{view}"
        return reverse(name, args=[quote(str(key)) for key in keys], current_app=self.admin_site.name)


def _only_reading(request: HttpRequest) -> None:
    if request.method not in ("GET", "HEAD"):
        raise PermissionDenied


def outside_transactions(urls: list[URLPattern]) -> list[URLPattern]:
    """The same addresses, with views that Django wraps in no transaction, on whatever alias, under ATOMIC_REQUESTS."""
    for url in urls:
        for alias in connections:
            transaction.non_atomic_requests(using=alias)(url.callback)
    return urls


class ChoiceFilter(admin.SimpleListFilter):
    """A filter by one of its own values; with another value in the URL, redirects to the whole list."""

    def value(self) -> str | None:
        chosen = super().value()
        if chosen is not None and chosen not in {key for key, _label in self.lookup_choices}:
            raise IncorrectLookupParameters(f"{self.parameter_name} cannot be {chosen!r}")
        return chosen


class WorkflowFilter(admin.SimpleListFilter):
    """Rows of one workflow. Only links set it, so it is shown only when it is set."""

    title = gettext_lazy("workflow")
    parameter_name = "workflow"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = request.GET.get(self.parameter_name)
        return [(chosen, chosen)] if chosen else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        try:
            return queryset.filter(workflow_id=uuid.UUID(self.value()))
        except ValueError as error:
            raise IncorrectLookupParameters(error) from error
