"""The verbs of staff on one workflow: each with its permission, its confirmation page, and its messages."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from durable import logbook
from durable.admin.lists.parts import Button
from durable.admin.words import problems, refusals, wording
from durable.admin.workflows import family, states
from durable.client.handle import send_for_staff
from durable.errors import (
    KeyInvalid,
    MailboxFull,
    NobodyListens,
    OptionInvalid,
    PayloadError,
    StoreUnavailable,
    TransactionOpen,
    WorkflowClosed,
    WorkflowNotBlocked,
    WorkflowNotFound,
)
from durable.flow.audit import auditing, reasons
from durable.flow.caller.cancel import cancel
from durable.models import Workflow
from durable.operations import pause, resume, terminate, unblock
from durable.outcomes import CancelAnswer, Through, WorkflowStatus

if TYPE_CHECKING:
    from durable.admin.lists.room import Room

LONGEST_REASON = 1_000
_REMEMBERED = 30
_SENT = "durable_forms_sent"


@dataclass(frozen=True, slots=True)
class Sent:
    """A form that was filled in."""

    workflow_id: uuid.UUID
    user: Any
    reason: str
    signal: str
    payload: str = field(repr=False)
    request_id: str


@dataclass(frozen=True, slots=True)
class Said:
    """The outcome: a message's level and its text. `did` is for the log; empty if nothing was done."""

    level: int
    text: str
    did: str = ""


class _Misfit(Exception):
    """Something in the form is invalid; the text says what."""


@dataclass(frozen=True, slots=True)
class WorkflowVerb:
    """One verb. `reason` is required, optional or none; `impossible` says why it can not be done to a workflow now.
    `of_single` are title and explanation where the workflow is a single activity and those of workflows are not true.
    """

    name: str
    permission: str
    label: Any
    title: Any
    explained: Any
    reason: str
    impossible: Callable[[Any], str]
    carry_out: Callable[[Sent], Said]
    tone: str = ""
    of_single: tuple[Any, Any] | None = None

    def words(self, workflow: Any) -> tuple[Any, Any]:
        """Title and explanation for this workflow."""
        return self.of_single if workflow.single and self.of_single is not None else (self.title, self.explained)

    def allowed(self, request: HttpRequest) -> bool:
        """Whether this user may do it."""
        return request.user.has_perm(f"durable.{self.permission}")


def _is_read_later(verb: WorkflowVerb) -> bool:
    """Whether the workflow's code has to turn for it."""
    return verb.name in ("signal", "cancel")


def _put_off(workflow: Any) -> str:
    """Why it does not take effect at once, and when it will; empty if it does."""
    if workflow.single:
        return ""
    if workflow.status == WorkflowStatus.PAUSED:
        return _("The workflow is paused, so this takes effect when it is resumed.")
    return _("The workflow is blocked, so this takes effect when it is unblocked.") if workflow.blocked_reason else ""


def _cancel(sent: Sent) -> Said:
    outcome = cancel(sent.workflow_id, reason=sent.reason, actor=sent.user, audited=True)
    match outcome.answer:
        case CancelAnswer.DONE:
            return Said(messages.SUCCESS, _("It is cancelled."), "Cancelled")
        case CancelAnswer.ASKED:
            text = (
                _("The activity was asked to stop. Its handler sees this when it next checks, or runs to its end.")
                if outcome.single
                else _("The workflow was asked to cancel. It sees this at its next step, and may clean up first.")
            )
            return Said(messages.SUCCESS, text, "Cancellation requested")
        case CancelAnswer.ALREADY_OVER:
            status = "" if outcome.status is None else wording.ended_as(outcome.status)
            return Said(
                messages.WARNING,
                _("It had already ended (%(status)s), so there was nothing to cancel.") % {"status": status},
            )
        case CancelAnswer.NOT_FOUND:
            raise WorkflowNotFound(sent.workflow_id)


def _terminate(sent: Sent) -> Said:
    terminate(sent.workflow_id, reason=sent.reason, actor=sent.user)
    return Said(messages.SUCCESS, _("The workflow was terminated. Its activities are closed."), "Terminated")


def _pause(sent: Sent) -> Said:
    pause(sent.workflow_id, actor=sent.user, reason=sent.reason)
    text = _("The workflow is paused. Running activities finish; nothing new starts until it is resumed.")
    return Said(messages.SUCCESS, text, "Paused")


def _resume(sent: Sent) -> Said:
    resume(sent.workflow_id, actor=sent.user, reason=sent.reason)
    return Said(messages.SUCCESS, _("The workflow has been resumed."), "Resumed")


def _unblock(sent: Sent) -> Said:
    unblock(sent.workflow_id, actor=sent.user, reason=sent.reason)
    text = _("The workflow tries again. If it still cannot continue, it will be blocked again.")
    return Said(messages.SUCCESS, text, "Unblocked")


def _signal(sent: Sent) -> Said:
    try:
        payload = json.loads(sent.payload) if sent.payload.strip() else None
    except (ValueError, RecursionError) as error:
        raise _Misfit(_("The payload is not valid JSON: %(error)s") % {"error": error}) from error
    send_for_staff(sent.workflow_id, sent.signal, payload, dedup=sent.request_id, actor=sent.user)
    return Said(
        messages.SUCCESS,
        _("The signal “%(name)s” was accepted. The workflow reads it at its next step.")
        % {"name": wording.name(sent.signal)},
        f"Signal {sent.signal} sent",
    )


VERBS: Mapping[str, WorkflowVerb] = {
    verb.name: verb
    for verb in (
        WorkflowVerb(
            name="signal",
            permission="signal_workflow",
            label=gettext_lazy("Send signal"),
            title=gettext_lazy("Send a signal"),
            explained=gettext_lazy("The workflow receives it when its code waits for a signal of this name."),
            reason="none",
            impossible=states.without_code,
            carry_out=_signal,
        ),
        WorkflowVerb(
            name="pause",
            permission="pause_workflow",
            label=gettext_lazy("Pause"),
            title=gettext_lazy("Pause the workflow"),
            explained=gettext_lazy("No new step starts until someone resumes it. Nothing is lost."),
            reason="optional",
            impossible=states.not_running,
            carry_out=_pause,
        ),
        WorkflowVerb(
            name="resume",
            permission="pause_workflow",
            label=gettext_lazy("Resume"),
            title=gettext_lazy("Resume the workflow"),
            explained=gettext_lazy("It resumes where it left off. Timers that came due in the meantime fire at once."),
            reason="optional",
            impossible=states.not_paused,
            carry_out=_resume,
        ),
        WorkflowVerb(
            name="unblock",
            permission="unblock_workflow",
            label=gettext_lazy("Unblock"),
            title=gettext_lazy("Unblock the workflow"),
            explained=gettext_lazy(
                "Its code is run against its history again. This helps once code that matches has been deployed."
            ),
            reason="optional",
            impossible=states.not_blocked,
            carry_out=_unblock,
        ),
        WorkflowVerb(
            name="cancel",
            permission="cancel_workflow",
            label=pgettext_lazy("button that asks a workflow to cancel", "Cancel"),
            title=gettext_lazy("Ask the workflow to cancel"),
            explained=gettext_lazy("Its code is asked to stop, and may clean up first (refund a payment, say)."),
            reason="optional",
            impossible=states.ended,
            carry_out=_cancel,
            tone="danger",
            of_single=(
                gettext_lazy("Cancel the activity"),
                gettext_lazy(
                    "If it has not started, it ends at once. If its handler is running, the handler sees the "
                    "request when it next checks; one that never checks runs to its end."
                ),
            ),
        ),
        WorkflowVerb(
            name="terminate",
            permission="terminate_workflow",
            label=gettext_lazy("Terminate"),
            title=gettext_lazy("Terminate the workflow"),
            explained=gettext_lazy(
                "It ends at once. Its code is not asked and cannot clean up; what it has already done stays as it is."
            ),
            reason="required",
            impossible=states.ended,
            carry_out=_terminate,
            tone="danger",
        ),
    )
}


def buttons(room: Room, request: HttpRequest, workflow: Any) -> list[Button]:
    """The verbs that this user may use; those that are impossible in the workflow's state say why."""
    offered = []
    for verb in VERBS.values():
        if not verb.allowed(request):
            continue
        refused = verb.impossible(workflow)
        if refused and verb.name in ("resume", "unblock"):
            continue  # they apply to few workflows; for the others they are not offered
        offered.append(Button(verb.label, verb_address(room, verb.name, workflow.pk), verb.tone, refused))
    return offered


def verb_address(room: Room, name: str, workflow_id: uuid.UUID) -> str:
    """The address of the question before a verb."""
    return reverse(f"admin:durable_workflow_{name}", args=[workflow_id], current_app=room.admin_site.name)


def ask(request: HttpRequest, room: Room, name: str, workflow: Any) -> HttpResponse:
    """GET shows the confirmation page, POST does it and redirects to the workflow. Without the permission: 403."""
    verb = VERBS[name]
    if not room.has_view_permission(request) or not verb.allowed(request):
        raise PermissionDenied
    back = room.address(Workflow, "change", workflow.pk)
    if request.method != "POST":
        return _page(request, room, verb, workflow, uuid.uuid4().hex)
    sent = _read(request, workflow.pk)
    if sent.request_id in request.session.get(_SENT, []):
        messages.info(request, _("Already done: this form was submitted before."))
        return HttpResponseRedirect(back)
    try:
        problem = _problem(verb, sent)
        said = None if problem else _carry_out(verb, sent, workflow)
    except (StoreUnavailable, TransactionOpen) as refusal:
        problem, said = refusals.sentences(refusal), None
    except MailboxFull as full:
        problem, said = _mailbox_full(full), None
    except (_Misfit, NobodyListens, OptionInvalid, PayloadError, KeyInvalid) as misfit:
        problem, said = problems.of_form(misfit), None
    if said is None:
        return _page(request, room, verb, workflow, sent.request_id, problem=problem)
    if said.did:
        request.session[_SENT] = [*request.session.get(_SENT, [])[-_REMEMBERED:], sent.request_id]
        logbook.log_actions(request.user, [workflow], f"{said.did}: {sent.reason}" if sent.reason else f"{said.did}.")
    messages.add_message(request, said.level, said.text)
    return HttpResponseRedirect(back)


def _mailbox_full(full: MailboxFull) -> str:
    if full.history_is_full:
        return _("The signal was not sent: the workflow's history has no room for more signals.")
    return _("The signal was not sent: %(count)s are already waiting to be read. Try again when some are read.") % {
        "count": wording.number(full.signals)
    }


def _carry_out(verb: WorkflowVerb, sent: Sent, workflow: Any) -> Said:
    """Does it; whatever state the workflow is in by now, there is a sentence for it."""
    if verb.name in ("pause", "resume") and verb.impossible(workflow):
        return Said(messages.INFO, _("Nothing was changed: %(why)s") % {"why": verb.impossible(workflow)})
    try:
        with auditing.asked_through(Through.ADMIN):
            said = verb.carry_out(sent)
        return (
            replace(said, text=f"{said.text} {_put_off(workflow)}".strip())
            if said.did and _is_read_later(verb)
            else said
        )
    except WorkflowClosed as closed:
        status = wording.ended_as(closed.status)
        text = _("Nothing was changed: this workflow has already ended (%(status)s).") % {"status": status}
        return Said(messages.WARNING, text)
    except WorkflowNotBlocked:
        return Said(messages.WARNING, _("Nothing was changed: the workflow is not blocked."))
    except WorkflowNotFound:
        return Said(messages.WARNING, _("Nothing was changed: the workflow no longer exists."))
    except (DatabaseError, InterfaceError):
        text = _("The database did not answer: this may or may not have been done. Check the page, then try again.")
        return Said(messages.ERROR, text)


def _read(request: HttpRequest, workflow_id: uuid.UUID) -> Sent:
    form = request.POST
    try:
        request_id = uuid.UUID(form.get("request_id", "")).hex
    except ValueError:
        request_id = uuid.uuid4().hex
    return Sent(
        workflow_id=workflow_id,
        user=request.user,
        reason=form.get("reason", "").strip(),
        signal=form.get("signal", "").strip(),
        payload=form.get("payload", ""),
        request_id=request_id,
    )


def _problem(verb: WorkflowVerb, sent: Sent) -> str:
    if verb.reason == "required" and not sent.reason:
        return _("A reason is required. It becomes part of the history.")
    if len(sent.reason) > LONGEST_REASON:
        return _("The reason is too long. The limit is %(most)s characters.") % {"most": wording.number(LONGEST_REASON)}
    if verb.name == "signal" and not sent.signal:
        return _("Enter the name of the signal.")
    reasons.check(sent.reason)
    return ""


def _page(
    request: HttpRequest, room: Room, verb: WorkflowVerb, workflow: Any, request_id: str, *, problem: str = ""
) -> HttpResponse:
    title, explained = verb.words(workflow)
    context = {
        "verb": verb,
        "verb_title": title,
        "verb_explained": explained,
        "workflow": workflow,
        "badge": wording.workflow_status(workflow.status, blocked_reason=workflow.blocked_reason),
        "refused": verb.impossible(workflow),
        "problem": problem,
        "request_id": request_id,
        "back": room.address(Workflow, "change", workflow.pk),
        "sent": request.POST,
        "longest_reason": LONGEST_REASON,
        "children": family.what_its_end_does(workflow) if verb.name == "terminate" else "",
    }
    return room.answer(request, "durable/admin/verb.html", str(title), context)
