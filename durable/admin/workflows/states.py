"""Why a verb cannot be carried out in the state of a workflow, in words; empty if it can."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from durable.admin.words import wording
from durable.outcomes import WorkflowStatus


def ended(workflow: Any) -> str:
    """It has ended."""
    if workflow.closed_at is None:
        return ""
    return _("This workflow has ended (%(status)s).") % {"status": wording.ended_as(workflow.status)}


def without_code(workflow: Any) -> str:
    """It has ended, or has no code that could read a signal."""
    return ended(workflow) or (_("A single activity has no code that waits for signals.") if workflow.single else "")


def not_running(workflow: Any) -> str:
    """It has ended, or is paused."""
    return ended(workflow) or (_("It is already paused.") if workflow.status == WorkflowStatus.PAUSED else "")


def not_paused(workflow: Any) -> str:
    """It has ended, or is not paused."""
    return ended(workflow) or (_("It is not paused.") if workflow.status != WorkflowStatus.PAUSED else "")


def not_blocked(workflow: Any) -> str:
    """It has ended, or is not blocked."""
    return ended(workflow) or ("" if workflow.blocked_reason else _("It is not blocked."))
