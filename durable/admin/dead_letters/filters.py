"""The filters of the list of dead letters. The list and "all that match" read a URL in the same way."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG, IGNORED_PARAMS, PAGE_VAR, SEARCH_VAR
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from durable import clock
from durable.admin.lists.keys import spellings
from durable.admin.lists.keyset import AFTER_VAR, BEFORE_VAR
from durable.admin.lists.scoping import scope_of
from durable.admin.words import wording
from durable.admin.workflows.room import known_types
from durable.kernel.definitions.registry import registry
from durable.outcomes import OF_DEAD_LETTERS, Cause, DeadLetterFilter
from durable.scope import Scope

_SAMPLE = 1_000
_OFFERED = 60
_NOBODY = uuid.UUID(int=0)
_DISPATCH_KEY = re.compile(r"([0-9a-fA-F-]{32,36}):\d{1,9}:\d{1,9}", re.ASCII)

Narrowed = Mapping[str, Any]
"""Fields of a `DeadLetterFilter`."""

_AGES: dict[str, tuple[Any, Callable[[datetime], tuple[datetime | None, datetime | None]]]] = {
    "hour": (gettext_lazy("Within the last hour"), lambda at: (at - timedelta(hours=1), None)),
    "day": (gettext_lazy("Within the last day"), lambda at: (at - timedelta(days=1), None)),
    "week": (gettext_lazy("Within the last week"), lambda at: (at - timedelta(days=7), None)),
    "older": (gettext_lazy("More than a week ago"), lambda at: (None, at - timedelta(days=7))),
}
_ATTEMPTS: dict[str, tuple[Any, int, int | None]] = {
    "none": (pgettext_lazy("no attempts", "None"), 0, 0),
    "one": (gettext_lazy("1"), 1, 1),
    "few": (gettext_lazy("2 to 5"), 2, 5),
    "many": (gettext_lazy("6 or more"), 6, None),
}
_DELIVERIES: dict[str, tuple[Any, int, int | None]] = {
    "one": (gettext_lazy("1 or none"), 0, 1),
    "few": (gettext_lazy("2 to 8"), 2, 8),
    "many": (gettext_lazy("9 or more"), 9, None),
}


def _workflow(value: str, at: datetime) -> Narrowed:
    ids = tuple(uuid.UUID(part) for part in value.split(",")[:100])
    return {"workflow_id": ids[0]} if len(ids) == 1 else {"workflow_ids": ids}


def _text(name: str) -> Callable[[str, datetime], Narrowed]:
    def narrow(value: str, at: datetime) -> Narrowed:
        if "\x00" in value:
            raise ValueError(f"{name} cannot contain NUL")
        return {name: value}

    return narrow


def _one_of(name: str, *known: str) -> Callable[[str, datetime], Narrowed]:
    def narrow(value: str, at: datetime) -> Narrowed:
        if value not in known:
            raise ValueError(f"{name} cannot be {value!r}")
        return {name: value}

    return narrow


def _error_group(value: str, at: datetime) -> Narrowed:
    return {"error_group": wording.read_group(value)}


def _range(name: str, ranges: Mapping[str, tuple[Any, int, int | None]]) -> Callable[[str, datetime], Narrowed]:
    def narrow(value: str, at: datetime) -> Narrowed:
        _label, low, high = ranges[value]
        return {f"{name}_from": low, f"{name}_to": high}

    return narrow


def _age(after: str, before: str) -> Callable[[str, datetime], Narrowed]:
    def narrow(value: str, at: datetime) -> Narrowed:
        _label, bounds = _AGES[value]
        low, high = bounds(at)
        return {name: moment for name, moment in ((after, low), (before, high)) if moment is not None}

    return narrow


def _searched(term: str, scope: Scope) -> Narrowed:
    """A term as one workflow: by its id, by a dispatch key, or by its business key (the newest that has it)."""
    if "\x00" in term:
        raise ValueError("a search cannot contain NUL")
    keys, term = spellings(term), term.strip()
    if not term:
        return {}
    dispatch = _DISPATCH_KEY.fullmatch(term)
    try:
        return {"workflow_ids": (uuid.UUID(dispatch[1] if dispatch else term),)}
    except ValueError:
        rows = scope.workflows().filter(key__in=keys).order_by("-pk")
        return {"workflow_ids": (rows.values_list("pk", flat=True).first() or _NOBODY,)}


_NARROWERS: dict[str, Callable[[str, datetime], Narrowed]] = {
    "workflow": _workflow,
    "type": _text("workflow_type"),
    "activity": _text("activity"),
    "cause": lambda value, at: {"cause": Cause(value)},
    "error_group": _error_group,
    "queue": _text("queue"),
    "judged": _one_of("judged", "judged", "held"),
    "redriven": _one_of("redriven", "never", "again"),
    "attempts": _range("attempts", _ATTEMPTS),
    "deliveries": _range("deliveries", _DELIVERIES),
    "failed": _age("failed_after", "failed_before"),
    "first": _age("first_failed_after", "first_failed_before"),
}


_NO_FILTERS = frozenset({*IGNORED_PARAMS, PAGE_VAR, ERROR_FLAG, BEFORE_VAR, AFTER_VAR})
"""Parameters of the list's URL that are not filters."""


def filter_of(address: Mapping[str, Any], *, at: datetime, scope: Scope) -> DeadLetterFilter:
    """The filter in a list's URL, with relative times counted from `at`, and without rows that failed after it.

    Raises `IncorrectLookupParameters` for invalid values and unknown filters: a URL that the list refuses must not mean
    "all" to an action.
    """
    names = [*_NARROWERS, SEARCH_VAR]
    unknown = address.keys() - set(names) - _NO_FILTERS
    if unknown:
        raise IncorrectLookupParameters(f"there is no filter called {min(unknown)!r}")
    fields: dict[str, Any] = {"failed_before": at}
    for name in names:
        value = address.get(name)
        if value:
            narrowed = _narrowed(name, value, at, scope)
            if name == SEARCH_VAR and narrowed and fields.keys() & {"workflow_id", "workflow_ids"}:
                chosen = fields.pop("workflow_ids", None) or (fields.pop("workflow_id"),)
                both = tuple(key for key in narrowed["workflow_ids"] if key in chosen)
                narrowed = {"workflow_ids": both or (_NOBODY,)}
            fields |= narrowed
    return DeadLetterFilter(**fields)


def _narrowed(name: str, value: str, at: datetime, scope: Scope) -> Narrowed:
    try:
        return _searched(value, scope) if name == SEARCH_VAR else _NARROWERS[name](value, at)
    except (ValueError, KeyError) as error:
        raise IncorrectLookupParameters(f"{name} cannot be {value!r}") from error


def searched(queryset: QuerySet[Any], term: str, scope: Scope) -> QuerySet[Any]:
    """The rows of a list that a search term finds."""
    narrowed = _narrowed(SEARCH_VAR, term, clock.host_now(), scope)
    return queryset.matching(DeadLetterFilter(**narrowed))  # type: ignore[attr-defined, no-any-return]


def in_words(wanted: DeadLetterFilter) -> list[str]:
    """The conditions of a filter in words, one phrase each."""
    words: list[str] = []
    if wanted.workflow_id is not None:
        words.append(_("of workflow %(id)s") % {"id": wanted.workflow_id})
    if wanted.workflow_ids:
        shown = ", ".join(f"…{str(key)[-8:]}" for key in wanted.workflow_ids[:5])
        words.append(_("of the workflows %(ids)s") % {"ids": shown + (" …" if len(wanted.workflow_ids) > 5 else "")})
    for value, text in (
        (wanted.workflow_type, _("of workflows of type “%(value)s”")),
        (wanted.activity, _("of the activity “%(value)s”")),
        (None if wanted.cause is None else wording.cause(wanted.cause), _("cause: %(value)s")),
        (wanted.error_group, _("with errors of the group %(value)s")),
        (wanted.queue, _("in the queue “%(value)s”")),
        (_span(wanted.attempts_from, wanted.attempts_to), _("attempts made: %(value)s")),
        (_span(wanted.deliveries_from, wanted.deliveries_to), _("deliveries: %(value)s")),
        (_at(wanted.failed_after), _("dead letter since %(value)s or later")),
        (_at(wanted.failed_before), _("dead letter before %(value)s")),
        (_at(wanted.first_failed_after), _("first failed at %(value)s or later")),
        (_at(wanted.first_failed_before), _("first failed before %(value)s")),
    ):
        if value:
            words.append(text % {"value": wording.shortened(str(value), 1_000)})
    if wanted.judged is not None:
        words.append(_("workflow moved on") if wanted.judged == "judged" else _("workflow waiting"))
    if wanted.redriven is not None:
        words.append(_("redriven before") if wanted.redriven == "again" else _("never redriven"))
    return words


def _span(low: int | None, high: int | None) -> str:
    if low is None and high is None:
        return ""
    if low == high:
        return wording.number(low or 0)
    shown = wording.number(low or 0)
    return _("%(low)s or more") % {"low": shown} if high is None else f"{shown}-{wording.number(high)}"


def _at(moment: datetime | None) -> str:
    return wording.moment_text(moment) if moment is not None else ""


class LetterFilter(admin.SimpleListFilter):
    """One filter of the list. A valid value in the URL is accepted even if it is not among the choices."""

    def offered(self, request: HttpRequest) -> list[tuple[str, Any]]:
        """The choices."""
        return []

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        choices = self.offered(request)
        chosen = request.GET.get(self.parameter_name or "")
        if chosen and chosen not in {key for key, _label in choices}:
            choices.append((chosen, wording.shortened(chosen, 60)))
        return choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if not value:
            return queryset
        narrowed = _narrowed(str(self.parameter_name), value, clock.host_now(), scope_of(request))
        return queryset.matching(DeadLetterFilter(**narrowed))  # type: ignore[attr-defined, no-any-return]


def _choices(title: Any, name: str, offered: Callable[[HttpRequest], list[tuple[str, Any]]]) -> type[LetterFilter]:
    """A filter class, named after its parameter, with these choices."""
    return type(
        f"{name.capitalize()}Filter",
        (LetterFilter,),
        {"title": title, "parameter_name": name, "offered": lambda self, request: offered(request)},
    )


def _sampled(request: HttpRequest) -> tuple[list[str], list[str]]:
    """Activities and queues to choose from: those of the newest dead letters. One bounded statement for both."""
    sampled: tuple[list[str], list[str]] | None = getattr(request, "_durable_sampled", None)
    if sampled is None:
        scope = scope_of(request)
        letters = scope.rows().dead_letters()
        pairs = list(letters.order_by("-dead_lettered_at", "-pk").values_list("activity", "queue")[:_SAMPLE])
        installed = {definition.name for definition in registry.activities()} if scope.is_whole else set()
        activities = {activity for activity, _queue in pairs} or installed
        sampled = sorted(activities)[:_OFFERED], sorted({queue for _activity, queue in pairs})[:_OFFERED]
        vars(request)["_durable_sampled"] = sampled
    return sampled


def _names(names: list[str]) -> list[tuple[str, Any]]:
    return [(name, wording.shortened(name, 60)) for name in names]


FILTERS = [
    _choices(
        gettext_lazy("cause"),
        "cause",
        lambda request: [(cause.value, wording.cause(cause)) for cause in OF_DEAD_LETTERS],
    ),
    _choices(
        pgettext_lazy("title of a filter, after “By”", "waiting or moved on"),
        "judged",
        lambda request: [("held", _("Waiting")), ("judged", _("Moved on"))],
    ),
    _choices(gettext_lazy("activity"), "activity", lambda request: _names(_sampled(request)[0])),
    _choices(gettext_lazy("workflow type"), "type", lambda request: _names(known_types(scope_of(request))[:_OFFERED])),
    _choices(gettext_lazy("queue"), "queue", lambda request: _names(_sampled(request)[1])),
    _choices(
        pgettext_lazy("title of a filter, after “By”", "last failure"),
        "failed",
        lambda request: [(key, label) for key, (label, _b) in _AGES.items()],
    ),
    _choices(
        pgettext_lazy("title of a filter, after “By”", "first failure"),
        "first",
        lambda request: [(key, label) for key, (label, _b) in _AGES.items()],
    ),
    _choices(gettext_lazy("attempts"), "attempts", lambda request: [(key, made[0]) for key, made in _ATTEMPTS.items()]),
    _choices(
        gettext_lazy("deliveries"),
        "deliveries",
        lambda request: [(key, made[0]) for key, made in _DELIVERIES.items()],
    ),
    _choices(
        pgettext_lazy("title of a filter, after “By”", "redriven"),
        "redriven",
        lambda request: [("never", _("Never")), ("again", _("Once or more"))],
    ),
    _choices(gettext_lazy("workflow"), "workflow", lambda request: []),
    _choices(gettext_lazy("group of errors"), "error_group", lambda request: []),
]
