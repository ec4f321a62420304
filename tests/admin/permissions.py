"""Who may do what on which page."""

from __future__ import annotations

from durable.admin.dead_letters.actions import ACTIONS
from durable.admin.workflows.verbs import VERBS

OF_ACTION = {name: action.permission for name, action in ACTIONS.items()}


OF_VERB = {name: verb.permission for name, verb in VERBS.items()}


VIEWS = ("view_deadletter", "view_workflow", "view_outboxrow", "view_staffaction", "view_payload")


ROLES: dict[str, tuple[str, ...]] = {
    "nobody": (),
    "viewer": VIEWS,
    "redriver": (*VIEWS, "redrive_deadletter"),
    "discarder": (*VIEWS, "discard_deadletter", "force_redrive_deadletter"),
    "operator": (*VIEWS, *OF_VERB.values()),
}


FORM = {"confirmed": "yes", "reason": "because", "then": "fail", "signal": "approval"}
