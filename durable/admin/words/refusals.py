"""Refusals and outcomes of dead letters in words for staff: what it is, why, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from durable.admin.words import wording
from durable.errors import NotDeadLettered, RedriveRefused, StoreUnavailable, WorkflowTerminal


@dataclass(frozen=True, slots=True)
class Wording:
    """A refusal as staff read it. `short` names it, `why` explains it, `next` says what can be done."""

    short: str
    why: str
    next: str


_TEXTS: dict[str, tuple[Any, Any, Any]] = {
    "workflow_terminal": (
        gettext_lazy("The workflow has ended"),
        gettext_lazy("This workflow has already ended, so nothing is waiting for the activity."),
        gettext_lazy("There is nothing to do here. If the work is still needed, start it again."),
    ),
    "history_records_outcome": (
        gettext_lazy("Outcome already recorded"),
        gettext_lazy(
            "The workflow has already recorded how this activity ended, and has moved on. Running it again could "
            "do the same work twice."
        ),
        gettext_lazy("Discard it. If it must run anyway, use “Force redrive”; its result will be dropped."),
    ),
    "already_judged": (
        gettext_lazy("The workflow has moved on"),
        gettext_lazy(
            "The workflow got the failure of this activity and has moved on. Running it again could do the same "
            "work twice."
        ),
        gettext_lazy("Discard it. If it must run anyway, use “Force redrive”; its result will be dropped."),
    ),
    "row_not_found": (
        gettext_lazy("No longer there"),
        gettext_lazy("It is not part of the workflow's current run, or was removed."),
        gettext_lazy("Open the workflow: it may have started a new run."),
    ),
    "not_dead_lettered": (
        gettext_lazy("No longer a dead letter"),
        gettext_lazy("It has changed in the meantime: it is no longer a dead letter."),
        gettext_lazy("There is nothing to do. Its page shows its current state."),
    ),
    "already_done": (
        gettext_lazy("Already done"),
        gettext_lazy("This form was already submitted, and the action was carried out then. It was not repeated."),
        gettext_lazy("There is nothing to do."),
    ),
    "out_of_scope": (
        gettext_lazy("No longer visible to the user"),
        gettext_lazy(
            "While the job was running, the user who asked for it lost access to this row. It was not changed."
        ),
        gettext_lazy("Someone who has access can decide."),
    ),
    "row_unreadable": (
        gettext_lazy("It cannot be read"),
        gettext_lazy("Its stored data is damaged or from another version, so no worker could run it."),
        gettext_lazy("Discard it, and start the work again if it is still needed."),
    ),
    "transaction_open": (
        gettext_lazy("Inside another transaction"),
        gettext_lazy(
            "This site wraps the request in a database transaction, and this needs one of its own. Nothing was changed."
        ),
        gettext_lazy(
            "Ask the people who run this site to exclude these admin URLs from the middleware that opens the "
            "transaction. Until then, “manage.py durable” does the same from the command line."
        ),
    ),
    "store_unavailable": (
        gettext_lazy("The database did not answer"),
        gettext_lazy("The database did not carry this out, so nothing was changed."),
        gettext_lazy("Try again in a moment."),
    ),
    "locked": (
        gettext_lazy("Locked by another session"),
        gettext_lazy("Another database session has locked this, so nothing was changed."),
        gettext_lazy(
            "Try again in a moment. If it stays locked, ask the people who run the database to end the "
            "transaction that holds the lock."
        ),
    ),
    "outcome_unknown": (
        gettext_lazy("Outcome unknown"),
        gettext_lazy("The connection to the database was lost: the change may or may not have been made."),
        gettext_lazy("Check its page before you try again."),
    ),
}

_STATUS_WHY: dict[str, Any] = {
    "pending": gettext_lazy("It has already been redriven and waits for a worker."),
    "claimed": gettext_lazy("It has already been redriven, and a worker is running it now."),
    "done": gettext_lazy("It has finished in the meantime: the workflow has its result or its error."),
    "cancelled": gettext_lazy("It was discarded in the meantime, or its workflow cancelled it."),
}

_OVER = frozenset({"done", "cancelled"})

_ENDED_WHY: dict[str, Any] = {
    "completed": gettext_lazy("This workflow has already completed, so nothing is waiting for the activity."),
    "failed": gettext_lazy("This workflow has already failed, so nothing is waiting for the activity."),
    "cancelled": gettext_lazy("This workflow was cancelled, so nothing is waiting for the activity."),
    "timed_out": gettext_lazy("This workflow has already timed out, so nothing is waiting for the activity."),
}


def of_code(code: str) -> Wording:
    """A refusal by its stable code."""
    short, why, then = _TEXTS.get(code, (code.replace("_", " "), "", ""))
    return Wording(str(short), str(why), str(then))


def sentences(refusal: RedriveRefused) -> str:
    """A refusal that does not concern a row: why, and what can be done."""
    words = of(refusal)
    return f"{words.why} {words.next}"


def why_not(verdict: str, status: str) -> str:
    """Why the gates would refuse a row in this state."""
    if verdict == NotDeadLettered.code and status in _STATUS_WHY:
        return str(_STATUS_WHY[status])
    return of_code(verdict).why


def of(refusal: RedriveRefused) -> Wording:
    """A refusal with its details: how the workflow ended, the state of the row, whether the outcome is known."""
    general = of_code(refusal.code)
    why: Any = None
    match refusal:
        case StoreUnavailable(outcome_unknown=True):
            return of_code("outcome_unknown")
        case StoreUnavailable(locked=True):
            return of_code("locked")
        case WorkflowTerminal(status=status):
            why = _ENDED_WHY.get(status)
        case NotDeadLettered(status=status) if refusal.code == NotDeadLettered.code:
            why = _STATUS_WHY.get(status)
        case _:
            pass
    return Wording(general.short, str(why or general.why), general.next)


def judged(row: Any) -> str:
    """Whether the workflow is waiting, in words. Empty for a row that never was a dead letter."""
    if not row.dead_lettered_at:
        return ""
    if row.failure_delivered:
        return _("No: it got the failure and moved on")
    if row.status in _OVER:
        return _("No: it stopped waiting")
    return pgettext("the workflow is waiting", "Yes")


def judged_badge(row: Any) -> object:
    """The same as a label."""
    return wording.badge(_("Moved on"), "off") if row.failure_delivered else wording.badge(_("Waiting"), "wait")
