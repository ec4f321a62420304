"""What pages say of a workflow's parent and children."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.db.models import Case, IntegerField, Value, When
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from durable.admin.lists.parts import Fact, Table
from durable.admin.words import wording
from durable.conf import settings
from durable.kernel.definitions.options import DETACHED
from durable.models import Workflow
from durable.scope import Scope

if TYPE_CHECKING:
    from durable.admin.lists.room import Room

_SHOWN = 100
_COUNTED = 10_000
PARENT_VAR = "parent"
"""The parameter by which the list of workflows shows the children of one."""


def children(room: Room, scope: Scope, workflow: Any) -> Table:
    """Its children that this user may see, those that have not ended first. One statement."""
    ended = Case(When(closed_at__isnull=True, then=Value(0)), default=Value(1), output_field=IntegerField())
    rows: list[Any] = list(
        scope.workflows()
        .filter(parent_id=workflow.pk)
        .only("id", "type", "key", "status", "blocked_reason", "parent_close", "created_at")
        .order_by(ended, "pk")[: _SHOWN + 1]
    )
    all_of_them = f"{room.address(Workflow, 'changelist')}?{urlencode({PARENT_VAR: workflow.pk})}"
    return Table(
        _("Children"),
        [_("Workflow"), _("Key"), _("Status"), _("If this one ends first"), _("Created")],
        [
            [
                room.link(Workflow, row.pk, wording.name(row.type, 80)),
                wording.plain(wording.name(row.key, 60) if row.key else None),
                wording.workflow_status(row.status, blocked_reason=row.blocked_reason),
                _policy(row.parent_close),
                wording.moment(row.created_at),
            ]
            for row in rows[:_SHOWN]
        ],
        empty=_("None that you may see."),
        footnote=format_html('<a href="{}">{}</a>', all_of_them, _("All children")),
    )


def of_its_parent(room: Room, scope: Scope, workflow: Any) -> list[Fact]:
    """Its parent, what the parent's end does to it, and whether its own end was told."""
    parent = scope.workflows().filter(pk=workflow.parent_id).values_list("type", "closed_at").first()
    if parent is None:
        return [Fact(_("Parent"), _("%(id)s (no longer there)") % {"id": workflow.parent_id})]
    parent_type, parent_closed_at = parent
    facts = [
        Fact(_("Parent"), room.link(Workflow, workflow.parent_id, parent_type)),
        Fact(_("If the parent ends first"), _policy(workflow.parent_close)),
    ]
    if workflow.closed_at is not None:
        facts.append(Fact(_("Its end"), _told(workflow, parent_closed_at)))
    return facts


def what_its_end_does(workflow: Any) -> str:
    """What becomes of the children of a workflow that is about to end; empty if none is live. At most one statement."""
    if not workflow.children:
        return ""
    live = Workflow.objects.using(settings.database_alias).live().filter(parent_id=workflow.pk)
    policies = list(live.values_list("parent_close", flat=True)[: _COUNTED + 1])
    if not policies:
        return ""
    counted = Counter("abandon" if policy == DETACHED else policy for policy in policies[:_COUNTED])
    more = "+" if len(policies) > _COUNTED else ""
    sentences = {
        "cancel": ngettext(
            "%(count)s child of it is asked to cancel.",
            "%(count)s children of it are asked to cancel.",
            counted["cancel"],
        ),
        "terminate": ngettext(
            "%(count)s child of it is terminated.", "%(count)s children of it are terminated.", counted["terminate"]
        ),
        "abandon": ngettext("%(count)s child of it goes on.", "%(count)s children of it go on.", counted["abandon"]),
    }
    numbers = {name: f"{wording.number(counted[name])}{more}" for name in sentences}
    return " ".join(text % {"count": numbers[name]} for name, text in sentences.items() if counted[name])


def _policy(parent_close: str) -> str:
    return {
        "cancel": _("it is asked to cancel"),
        "terminate": _("it is terminated"),
        "abandon": _("it goes on"),
        DETACHED: _("it goes on"),
    }.get(parent_close, parent_close)


def _told(workflow: Any, parent_closed_at: Any) -> str:
    if workflow.parent_close == DETACHED:
        return _("not told to the parent, which does not wait for it")
    if parent_closed_at is not None and parent_closed_at < workflow.closed_at:
        return _("not told to the parent, which had ended before")
    return _("told to the parent")
