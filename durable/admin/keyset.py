"""Lists that never count: pages follow one another by primary key, and only the next and the former one are known."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.http import HttpRequest

from durable.admin.keys import read_key

BEFORE_VAR = "before"
AFTER_VAR = "after"


class KeysetChangeList(ChangeList):
    """A change list in the order of the primary key, with `?before=` and `?after=` a key instead of page numbers.

    One statement reads a page and one row more, however long the table is and however far the page: no COUNT, no
    OFFSET. Sorting by other columns does not exist, since most of them have no index to sort by.
    """

    forward_url: str | None
    backward_url: str | None

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        """The filters without the two cursors, which the lists keep for themselves."""
        kept: dict[str, Any] = super().get_filters_params(params)
        for cursor in (BEFORE_VAR, AFTER_VAR):
            kept.pop(cursor, None)
        return kept

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        """Links of filters begin at the first page again; only the page's own links name a cursor."""
        without = {key: value for key, value in self.filter_params.items() if key not in (BEFORE_VAR, AFTER_VAR)}
        whole, self.filter_params = self.filter_params, without
        try:
            return super().get_query_string(new_params, remove)
        finally:
            self.filter_params = whole

    def get_ordering(self, request: HttpRequest, queryset: Any) -> list[Any]:
        """The room's one order, whatever `?o=` asks for."""
        return list(self.model_admin.get_ordering(request))

    def get_results(self, request: HttpRequest) -> None:
        """Read one page, and learn from one more row whether another follows."""
        descending = str(self.model_admin.get_ordering(request)[0]).startswith("-")
        before, after = request.GET.get(BEFORE_VAR), request.GET.get(AFTER_VAR)
        rows = self.queryset
        backwards = after is not None
        if backwards:
            rows = rows.filter(**{"pk__gt" if descending else "pk__lt": self._key(after)}).reverse()
        elif before is not None:
            rows = rows.filter(**{"pk__lt" if descending else "pk__gt": self._key(before)})
        page = list(rows[: self.list_per_page + 1])
        more = len(page) > self.list_per_page
        page = page[: self.list_per_page]
        if backwards:
            page.reverse()
        has_later = bool(page) if backwards else more
        has_earlier = more if backwards else before is not None
        last = str(page[-1].pk) if page else None
        first = str(page[0].pk) if page else None
        self.forward_url = self.get_query_string({BEFORE_VAR: last}) if has_later and last else None
        self.backward_url = None
        if has_earlier:
            self.backward_url = self.get_query_string({AFTER_VAR: first} if first else {})
        # The two cursors must not travel with a new search; the names below are what Django's templates read.
        self.params = {key: value for key, value in self.params.items() if key not in (BEFORE_VAR, AFTER_VAR)}
        self.first_url = self.get_query_string()
        self.result_list = page
        self.result_count = self.full_result_count = len(page)
        self.show_full_result_count = False
        self.show_admin_actions = False
        self.can_show_all = False
        self.multi_page = False
        self.paginator = Paginator(page, self.list_per_page)

    def _key(self, text: str | None) -> Any:
        """A cursor as a value of the primary key; anything else sends the browser back to the first page."""
        key = None if text is None else read_key(self.model, text)
        if key is None:
            raise IncorrectLookupParameters(f"{text!r} is no key")
        return key
