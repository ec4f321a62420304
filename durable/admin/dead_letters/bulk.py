"""Background jobs: their progress and results, read from the history of their workflows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db.models import TextField
from django.db.models.functions import Cast
from django.utils.html import format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from durable import clock
from durable.activities import QUEUE, BulkJob, BulkProgress, BulkVerb, Stopped
from durable.admin.dead_letters.actions import ACTIONS
from durable.admin.dead_letters.filters import in_words
from durable.admin.words import refusals, wording
from durable.conf import settings
from durable.flow.looks import look
from durable.kernel.codec import decode_arguments
from durable.kernel.history.events import EventType
from durable.kernel.payloads import birthplace
from durable.models import DeadLetter, Event, StaffAction, Workflow
from durable.outcomes import TERMINAL, WorkflowStatus
from durable.scope import Scope
from durable.workflows import change_dead_letters

if TYPE_CHECKING:
    from durable.admin.lists.room import Room

_STOPPED: dict[str, Any] = {
    Stopped.ACTOR_GONE: gettext_lazy("the user who asked for it no longer exists."),
    Stopped.ACTOR_INACTIVE: gettext_lazy("the user who asked for it is no longer an active member of staff."),
    Stopped.PERMISSION_LOST: gettext_lazy("the user who asked for it no longer has the permission."),
    Stopped.SCOPE_FAILED: gettext_lazy("the function that limits what users see (ADMIN_SCOPE) failed."),
}
LISTED = 50
_LOOKED_AT = 50
"""How many events at the end of the history contain the last result: a batch makes three or four."""


def bulk_list(room: Any, scope: Scope) -> dict[str, Any]:
    """The latest jobs, newest first. Users with a limited scope see their own and those in their scope, of the last
    hundreds.
    """
    rows = Workflow.objects.using(settings.database_alias).filter(type=change_dead_letters.name).order_by("-pk")
    some = list(rows.defer("result", "failure", "timers")[: LISTED if scope.is_whole else 4 * LISTED])
    now = clock.host_now()
    works = [
        {
            "address": room.progress_address(row.pk),
            "label": _label(job),
            "words": "" if job is None else "; ".join([*in_words(job.wanted), *filter(None, [job.reason])]),
            "who": "" if job is None else job.actor_text,
            "status": wording.workflow_status(row.status, blocked_reason=row.blocked_reason),
            "created": wording.moment_and_distance(row.created_at, now),
        }
        for row, job in _visible(some, scope)[:LISTED]
    ]
    return {
        "works": works,
        "listed": wording.number(LISTED),
        "is_full": len(works) == LISTED,
    }


def _visible(rows: Sequence[Any], scope: Scope) -> list[tuple[Any, BulkJob | None]]:
    """The jobs that a user may see, with their requests: those in the user's scope, and the user's own."""
    jobs = [(row, _job(row.pk, row.input)) for row in rows]
    if scope.is_whole:
        return jobs
    seen = set(scope.workflows().filter(pk__in=[row.pk for row in rows]).values_list("pk", flat=True))
    mine = str(scope.user.pk)
    return [(row, job) for row, job in jobs if row.pk in seen or (job is not None and job.actor_key == mine)]


def bulk_page(room: Room, workflow_id: uuid.UUID, scope: Scope) -> dict[str, Any] | None:
    """The data of a job's page; None if there is no such job, or none that this user may see."""
    rows = Workflow.objects.using(settings.database_alias).filter(pk=workflow_id, type=change_dead_letters.name)
    row = rows.defer("result", "failure", "timers").first()
    if row is None or not (visible := _visible([row], scope)):
        return None
    job = visible[0][1]
    result = _last_result(row)
    progress = None if result is None else _progress(row.pk, *result)
    completed = row.status == WorkflowStatus.COMPLETED
    over = row.status in {status.value for status in TERMINAL}
    counts = {} if progress is None else dict(progress.counts)
    stopped = "" if progress is None else progress.stopped
    if over and (stopped or not completed) and job is not None and progress is not None:
        uncounted = _done_in_the_last_piece(job, progress)
        if uncounted:
            counts[job.verb.done] = counts.get(job.verb.done, 0) + uncounted
    return {
        "title": _label(job),
        "job": job,
        "filter_words": [] if job is None else in_words(job.wanted),
        "workflow_link": room.workflow_link(row.pk),
        "status": wording.workflow_status(row.status, blocked_reason=row.blocked_reason),
        "created": wording.moment_and_distance(row.created_at, clock.host_now()),
        "closed": None if row.closed_at is None else wording.moment(row.closed_at),
        "lines": [_line(room, job, code, count, progress) for code, count in _ordered(job, counts)],
        "seen": wording.number(sum(counts.values())),
        "over": over,
        "completed": completed,
        "stopped": _STOPPED.get(stopped, stopped),
        "unreadable": result is not None and progress is None,
        "paused": row.status == WorkflowStatus.PAUSED,
        "blocked": bool(row.blocked_reason),
        "waiting": not over and result is None,
        "unserved": not over and not look.workers_of(row.queue),
        "queue": QUEUE,
    }


def _line(
    room: Room, job: BulkJob | None, code: str, count: int, progress: BulkProgress | None
) -> Mapping[str, object]:
    keys = [] if progress is None else progress.examples.get(code, [])
    links = format_html_join(", ", "{}", ((room.link(DeadLetter, key, f"#{key}"),) for key in keys))
    if job is not None and code == job.verb.done:
        did = _("Discarded") if job.verb is BulkVerb.DISCARD else _("Queued for retry")
        return {"count": wording.number(count), "short": did, "why": "", "next": "", "links": links, "tone": "good"}
    words = refusals.of_code(code)
    return {
        "count": wording.number(count),
        "short": words.short,
        "why": words.why,
        "next": words.next,
        "links": links,
        "tone": "wait",
    }


def _ordered(job: BulkJob | None, counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """What was done first, then the refusals, the most frequent first."""
    done = "" if job is None else job.verb.done
    return sorted(counts.items(), key=lambda item: (item[0] != done, -item[1]))


def _label(job: BulkJob | None) -> str:
    if job is None:
        return _("Background job")
    action = next(action for action in ACTIONS.values() if action.verb is job.verb)
    return _("%(action)s: all that match") % {"action": action.label}


def _job(workflow_id: uuid.UUID, text: str) -> BulkJob | None:
    """The request, if it can be read."""
    try:
        _args, named = decode_arguments(change_dead_letters, text, codec=settings.codec(), workflow_id=workflow_id)
        job = named.get("job") or _args[0]
    except BaseException:  # noqa: BLE001 - the codec is the project's code, and a page has to open without its help
        return None
    return job if isinstance(job, BulkJob) else None


def _done_in_the_last_piece(job: BulkJob, progress: BulkProgress) -> int:
    """How many rows were changed by a batch that began but has no result, because the job ended meanwhile."""
    rows = [row_id for *_place, row_id in progress.coming]
    audits = StaffAction.objects.using(settings.database_alias).filter(request=job.request, outbox_row_id__in=rows)
    return audits.count() if rows else 0


def _last_result(row: Any) -> tuple[int, str] | None:
    """The ordinal of the last finished batch, and its stored result, from the last events of the history. None before
    the first.
    """
    events = Event.objects.using(settings.database_alias).filter(
        workflow_id=row.pk, seq__gt=row.last_seq - _LOOKED_AT, type=EventType.ACTIVITY_COMPLETED.value
    )
    texts = events.annotate(text=Cast("data", TextField())).order_by("-seq").values_list("ordinal", "text")
    ordinal, text = texts.first() or (None, None)
    if text is None:
        return None
    data = wording.read_json(text)
    return ordinal or 0, str(data.get("result")) if isinstance(data, dict) else text


def _progress(workflow_id: uuid.UUID, ordinal: int, result: str) -> BulkProgress | None:
    """The progress of the job, if it can be read."""
    try:
        born = birthplace.result(workflow_id, ordinal)
        progress = settings.codec().decode(result, BulkProgress, path="result", birthplace=born)
    except BaseException:  # noqa: BLE001 - as above
        return None
    return progress if isinstance(progress, BulkProgress) else None
