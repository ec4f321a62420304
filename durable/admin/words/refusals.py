"""Verdicts and outcomes of dead letters in words for staff: what it is, why, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

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
        gettext_lazy("This workflow has already ended, so nothing waits for the activity any more."),
        gettext_lazy("Nothing is left to do here. If the work is still needed, start it anew."),
    ),
    "history_records_outcome": (
        gettext_lazy("The workflow has gone on"),
        gettext_lazy(
            "The workflow has already recorded how this activity ended, and has gone on from there. Running it again "
            "could do the same work twice."
        ),
        gettext_lazy("Discard it. If it has to run all the same, “Force redrive” does that; its result is dropped."),
    ),
    "already_judged": (
        gettext_lazy("The workflow was told"),
        gettext_lazy(
            "The workflow was told that this activity failed, and has acted on it. Running it again could do the same "
            "work twice."
        ),
        gettext_lazy("Discard it. If it has to run all the same, “Force redrive” does that; its result is dropped."),
    ),
    "row_not_found": (
        gettext_lazy("Not there any more"),
        gettext_lazy("It is not part of the workflow's current run, or was removed."),
        gettext_lazy("Look at the workflow: it may have begun anew."),
    ),
    "not_dead_lettered": (
        gettext_lazy("Not a dead letter any more"),
        gettext_lazy("Somebody, or something, was faster: it is not a dead letter any more."),
        gettext_lazy("Nothing is left to do. Its page says how it stands."),
    ),
    "already_done": (
        gettext_lazy("Already done"),
        gettext_lazy("This very form was sent before and has done it. It was not done a second time."),
        gettext_lazy("Nothing is left to do."),
    ),
    "out_of_scope": (
        gettext_lazy("Not to be seen any more"),
        gettext_lazy("While the work went on, the person who asked for it lost sight of it. It was left as it is."),
        gettext_lazy("Somebody who may see it can decide about it."),
    ),
    "row_unreadable": (
        gettext_lazy("It can not be read"),
        gettext_lazy("What is stored with it is damaged, or of another version, so that no worker could run it."),
        gettext_lazy("Discard it, and start the work anew if it is still needed."),
    ),
    "transaction_open": (
        gettext_lazy("Inside another transaction"),
        gettext_lazy(
            "This site wraps the request in a database transaction, and this needs one of its own. Nothing was changed."
        ),
        gettext_lazy(
            "Ask those who run the site to leave the addresses of this admin out of the middleware that opens the "
            "transaction. Until then, “manage.py durable” does the same from the command line."
        ),
    ),
    "store_unavailable": (
        gettext_lazy("The database did not answer"),
        gettext_lazy("The database did not carry this out: nothing was changed."),
        gettext_lazy("Try it again in a moment."),
    ),
    "locked": (
        gettext_lazy("Locked by somebody else"),
        gettext_lazy("Somebody else has this open in the database right now, so nothing was changed."),
        gettext_lazy(
            "Try it again in a moment. If it stays so, ask those who run the database to end the transaction that "
            "holds it."
        ),
    ),
    "outcome_unknown": (
        gettext_lazy("Not known"),
        gettext_lazy("The database went away in the middle: it is not known whether the change was made."),
        gettext_lazy("Look at its page before you try it again."),
    ),
}

_STATUS_WHY: dict[str, Any] = {
    "pending": gettext_lazy("It has been given back already and waits for a worker."),
    "claimed": gettext_lazy("It has been given back already and a worker is on it right now."),
    "done": gettext_lazy("It has run to its end meanwhile: the workflow has its result, or its error."),
    "cancelled": gettext_lazy("It was discarded meanwhile, or its workflow does not want it any more."),
}

_OVER = frozenset({"done", "cancelled"})

_ENDED_WHY: dict[str, Any] = {
    "completed": gettext_lazy("This workflow has already completed, so nothing waits for the activity any more."),
    "failed": gettext_lazy("This workflow has already failed, so nothing waits for the activity any more."),
    "cancelled": gettext_lazy("This workflow was cancelled, so nothing waits for the activity any more."),
    "timed_out": gettext_lazy("This workflow has already timed out, so nothing waits for the activity any more."),
}


def of_code(code: str) -> Wording:
    """A refusal by its stable code."""
    short, why, then = _TEXTS.get(code, (code.replace("_", " "), "", ""))
    return Wording(str(short), str(why), str(then))


def sentences(refusal: RedriveRefused) -> str:
    """A refusal that is about no row: why, and what can be done."""
    words = of(refusal)
    return f"{words.why} {words.next}"


def why_not(verdict: str, status: str) -> str:
    """Why the gates would refuse a row that stands so."""
    if verdict == NotDeadLettered.code and status in _STATUS_WHY:
        return str(_STATUS_WHY[status])
    return of_code(verdict).why


def of(refusal: RedriveRefused) -> Wording:
    """A refusal with what it carries: how the workflow ended, how the row stands, whether the outcome is known."""
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
    """Whether the workflow knows of the failure, in words. Empty for what never was a dead letter."""
    if not row.dead_lettered_at:
        return ""
    if row.failure_delivered:
        return _("Yes: judged")
    if row.status in _OVER:
        return _("Yes: it does not wait any more")
    return _("No: it still waits")


def judged_badge(row: Any) -> object:
    """The same as a label."""
    return wording.badge(_("Judged"), "off") if row.failure_delivered else wording.badge(_("Not judged"), "wait")
