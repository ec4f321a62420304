"""The *Needs attention* block for the app's page in an admin site, whose template gets no other context."""

from __future__ import annotations

from typing import Any

from django import template

from durable.admin.lists.scoping import scope_of
from durable.admin.lists.triage import triage

register = template.Library()


@register.inclusion_tag("durable/admin/triage.html", takes_context=True)
def durable_triage(context: dict[str, Any]) -> dict[str, Any]:
    """What needs attention, as far as the user may see it."""
    request = context.get("request") or getattr(context, "request", None)
    if request is None:
        return {"triage": None}
    site_name = getattr(request, "current_app", None) or "admin"
    return {"triage": triage(request.user, site_name, scope_of(request))}
