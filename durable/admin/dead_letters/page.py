"""The page of one dead letter: why it is one, whether its workflow is waiting, its attempts, and
the possible actions.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _

from durable import clock
from durable.activities import BulkVerb
from durable.admin.dead_letters.actions import ACTIONS, Action
from durable.admin.lists.parts import Button, Fact, Facts, Part, Table, Text
from durable.admin.lists.room import ROWS_SHOWN, Page
from durable.admin.lists.staff_actions import actions_table
from durable.admin.words import attempts, payloads, refusals, sight, wording
from durable.admin.words.sight import FailureSight, PayloadSight
from durable.conf import settings
from durable.errors import StoreUnavailable
from durable.flow.operator import redrive as redriving
from durable.logs import get_logger, words
from durable.models import DeadLetter, OutboxRow, StaffAction, Workflow
from durable.outcomes import OutboxStatus, RedriveMode

if TYPE_CHECKING:
    from durable.admin.lists.room import Room

logger = get_logger("durable.admin")


def letter_page(room: Room, request: HttpRequest, row: Any) -> Page:
    """Reads what the page shows: a fixed number of statements, each bounded."""
    now = clock.host_now()
    seen, space = sight.of_payloads(request), payloads.Space()
    parts: list[Part] = [
        Facts(_("At a glance"), _facts(room, row, now)),
        attempts_table(row, sight.of_failures(request), space),
        _audit(row),
        Text(_("Input"), payloads.payload(_input(room, row, seen), seen, space)),
    ]
    badges: list[object] = [wording.outbox_status(row.status, paused=row.paused)]
    is_dead = row.status == OutboxStatus.DEAD
    if is_dead:
        badges.append(refusals.judged_badge(row))
    return Page(
        title=row.activity,
        subtitle=_("dead letter #%(id)d") % {"id": row.pk} if is_dead else _("no longer a dead letter"),
        badges=badges,
        parts=parts,
        buttons=_buttons(room, request, row),
        space=space,
        leads=[_explained(row)] if is_dead or not any(action.allowed(request) for action in ACTIONS.values()) else [],
    )


def attempts_table(row: Any, seen: FailureSight, space: payloads.Space) -> Table:
    """Every failed attempt and delivery, the newest first, at most so many."""
    rows = attempts.failed_attempts().filter(outbox_row=row.pk).order_by("-number", "-pk")
    failed = attempts.read(rows[: ROWS_SHOWN + 1], seen)
    return Table(
        _("Failed attempts and deliveries"),
        [_("Delivery"), _("Cause"), _("Error"), _("Worker"), _("Began"), _("Ended")],
        [
            [
                wording.number(attempt.number),
                wording.cause(attempt.cause),
                attempt.error(space),
                wording.plain(attempt.worker),
                wording.moment(attempt.started_at),
                wording.moment(attempt.ended_at),
            ]
            for attempt in failed[:ROWS_SHOWN]
        ],
        empty=_("No failures so far."),
        footnote=_("Only the newest %(count)s are shown.") % {"count": wording.number(ROWS_SHOWN)}
        if len(failed) > ROWS_SHOWN
        else "",
    )


def _explained(row: Any) -> str:
    """In a sentence or two: what this means for the workflow."""
    if row.status != OutboxStatus.DEAD:
        return {
            OutboxStatus.PENDING: _("It has been queued for retry and waits for a worker."),
            OutboxStatus.CLAIMED: _("It has been redriven, and a worker is running it now."),
            OutboxStatus.DONE: _("It has finished: the workflow has its result or its error."),
            OutboxStatus.CANCELLED: _("It is closed and will not run again."),
        }.get(row.status, "")
    if row.failure_delivered:
        return _(
            "The workflow has moved on without this activity: it got the failure, or had stopped waiting. "
            "Usually all that is left to do is to discard it."
        )
    return _(
        "This will not be retried until someone acts, and the workflow is waiting for it. Once the cause is "
        "fixed, redrive it."
    )


def _facts(room: Room, row: Any, now: datetime) -> list[Fact]:
    status = row.workflow_status
    workflow: object = room.workflow_link(row.workflow_id)
    if row.workflow_type:
        workflow = format_html(
            "{} {}<br>{}",
            room.link(Workflow, row.workflow_id, wording.name(row.workflow_key or row.workflow_type, 80)),
            wording.workflow_status(status),
            workflow,
        )
    else:
        workflow = format_html("{} ({})", workflow, _("no longer there"))
    facts = [
        Fact(_("Workflow"), workflow),
        Fact(_("Cause"), wording.cause(row.cause) if row.cause else wording.NOTHING),
        Fact(_("Kind of error"), room.kind_of_error(DeadLetter, row, _("List dead letters of this kind"))),
        Fact(_("Is the workflow waiting?"), refusals.judged(row) or wording.NOTHING),
        Fact(_("Attempts"), attempts.attempt_words(row)),
        Fact(_("Deliveries"), attempts.delivery_words(row)),
        Fact(_("First failure"), wording.moment_and_distance(row.first_failed_at, now)),
        Fact(_("Dead letter since"), wording.moment_and_distance(row.dead_lettered_at, now)),
        Fact(_("Redriven"), wording.plain(f"{wording.number(row.redrive_count)}×" if row.redrive_count else "")),
        Fact(_("Queue"), row.queue),
        Fact(_("Position in the history"), wording.place_in_history(row)),
        Fact(_("Dispatch key"), format_html('<span class="durable-id">{}</span>', row.dispatch_key)),
        Fact(_("Outbox row"), room.link(OutboxRow, row.pk, row.pk)),
    ]
    if row.discarded_at:
        facts.insert(3, Fact(_("Discarded"), wording.moment_and_distance(row.discarded_at, now)))
    return facts


def _input(room: Room, row: Any, seen: PayloadSight) -> payloads.Stored | None:
    if not seen.is_shown:
        return None
    rows = OutboxRow.objects.using(settings.database_alias).filter(pk=row.pk).only("pk")
    columns = rows.annotate(**payloads.columns("input")).first()
    return payloads.stored(columns, "input", room.birthplace(row, "input"), room.payload_address(row, "input"))


def _audit(row: Any) -> Table:
    rows = StaffAction.objects.filter(outbox_row=row.pk)
    return actions_table(rows, _("Staff actions"), _("It has not been redriven."))


def _buttons(room: Room, request: HttpRequest, row: Any) -> list[Button]:
    """The actions that this user may take, each with the refusal that it would get, if any."""
    allowed = [action for action in ACTIONS.values() if action.allowed(request)]
    if not allowed:
        return []
    said = {mode: _verdict(row, mode) for mode in {action.mode for action in allowed}}
    plain = said[RedriveMode.ELIGIBLE] if ACTIONS["redrive"] in allowed else ""
    return [
        Button(
            label=action.label,
            address=_address(room, action, row),
            tone=_tone(action, plain),
            refused=_why(said[action.mode], row),
        )
        for action in allowed
    ]


def _tone(action: Action, plain: str) -> str:
    """A forced redrive is less prominent where a plain redrive is enough."""
    if action.verb is BulkVerb.FORCE and plain == redriving.REDRIVABLE:
        return "quiet"
    return "danger" if action.reason == "required" else ""


def _verdict(row: Any, mode: RedriveMode) -> str:
    """The gates' verdicts now. If they cannot be read, no button is disabled: the action checks the gates again."""
    try:
        return redriving.verdicts([row], mode=mode)[0]
    except (StoreUnavailable, DatabaseError, InterfaceError) as error:
        logger.warning("admin.preview_failed", error=words(error))
        return redriving.REDRIVABLE


def _why(verdict: str, row: Any) -> str:
    return "" if verdict == redriving.REDRIVABLE else refusals.why_not(verdict, row.status)


def _address(room: Room, action: Action, row: Any) -> str:
    name = f"admin:durable_deadletter_{action.name}"
    return reverse(name, args=[row.pk], current_app=room.admin_site.name)
