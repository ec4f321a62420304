"""The actions of staff on dead letters: names, permissions and texts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from durable.activities import CANCELLING, BulkVerb
from durable.outcomes import DeadLetterFilter, RedriveMode
from durable.scope import Scope


@dataclass(frozen=True, slots=True)
class Action:
    """One action. `reason` says who needs one: "required" or "optional"."""

    name: str
    verb: BulkVerb
    permission: str
    label: Any
    title: Any
    explained: Any
    goes: Any
    reason: str

    @property
    def mode(self) -> RedriveMode:
        """The mode for checking the gates: a discard passes those that a forced redrive passes."""
        return RedriveMode.ELIGIBLE if self.verb is BulkVerb.REDRIVE else RedriveMode.FORCED

    def allowed(self, request: HttpRequest) -> bool:
        """Whether this user may do it."""
        return request.user.has_perm(f"durable.{self.permission}")

    def may_cancel(self, request: HttpRequest) -> bool:
        """Whether this user may also cancel the waiting workflows, which needs another permission than discarding."""
        return request.user.has_perm(f"durable.{CANCELLING}")


ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        Action(
            name="redrive",
            verb=BulkVerb.REDRIVE,
            permission=BulkVerb.REDRIVE.permission,
            label=gettext_lazy("Redrive"),
            title=gettext_lazy("Redrive dead letters"),
            explained=gettext_lazy(
                "Each selected activity is queued and runs again with a full set of attempts. Only those whose "
                "workflow is still waiting are redriven."
            ),
            goes=gettext_lazy("will be queued for retry"),
            reason="optional",
        ),
        Action(
            name="force_redrive",
            verb=BulkVerb.FORCE,
            permission=BulkVerb.FORCE.permission,
            label=gettext_lazy("Force redrive"),
            title=gettext_lazy("Force redrive of dead letters"),
            explained=gettext_lazy(
                "This also redrives activities whose workflow has moved on after the failure. They run again, "
                "and their results are dropped: make sure that running them twice does no harm."
            ),
            goes=gettext_lazy("will be queued for retry"),
            reason="required",
        ),
        Action(
            name="discard",
            verb=BulkVerb.DISCARD,
            permission=BulkVerb.DISCARD.permission,
            label=gettext_lazy("Discard"),
            title=gettext_lazy("Discard dead letters"),
            explained=gettext_lazy(
                "Each is closed for good and will not run again. Its errors and its history remain readable."
            ),
            goes=gettext_lazy("will be closed"),
            reason="required",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a form asks for: which rows (keys, or a filter with an upper limit in time) of those that the user may see,
    once per `request_id`.
    """

    action: Action
    keys: Sequence[int] | None
    wanted: DeadLetterFilter | None
    at: datetime
    request_id: uuid.UUID
    reason: str
    then: str
    could_go: frozenset[int] | None
    previewed: int | None
    scope: Scope
