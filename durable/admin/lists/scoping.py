"""What the user of a page may see: the scope, and the numbers within it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Count, Min
from django.http import HttpRequest

from durable import clock
from durable.flow.looks import look
from durable.models import Message, OutboxRow, WorkItem
from durable.models.workflow import UNHAPPY_STATUSES
from durable.scope import Scope
from durable.store.operators.reads import COUNT_CAP, FAILED_WITHIN, QueueState


def scope_of(request: HttpRequest) -> Scope:
    """The scope of the request's user; the hook is called once per request."""
    scope: Scope | None = getattr(request, "_durable_scope", None)
    if scope is None or scope.user != request.user:
        scope = Scope(request.user)
        vars(request)["_durable_scope"] = scope
    return scope


def readings(scope: Scope) -> look.Readings:
    """The numbers on the app's page for users who may not see all rows."""
    if scope.is_whole:
        return look.Readings()
    numbers = _Numbers(scope)
    return look.Readings(numbers.queues, numbers.turns, numbers.counts)


class _Numbers:
    """The numbers of `durable.store.operators.reads`, for the rows within a scope; capped in the same way."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def queues(self, connection: BaseDatabaseWrapper) -> list[QueueState]:
        """Rows that are due now, by queue."""
        due = self.scope.rows().claimable().filter(visible_after__lte=clock.database_now(connection))
        some = due.order_by().values("pk")[:COUNT_CAP]
        rows = OutboxRow.objects.using(connection.alias).filter(pk__in=some)
        states = rows.values("queue").order_by("queue").annotate(due=Count("pk"), oldest=Min("visible_after"))
        return [QueueState(state["queue"], state["due"], state["oldest"]) for state in states]

    def turns(self, connection: BaseDatabaseWrapper) -> list[QueueState]:
        """Workflows that can run now, by queue."""
        now = clock.database_now(connection)
        messages = self.scope.narrow(Message.objects.using(connection.alias))
        come = messages.filter(parked=False, visible_at__lte=now).order_by("visible_at")
        woken = self.scope.workflows().filter(wake_at__lte=now).order_by("wake_at")
        by_queue: dict[str, dict[Any, datetime]] = {}
        for rows in (
            come.values_list("workflow__queue", "workflow_id", "visible_at")[:COUNT_CAP],
            woken.values_list("queue", "pk", "wake_at")[:COUNT_CAP],
        ):
            for queue, workflow_id, at in rows:
                assert at is not None
                of_queue = by_queue.setdefault(queue, {})
                of_queue[workflow_id] = min(at, of_queue.get(workflow_id, at))
        return [QueueState(queue, len(due), min(due.values())) for queue, due in sorted(by_queue.items())]

    def counts(self, connection: BaseDatabaseWrapper) -> dict[str, int]:
        """What needs attention."""
        now = clock.database_now(connection)
        since: timedelta = FAILED_WITHIN
        workflows, rows = self.scope.workflows(), self.scope.rows()
        items = self.scope.narrow(WorkItem.objects.using(connection.alias))
        wanted: dict[str, Any] = {
            "blocked": workflows.blocked(),
            "failed": workflows.filter(status__in=UNHAPPY_STATUSES, closed_at__gt=now - since),
            "dead_letters": rows.dead_letters(),
            "expired": items.filter(locked_until__lt=now),
        }
        return {name: rows_of.order_by()[:COUNT_CAP].count() for name, rows_of in wanted.items()}
