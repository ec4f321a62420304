"""Which rows a member of staff may see: the workflows and outbox rows that the hook of `ADMIN_SCOPE` returns.

Everything else follows from these two. If the hook fails in any way, nothing is shown.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from django.utils.module_loading import import_string

from durable.conf import settings
from durable.errors.showing import cut_end, said
from durable.logs import get_logger, words
from durable.models import DeadLetter, Message, OutboxRow, StaffAction, Worker, Workflow, WorkItem
from durable.models.outbox import OutboxQuerySet
from durable.models.workflow import WorkflowQuerySet

logger = get_logger("durable.scope")

LONGEST = 200
Hook = Callable[[Any, QuerySet[Any]], QuerySet[Any]]
Q_ = TypeVar("Q_", bound="QuerySet[Any]")


def fault_of_setting() -> str:
    """Why `ADMIN_SCOPE` cannot be called, or an empty text. For the system check."""
    if settings.admin_scope is None:
        return ""
    try:
        inspect.signature(_hook(settings.admin_scope)).bind(None, None)
    except _Wrong as wrong:
        return str(wrong)
    except TypeError:
        return "it cannot be called with a user and a queryset"
    except ValueError:  # a callable without a signature that Python could know
        return ""
    return ""


class _Wrong(Exception):
    """What is wrong with the hook, or with what it returned."""


def _hook(path: str) -> Hook:
    try:
        imported = import_string(path)
    except Exception as error:  # the module is the project's code: importing it can raise anything
        raise _Wrong(f"it cannot be imported ({said(error, LONGEST)})") from error
    if not callable(imported):
        raise _Wrong("it is not a function")
    if inspect.iscoroutinefunction(imported):
        raise _Wrong("it is an async function")
    hook: Hook = imported
    return hook


class Scope:
    """The rows that one user may see. Each scope calls the hook again. `fault` says why nothing is shown, if the hook
    has failed; it is set once a queryset was requested.
    """

    def __init__(self, user: Any) -> None:
        self.user = user
        self.fault = ""
        self._asked: dict[type[Model], QuerySet[Any]] = {}

    @property
    def is_whole(self) -> bool:
        """Whether there is no hook, so that all rows are seen."""
        return settings.admin_scope is None

    def workflows(self) -> WorkflowQuerySet:
        """The workflows that this user may see."""
        visible: WorkflowQuerySet = self._of(Workflow, Workflow.objects.all())
        return visible

    def rows(self) -> OutboxQuerySet:
        """The outbox rows that this user may see, dead letters among them."""
        visible: OutboxQuerySet = self._of(OutboxRow, OutboxRow.objects.all())
        return visible

    def has_failed(self) -> bool:
        """Whether the hook fails for one of the two, so that nothing is shown."""
        self.workflows()
        self.rows()
        return bool(self.fault)

    def narrow(self, queryset: Q_) -> Q_:
        """The rows of one of the app's models that this user may see. Workers are not limited."""
        model = queryset.model
        if self.is_whole or model is Worker:
            return queryset
        if model is Workflow or model is OutboxRow:
            return queryset & (self.workflows() if model is Workflow else self.rows())
        return queryset.filter(self._condition(model))

    def _condition(self, model: type[Model]) -> Q | Exists:
        if model in (DeadLetter, WorkItem):
            return self._row("pk")
        if model is Message:
            return self._workflow("workflow_id")
        assert model is StaffAction, model
        of_row = Q(outbox_row__isnull=False) & Q(self._row("outbox_row_id"))
        return of_row | Q(outbox_row__isnull=True) & Q(self._workflow("workflow_id"))

    def _row(self, column: str) -> Exists:
        return Exists(self.rows().filter(pk=OuterRef(column)))

    def _workflow(self, column: str) -> Exists:
        return Exists(self.workflows().filter(pk=OuterRef(column)))

    def _of(self, model: type[Model], every: Any) -> Any:
        every = every.using(settings.database_alias)
        if self.is_whole:
            return every
        if model not in self._asked:
            try:
                self._asked[model] = _narrowed(self.user, every)
            except _Wrong as wrong:
                self.fault = str(wrong)
                logger.error("scope.failed", hook=settings.admin_scope, model=model.__name__, error=self.fault)
                self._asked[model] = every.none()
        return self._asked[model]


def _narrowed(user: Any, every: Any) -> Any:
    """The rows of `every` that the hook returns, as a queryset with conditions only. Raises `_Wrong`."""
    assert settings.admin_scope is not None
    hook = _hook(settings.admin_scope)
    try:
        kept: Any = hook(user, every)
    except Exception as error:  # the hook is the project's code: it can raise anything
        raise _Wrong(f"it raised {cut_end(words(error), LONGEST)}") from error
    if not isinstance(kept, QuerySet) or kept.model is not every.model:
        raise _Wrong(f"it returned a {type(kept).__name__}, not a queryset of {every.model.__name__}")
    query: Any = kept.query
    if query.combinator or query.is_sliced or getattr(kept, "_fields", None) is not None:
        raise _Wrong("it returned a queryset that cannot be filtered: a union, a slice, or values()")
    kept = kept.using(every.db).order_by()
    kept.query.select_for_update = False
    is_plain = isinstance(kept, type(every)) and len(query.alias_map) <= 1 and not query.distinct
    if is_plain and not query.annotations:
        return kept.select_related(None)
    # Joins can return a row twice, and annotations conflict with those of the lists.
    return every.filter(Exists(kept.filter(pk=OuterRef("pk"))))
