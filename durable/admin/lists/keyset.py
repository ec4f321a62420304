"""Lists without counts: pages follow one another by key, and only the next and the previous one are known."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from durable.admin.lists.keys import read_key

BEFORE_VAR = "before"
AFTER_VAR = "after"


class KeysetChangeList(ChangeList):
    """A change list with `?before=` and `?after=` a key instead of page numbers. The order is that of the primary key,
    or of a moment and then the primary key; an index has to hold it.

    One statement reads a page and one row more, however long the table is and however far the page: no COUNT, no
    OFFSET. Sorting by other columns does not exist, since most of them have no index to sort by.
    """

    draws_itself = True
    """For the templates of this app label: they render the list and its action bar, not the theme."""

    forward_url: str | None
    backward_url: str | None

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.request = request
        super().__init__(request, *args, **kwargs)

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
        """Reads one page, and learns from one more row whether another follows."""
        before, after = request.GET.get(BEFORE_VAR), request.GET.get(AFTER_VAR)
        rows = self.queryset
        backwards = after is not None
        if backwards:
            rows = self._beyond(rows, after, forward="gt", backward="lt").reverse()
        elif before is not None:
            rows = self._beyond(rows, before, forward="lt", backward="gt")
        page = list(rows[: self.list_per_page + 1])
        more = len(page) > self.list_per_page
        page = page[: self.list_per_page]
        if backwards:
            page.reverse()
        has_later = bool(page) if backwards else more
        has_earlier = more if backwards else before is not None
        last = self._cursor(page[-1]) if page else None
        first = self._cursor(page[0]) if page else None
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

    def _order(self) -> tuple[str, str]:
        """The sign of the order ("-" is descending), and the moment that comes before the key in it, if any."""
        names = [str(name) for name in self.model_admin.get_ordering(self.request)]
        sign = "-" if names[0].startswith("-") else ""
        return sign, names[0].lstrip("-") if len(names) > 1 else ""

    def _cursor(self, row: Any) -> str:
        """A row's position in the order, as it is written in URLs."""
        _sign, moment = self._order()
        return f"{getattr(row, moment).astimezone(UTC).isoformat()}~{row.pk}" if moment else str(row.pk)

    def _beyond(self, rows: QuerySet[Any], cursor: str | None, *, forward: str, backward: str) -> QuerySet[Any]:
        """The rows after a cursor: `forward` is the comparison in a descending order, `backward` in an
        ascending one.
        """
        sign, moment = self._order()
        compare = forward if sign else backward
        if not moment:
            return rows.filter(**{f"pk__{compare}": self._key(cursor)})
        text, _tilde, key_text = str(cursor).partition("~")
        key = self._key(key_text)
        try:
            at = datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise IncorrectLookupParameters(f"{cursor!r} is not a position in this list") from error
        # The first condition is redundant, but an index can begin at it.
        return rows.filter(
            Q(**{f"{moment}__{compare}e": at}),
            Q(**{f"{moment}__{compare}": at}) | Q(**{moment: at, f"pk__{compare}": key}),
        )

    def _key(self, text: str | None) -> Any:
        """A cursor as a value of the primary key; anything else sends the browser back to the first page."""
        key = None if text is None else read_key(self.model, text)
        if key is None:
            raise IncorrectLookupParameters(f"{text!r} is not a key")
        return key
