"""Events as sentences. Whatever an event's data contains, there is a sentence; it is plain text, never markup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from durable.admin.words.wording import name, number, shortened
from durable.kernel.history.events import EventType
from durable.kernel.history.known import UNREADABLE

_LONGEST = 400
_CAUSES_NAMED = 10

_TONES = {
    EventType.WORKFLOW_COMPLETED: "good",
    EventType.ACTIVITY_COMPLETED: "good",
    EventType.CHILD_COMPLETED: "good",
    EventType.WORKFLOW_FAILED: "bad",
    EventType.WORKFLOW_TIMED_OUT: "bad",
    EventType.WORKFLOW_BLOCKED: "bad",
    EventType.ACTIVITY_FAILED: "bad",
    EventType.CHILD_FAILED: "bad",
    EventType.MARKER_RECORDED: "bad",
    EventType.WORKFLOW_CANCELLED: "off",
    EventType.ACTIVITY_CANCELLED: "off",
    EventType.CHILD_CANCELLED: "off",
    EventType.ACTIVITY_DISCARDED: "off",
    EventType.CANCEL_REQUESTED: "off",
    EventType.WORKFLOW_PAUSED: "wait",
}


def tone(event_type: str) -> str:
    """The colour of an event: good, bad, off, wait, or live."""
    return _TONES.get(event_type, "live")  # type: ignore[call-overload, no-any-return]


def sentence(event_type: str, data: Any, *, ordinal: int | None, activity: str | None) -> SafeString:
    """What happened, in one sentence, as HTML. `activity` is the name of the activity of this ordinal, if known."""
    facts: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
    write = _SENTENCES.get(event_type)
    if write is None:
        return format_html("{}", name(event_type.replace("_", " ").capitalize()))
    return format_html("{}", write(facts, _named(ordinal, activity)))


def _filled(text: str, **values: object) -> SafeString:
    """A sentence with names and texts of others in it, each in its own direction."""
    shown = {key: value if isinstance(value, SafeString) else _isolated(value) for key, value in values.items()}
    return SafeString(escape(text) % shown)


def _isolated(value: object) -> SafeString:
    return format_html("<bdi>{}</bdi>", shortened(str(value), _LONGEST))


def failure_words(failure: Any) -> str:
    """`type: message` of a stored failure, or an empty text."""
    if not isinstance(failure, Mapping):
        return ""
    kind, message = str(failure.get("type") or ""), str(failure.get("message") or "")
    return f"{kind}: {message}" if kind and message else kind or message


def _named(ordinal: int | None, activity: str | None) -> SafeString:
    if activity and ordinal is not None:
        return _filled(_("Activity %(ordinal)s (%(name)s)"), ordinal=_number(ordinal), name=activity)
    if ordinal is not None:
        return _filled(_("Activity %(ordinal)s"), ordinal=_number(ordinal))
    return _filled(_("An activity"))


def _number(value: int) -> SafeString:
    return format_html("{}", number(value))


def _by_and_why(facts: Mapping[str, Any], did: str) -> SafeString:
    """`did`, by whom and why, as far as the event says so."""
    actor, reason = facts.get("actor"), facts.get("reason")
    done = format_html("{}", did)
    if actor:
        done = _filled(_("%(did)s by %(actor)s"), did=done, actor=actor)
    return _filled(_("%(did)s: %(reason)s"), did=done, reason=reason) if reason else done


def _started(facts: Mapping[str, Any], named: SafeString) -> str:
    return _filled(_("Started as %(type)s"), type=facts["type"]) if facts.get("type") else _("Started")


def _failed(facts: Mapping[str, Any], named: SafeString) -> str:
    words = failure_words(facts.get("failure"))
    failed = _filled(_("Failed with %(error)s"), error=words) if words else format_html("{}", _("Failed"))
    cause = facts.get("cause")
    if not isinstance(cause, list) or not cause:
        return failed
    more = len(cause) - _CAUSES_NAMED
    listed = ", ".join(str(ordinal) for ordinal in cause[:_CAUSES_NAMED]) + (f", +{number(more)}" if more > 0 else "")
    text = ngettext("%(failed)s (caused by call %(ordinals)s)", "%(failed)s (caused by calls %(ordinals)s)", len(cause))
    return _filled(text, failed=failed, ordinals=listed)


def _cancelled(facts: Mapping[str, Any], named: SafeString) -> str:
    return _by_and_why(facts, _("Terminated") if facts.get("terminated") else _("Cancelled"))


def _blocked(facts: Mapping[str, Any], named: SafeString) -> str:
    reason = facts.get("reason")
    return _filled(_("Blocked: %(reason)s"), reason=reason) if reason else _("Blocked")


def _scheduled(facts: Mapping[str, Any], named: SafeString) -> str:
    return _filled(_("%(named)s was scheduled"), named=named)


def _activity_completed(facts: Mapping[str, Any], named: SafeString) -> str:
    return _filled(_("%(named)s completed"), named=named)


def _activity_failed(facts: Mapping[str, Any], named: SafeString) -> str:
    words = failure_words(facts.get("failure"))
    text = _filled(_("%(named)s failed"), named=named)
    if words:
        text = _filled(_("%(named)s failed with %(error)s"), named=named, error=words)
    attempts = facts.get("attempts")
    if isinstance(attempts, int) and attempts > 0:
        made = ngettext("%(failed)s (after %(count)s attempt)", "%(failed)s (after %(count)s attempts)", attempts)
        text = _filled(made, failed=text, count=_number(attempts))
    return text


def _activity_cancelled(facts: Mapping[str, Any], named: SafeString) -> str:
    return _filled(_("%(named)s was cancelled"), named=named)


def _child(facts: Mapping[str, Any]) -> SafeString:
    return _isolated(facts.get("child") or "?")


def _child_started(facts: Mapping[str, Any], named: SafeString) -> str:
    values = {"type": facts.get("type") or "?", "child": _child(facts)}
    if "refused" in facts:
        return _filled(_("Child %(type)s was not started: its key was taken"), **values)
    return _filled(_("Child %(type)s started as %(child)s"), **values)


def _child_failed(facts: Mapping[str, Any], named: SafeString) -> str:
    words = failure_words(facts.get("failure"))
    if words:
        return _filled(_("Child %(child)s failed with %(error)s"), child=_child(facts), error=words)
    text = {
        "cancelled": _("Child %(child)s was cancelled"),
        "timed_out": _("Child %(child)s timed out"),
        "refused": _("Child %(child)s was not started: its key was taken"),
    }.get(str(facts.get("status")), _("Child %(child)s failed"))
    return _by_and_why(facts, _filled(text, child=_child(facts)))


def _sent(facts: Mapping[str, Any], named: SafeString) -> str:
    values = {name: facts.get(name) or "?" for name in ("to", "type", "key", "name")}
    by_key = "to" not in facts
    if facts.get("name"):
        text = _("Signal “%(name)s” sent to %(to)s")
        if by_key:
            text = _("Signal “%(name)s” sent to %(type)s with the key “%(key)s”")
    else:
        text = _("Workflow %(to)s asked to cancel")
        if by_key:
            text = _("Workflow %(type)s with the key “%(key)s” asked to cancel")
    return _refused(facts, _filled(text, **values))


def _refused(facts: Mapping[str, Any], did: SafeString) -> SafeString:
    """`did`, and a second sentence that says why it was not accepted if it was not."""
    refused = facts.get("refused")
    if refused is None:
        return did
    why = {
        "closed": _("It was refused, since the workflow had ended."),
        "not_found": _("It was refused, since there was no such workflow."),
        "single": _("It was refused, since this is a single activity."),
        "full": _("It was refused, since too much waited to be read there."),
    }.get(str(refused), _("It was refused."))
    return format_html("{}. {}", did, why)


def _answered(facts: Mapping[str, Any], named: SafeString) -> str:
    if facts.get("refused") is None:
        return _("The other workflow has accepted what was sent")
    return _refused(facts, _filled(_("The other workflow has not accepted what was sent")))


def _redriven(facts: Mapping[str, Any], named: SafeString) -> str:
    did = _filled(_("%(named)s was redriven"), named=named)
    if facts.get("mode") == "forced":
        did = _filled(_("%(named)s was redriven by force"), named=named)
    return _by_and_why(facts, did)


def _discarded(facts: Mapping[str, Any], named: SafeString) -> str:
    return _by_and_why(facts, _filled(_("%(named)s was discarded"), named=named))


def _timer_fired(facts: Mapping[str, Any], named: SafeString) -> str:
    timer = facts.get("timer")
    if isinstance(timer, list) and len(timer) == 2:
        return _filled(_("The timer set by event %(seq)s fired"), seq=str(timer[0]))
    return _("A timer fired")


def _signal(facts: Mapping[str, Any], named: SafeString) -> str:
    name = facts.get("name")
    return _filled(_("Signal “%(name)s” received"), name=name) if name else _("A signal was received")


def _marker(facts: Mapping[str, Any], named: str) -> str:
    if facts.get("kind") != UNREADABLE:
        return _("Marker recorded")
    which = {"seq": facts.get("seq") or "?", "problem": facts.get("problem")}
    if not which["problem"]:
        return _("The code could not read the signal of event %(seq)s") % which
    return _("The code could not read the signal of event %(seq)s: %(problem)s") % which


_SENTENCES: Mapping[str, Any] = {
    EventType.WORKFLOW_STARTED: _started,
    EventType.WORKFLOW_BEGUN: lambda facts, named: _("Its code started running"),
    EventType.WORKFLOW_COMPLETED: lambda facts, named: _("Completed"),
    EventType.WORKFLOW_FAILED: _failed,
    EventType.WORKFLOW_CANCELLED: _cancelled,
    EventType.WORKFLOW_TIMED_OUT: lambda facts, named: _("Timed out"),
    EventType.WORKFLOW_PAUSED: lambda facts, named: _by_and_why(facts, _("Paused")),
    EventType.WORKFLOW_RESUMED: lambda facts, named: _by_and_why(facts, _("Resumed")),
    EventType.WORKFLOW_REOPENED: lambda facts, named: _by_and_why(facts, _("Reopened")),
    EventType.WORKFLOW_BLOCKED: _blocked,
    EventType.WORKFLOW_UNBLOCKED: lambda facts, named: _by_and_why(facts, _("Unblocked")),
    EventType.CANCEL_REQUESTED: lambda facts, named: _by_and_why(facts, _("Cancellation requested")),
    EventType.ACTIVITY_SCHEDULED: _scheduled,
    EventType.ACTIVITY_COMPLETED: _activity_completed,
    EventType.ACTIVITY_FAILED: _activity_failed,
    EventType.ACTIVITY_CANCELLED: _activity_cancelled,
    EventType.CHILD_STARTED: _child_started,
    EventType.CHILD_COMPLETED: lambda facts, named: _filled(_("Child %(child)s completed"), child=_child(facts)),
    EventType.CHILD_FAILED: _child_failed,
    EventType.CHILD_CANCELLED: lambda facts, named: _filled(
        _("Child %(child)s is no longer awaited"), child=_child(facts)
    ),
    EventType.SIGNAL_SENT: _sent,
    EventType.SIGNAL_ANSWERED: _answered,
    EventType.ACTIVITY_REDRIVEN: _redriven,
    EventType.ACTIVITY_DISCARDED: _discarded,
    EventType.TIMER_FIRED: _timer_fired,
    EventType.SIGNAL_RECEIVED: _signal,
    EventType.MARKER_RECORDED: _marker,
}
