"""Hooks of `ADMIN_SCOPE` as a project writes them, and as it should not."""

from __future__ import annotations

from typing import Any

NOT_A_FUNCTION = "tests"


def by_queue(user: Any, queryset: Any) -> Any:
    """Who is no superuser sees the queue that bears his first name."""
    return queryset if user.is_superuser else queryset.filter(queue=user.first_name)


def by_join(user: Any, queryset: Any) -> Any:
    """The same for outbox rows by their workflow, with a join, an annotation, an order, and twice what is there."""
    from durable.models import Workflow

    if queryset.model is Workflow:
        return by_queue(user, queryset).distinct()
    from django.db.models import F

    kept = queryset.select_related("workflow").filter(workflow__queue=user.first_name)
    return kept.annotate(workflow_type=F("workflow__key")).order_by("-workflow__created_at").distinct()


def by_permission(user: Any, queryset: Any) -> Any:
    """Everything, for those who have a permission of the project's."""
    return queryset if user.has_perm("durable.view_payload") else queryset.none()


def raises(user: Any, queryset: Any) -> Any:
    raise LookupError("no tenant")


def returns_none(user: Any, queryset: Any) -> Any:
    return None


def returns_a_list(user: Any, queryset: Any) -> Any:
    return list(queryset)


def returns_a_slice(user: Any, queryset: Any) -> Any:
    return queryset[:10]


def returns_a_union(user: Any, queryset: Any) -> Any:
    return queryset.union(queryset)


def returns_values(user: Any, queryset: Any) -> Any:
    return queryset.values("pk")


def returns_another_model(user: Any, queryset: Any) -> Any:
    from durable.models import Message

    return Message.objects.all()


def takes_one() -> Any:
    """Takes nothing at all."""


async def is_async(user: Any, queryset: Any) -> Any:
    return queryset
