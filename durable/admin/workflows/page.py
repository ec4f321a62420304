"""The page of one workflow: what it is, its state and the reason, and what it waits for."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.db.models import QuerySet, TextField, Value
from django.db.models.functions import Cast, Left
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from durable import clock
from durable.admin.lists.messages import NAME_WITHIN, message_state, message_words
from durable.admin.lists.parts import Fact, Facts, Part, Table, Text
from durable.admin.lists.room import ROWS_SHOWN, Page
from durable.admin.lists.scoping import scope_of
from durable.admin.lists.work_items import cancel_words
from durable.admin.words import attempts, failures, payloads, sight, wording
from durable.admin.words.sentences import failure_words
from durable.admin.words.sight import PayloadSight
from durable.admin.workflows import family
from durable.admin.workflows.history import block_report, history_page
from durable.admin.workflows.verbs import buttons
from durable.conf import settings
from durable.errors import ConfigurationError, NotRegistered
from durable.flow.looks import look
from durable.kernel.definitions.registry import registry
from durable.kernel.history.room import HISTORY_FULL
from durable.models import DeadLetter, Message, OutboxRow, Workflow, WorkItem
from durable.outcomes import FailedActivity, OutboxStatus, WorkflowStatus
from durable.store.texts.failures import read_reason
from durable.workflows import change_dead_letters

if TYPE_CHECKING:
    from durable.admin.lists.room import Room

_WAITED_FOR = [OutboxStatus.PENDING.value, OutboxStatus.CLAIMED.value, OutboxStatus.DEAD.value]
_TIMERS_SHOWN = 20
_UNREADABLE_SHOWN = 1_000
_REASON_SHOWN = 4_000


class WorkflowPage:
    """Reads what a workflow's page shows: a fixed number of statements, each bounded."""

    def __init__(
        self, room: Room, request: HttpRequest, workflow: Any, seen: PayloadSight, space: payloads.Space
    ) -> None:
        self.room = room
        self.scope = scope_of(request)
        self.workflow = workflow
        self.seen = seen
        self.failures = sight.of_failures(request)
        self.space = space
        self.now = clock.host_now()

    @staticmethod
    def find(rows: QuerySet[Any], workflow_id: uuid.UUID, seen: PayloadSight) -> Any:
        """The workflow, its stored JSON as raw text, and its payloads only where they may be shown."""
        texts: dict[str, Any] = {
            "failure_text": Cast("failure", TextField()),
            "timers_text": Cast("timers", TextField()),
        }
        if seen.is_shown:
            texts |= payloads.columns("input", "result")
        return rows.filter(pk=workflow_id).annotate(**texts).first()

    def page(self, request: HttpRequest) -> Page:
        """The heading, what can be done, and the parts above the history."""
        row = self.workflow
        parts: list[Part] = []
        if row.blocked_reason:
            parts.append(self._blocked())
        parts.append(Facts(_("At a glance"), self._facts()))
        failure = wording.read_json(row.failure_text)
        if row.failure_text and row.failure_text != "null":
            parts.append(self._failure(failure))
        parts.append(Text(_("Input"), self._payload("input")))
        if row.closed_at is not None:
            parts.append(Text(_("Result"), self._payload("result")))
        parts.append(self._pending_work())
        if row.children:
            parts.append(family.children(self.room, self.scope, row))
        parts.append(self._messages())
        return Page(
            title=row.type,
            subtitle=_("single activity") if row.single else _("workflow"),
            badges=[wording.workflow_status(row.status, blocked_reason=row.blocked_reason)],
            parts=parts,
            buttons=buttons(self.room, request, row),
            leads=[self._links(request)],
            space=self.space,
        )

    def _payload(self, name: str) -> SafeString:
        born = self.room.birthplace(self.workflow, name)
        stored = payloads.stored(self.workflow, name, born, self.room.payload_address(self.workflow, name))
        return payloads.payload(stored, self.seen, self.space)

    def _links(self, request: HttpRequest) -> object:
        """Links: to its dead letters, and to the progress of the job if it is one."""
        links = []
        if request.user.has_perm("durable.view_deadletter"):
            links.append((dead_letters_of(self.room, [self.workflow.pk]), _("List dead letters")))
            if self.workflow.type == change_dead_letters.name:
                name = "admin:durable_deadletter_bulk"
                site = self.room.admin_site.name
                links.append(
                    (reverse(name, args=[self.workflow.pk], current_app=site), _("Show the progress of this job"))
                )
        return format_html_join(" · ", '<a href="{}">{}</a>', links)

    def history(self, request: HttpRequest) -> dict[str, Any]:
        """The page of the history that the address asks for."""
        history = history_page(request, self.workflow, self.seen, self.failures, self.space)
        return {"history": history, "workflow": self.workflow}

    def _facts(self) -> list[Fact]:
        row = self.workflow
        facts = [
            Fact(_("Id"), format_html('<span class="durable-id">{}</span>', row.pk)),
            Fact(_("Key"), wording.plain(wording.name(row.key or ""))),
            Fact(_("Queue"), row.queue),
            Fact(_("Created"), wording.moment_and_distance(row.created_at, self.now)),
        ]
        if row.closed_at is not None:
            length = wording.span(row.closed_at - row.created_at)
            ended = _("after %(span)s") % {"span": length}
            facts.append(
                Fact(
                    _("Ended"),
                    format_html('{} <span class="durable-quiet">({})</span>', wording.moment(row.closed_at), ended),
                )
            )
        if row.error_class:
            kind = self.room.kind_of_error(Workflow, row, _("List workflows with this kind of error"))
            facts.append(Fact(_("Kind of error"), kind))
        if row.status == WorkflowStatus.FAILED and not row.single and (cause := look.cause_of_failure(row.pk)):
            facts.append(Fact(_("Caused by"), _lines([self._failed_activity(failed) for failed in cause])))
        if row.custom_status:
            facts.append(Fact(_("Status message"), row.custom_status if self.seen.is_shown else self.seen.placeholder))
        if row.deadline_at is not None:
            facts.append(Fact(_("Times out at"), self._deadline()))
        if row.closed_at is None:
            facts.append(Fact(_("Timers"), self._timers()))
        if row.priority:
            facts.append(Fact(_("Priority"), wording.number(row.priority)))
        if row.parent_id is not None:
            facts += family.of_its_parent(self.room, self.scope, row)
        if row.poison_turns:
            facts.append(Fact(_("Failed turns"), wording.number(row.poison_turns)))
        if row.run > 1:
            facts.append(Fact(pgettext("part of a history", "Run"), wording.number(row.run)))
        if not row.single and not _is_installed(row.type):
            facts.append(Fact(_("Code"), _("No workflow of this name is installed on this site.")))
        return facts + _patches(row)

    def _failed_activity(self, failed: FailedActivity) -> SafeString:
        if failed.child is not None:
            words = _("the end of child %(ordinal)s") % {"ordinal": wording.number(failed.ordinal)}
            return format_html(
                "{} ({})", words, self.room.link(Workflow, failed.child, wording.name(failed.activity, 80))
            )
        words = _("the failure of activity %(ordinal)s") % {"ordinal": wording.number(failed.ordinal)}
        if failed.row_id is None:
            return format_html("{}", words)
        return format_html(
            "{} ({})", words, self.room.link(OutboxRow, failed.row_id, wording.name(failed.activity, 80))
        )

    def _timers(self) -> object:
        timers = wording.read_json(self.workflow.timers_text)
        if not isinstance(timers, list):
            return wording.plain(wording.shortened(self.workflow.timers_text or "", _UNREADABLE_SHOWN))
        due = sorted(
            moment
            for timer in timers
            if isinstance(timer, dict) and (moment := wording.read_moment(timer.get("due"))) is not None
        )
        if not due:
            return _("none")
        shown = [wording.moment_and_distance(moment, self.now) for moment in due[:_TIMERS_SHOWN]]
        if len(due) > _TIMERS_SHOWN:
            shown.append(
                format_html("{}", _("and %(count)s more") % {"count": wording.number(len(due) - _TIMERS_SHOWN)})
            )
        return _lines(shown)

    def _deadline(self) -> object:
        row = self.workflow
        moment = wording.moment_and_distance(row.deadline_at, self.now)
        if not row.blocked_reason or row.error_class == HISTORY_FULL:
            return moment
        return _lines([moment, escape(_("The time for which it is blocked is added when it goes on."))])

    def _blocked(self) -> Facts:
        shown = self.failures.is_shown
        report = failures.block(block_report(self.workflow), self.failures, self.workflow.pk)
        why = self.failures.placeholder
        if shown:
            why = wording.shortened(read_reason(self.workflow.blocked_reason, self.workflow.pk), _REASON_SHOWN)
        facts = [Fact(_("Why"), why)]
        is_bug = "error_type" in report
        if shown and report.get("traceback"):
            trace = payloads.block(str(report["traceback"]), self.space)
            traceback = format_html("<details open><summary>{}</summary>{}</details>", _("Where it was raised"), trace)
            facts.append(Fact(_("Traceback"), traceback))
        if shown and report.get("recorded") is not None:
            facts.append(
                Fact(_("Expected (in the history)"), wording.shortened(str(report["recorded"]), _REASON_SHOWN))
            )
        if shown and report.get("asked") is not None:
            facts.append(
                Fact(_("Found (in the deployed code)"), wording.shortened(str(report["asked"]), _REASON_SHOWN))
            )
        if report.get("position") is not None:
            facts.append(Fact(_("At event"), wording.place(report["position"])))
        if self.workflow.blocked_version:
            facts.append(Fact(_("Code version"), self.workflow.blocked_version))
        next_step = _("It is retried once after the next deploy, or when someone unblocks it.")
        if is_bug:
            next_step = _("Deploy a repaired version. It is retried after each deploy, and when someone unblocks it.")
        facts.append(Fact(_("What happens next"), next_step))
        return Facts(_("Blocked"), facts, kind="alarm")

    def _failure(self, failure: Any) -> Text:
        failure_data = failures.readable(failure, self.failures, self.workflow.pk, 1 if self.workflow.single else None)
        if not self.failures.is_shown:
            named = failure_words(failure_data)
            placeholder = format_html('<span class="durable-quiet">{}</span>', self.failures.placeholder)
            return Text(
                _("Failure"),
                format_html("{}{}", payloads.block(named, self.space), placeholder) if named else placeholder,
            )
        words = failure_words(failure_data) or str(self.workflow.failure_text)
        traceback = str(failure_data.get("traceback") or "") if isinstance(failure_data, dict) else ""
        body: SafeString = payloads.block(words, self.space)
        if traceback:
            body = format_html(
                "{}<details><summary>{}</summary>{}</details>",
                body,
                _("Traceback"),
                payloads.block(traceback, self.space),
            )
        return Text(_("Failure"), body)

    def _pending_work(self) -> Table:
        rows: list[Any] = list(
            self.scope.rows()
            .filter(workflow_id=self.workflow.pk, run=self.workflow.run, status__in=_WAITED_FOR)
            .select_related("workitem")
            .defer("input", "options", "last_heartbeat", "workitem__heartbeat")
            .annotate(newest_attempt=attempts.newest_attempt_of_row())
            .order_by("status", "ordinal")[: ROWS_SHOWN + 1]  # with a worker, dead letters, waiting: by the alphabet
        )
        wanted = [row.newest_attempt for row in rows if row.newest_attempt is not None]
        failed = list(attempts.failed_attempts().filter(pk__in=wanted))
        errors = {
            row.outbox_row_id: attempt
            for row, attempt in zip(failed, attempts.read(failed, self.failures), strict=True)
        }
        return Table(
            _("Pending work"),
            [_("Activity"), _("Status"), _("Attempts"), _("Deliveries"), _("Next try"), _("Worker"), _("Last error")],
            [self._pending_row(row, errors.get(row.pk)) for row in rows[:ROWS_SHOWN]],
            empty=_("No activity is open."),
            footnote=self._more(OutboxRow, _("All activities of this workflow")) if len(rows) > ROWS_SHOWN else "",
        )

    def _pending_row(self, row: Any, error: attempts.ReadAttempt | None) -> Sequence[object]:
        item: WorkItem | None = getattr(row, "workitem", None)
        named = format_html("{}. {}", wording.number(row.ordinal), wording.name(row.activity, 80))
        return [
            self.room.link(OutboxRow, row.pk, named),
            wording.outbox_status(row.status, paused=row.paused),
            attempts.attempt_words(row),
            attempts.delivery_words(row),
            attempts.next_try(row, self.now),
            self._holder(item, self.now),
            wording.NOTHING if error is None else error.error(self.space),
        ]

    def _holder(self, item: WorkItem | None, now: datetime) -> object:
        if item is None:
            return wording.NOTHING
        lines = [wording.isolated(item.worker)]
        if item.locked_until <= now:
            lines.append(wording.badge(_("Lease expired"), "bad"))
        elif item.queue and item.begun_at is None:
            lines.append(wording.badge(_("Sent, not begun"), "wait"))
        if item.cancel_requested_at is not None:
            lines.append(format_html("{} {}", _("Cancel:"), cancel_words(item)))
        return _lines(lines)

    def _messages(self) -> Table:
        """The messages that wait for the next turn; for an ended workflow, those that it has not read."""
        ended = self.workflow.closed_at is not None
        # Where payloads are hidden no part of one is read; the names stand in the history.
        beginning = Left("payload", NAME_WITHIN) if self.seen.is_shown else Value("")
        messages: list[Any] = list(
            Message.objects.using(settings.database_alias)
            .filter(workflow_id=self.workflow.pk)
            .annotate(beginning=beginning)
            .defer("payload")
            .order_by("visible_at", "pk")[: ROWS_SHOWN + 1]
        )
        footnote = self._more(Message, _("All messages of this workflow")) if len(messages) > ROWS_SHOWN else ""
        if ended and messages:
            said = _("The workflow ended before it read these. They are kept with it.")
            footnote = format_html("{} {}", said, footnote)
        return Table(
            _("Unread messages") if ended else _("Waiting messages"),
            [_("Message"), _("State"), _("Activity"), _("Due"), _("Arrived")],
            [
                [
                    self.room.link(Message, message.pk, message_words(message.kind, message.beginning)),
                    message_state(message, self.now, ended=ended),
                    wording.place(message.ordinal),
                    wording.moment_and_distance(message.visible_at, self.now),
                    wording.moment(message.created_at),
                ]
                for message in messages[:ROWS_SHOWN]
            ],
            empty=_("No messages waiting."),
            footnote=footnote,
        )

    def _more(self, model: Any, text: str) -> SafeString:
        address = self.room.address(model, "changelist")
        return format_html('<a href="{}?{}">{}</a>', address, urlencode({"workflow": self.workflow.pk}), text)


def dead_letters_of(room: Room, workflow_ids: Sequence[uuid.UUID]) -> str:
    """The address of the list of these workflows' dead letters."""
    return f"{room.address(DeadLetter, 'changelist')}?{urlencode({'workflow': ','.join(map(str, workflow_ids))})}"


def _is_installed(name: str) -> bool:
    try:
        registry.workflow(name)
    except NotRegistered:
        return False
    except ConfigurationError:  # two functions have the name: a check reports that
        return True
    return True


def _patches(row: Workflow) -> list[Fact]:
    """Which way it has taken at each change of its code that it has come by."""
    if not row.patches:
        return []
    ways = {True: _("new way"), False: _("old way")}
    return [Fact(_("Patches"), _lines([format_html("{}: {}", id, ways[is_new]) for id, is_new in row.patches.items()]))]


def _lines(values: Sequence[SafeString]) -> SafeString:
    """Each on a line of its own."""
    joined = format_html("{}", values[0])
    for value in values[1:]:
        joined = format_html("{}<br>{}", joined, value)
    return joined
