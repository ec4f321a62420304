"""Who may see what errors said, and what is shown in its place: their class, which is for everybody."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from durable.conf import settings
from durable.kernel.events import EventType
from durable.outcomes import Naming

HIDDEN = "hidden"
"""The key that says in an event's data that something was left out, and why."""

_OF_BLOCKS = frozenset({"reason", "recorded", "asked", "problem"})


class Visibility(Enum):
    """Whether this reader sees the texts of failures, and if not, why."""

    SHOWN = "shown"
    NO_PERMISSION = "no_permission"
    REDACTED = "redacted"

    @property
    def note(self) -> str:
        """What stands in the place of a hidden text."""
        if self is Visibility.REDACTED:
            return _("Hidden: this site shows no texts of failures.")
        return _("Hidden: you need the permission to view failures.")


def visibility(request: HttpRequest) -> Visibility:
    """What the setting and the reader's permission say: an error may quote any payload."""
    if settings.redact_payloads:
        return Visibility.REDACTED
    if request.user.has_perm("durable.view_failure"):
        return Visibility.SHOWN
    return Visibility.NO_PERMISSION


def readable(failure: Any, seen: Visibility) -> Any:
    """A stored failure for reading; where its texts are hidden, its class and the note."""
    if seen is Visibility.SHOWN or failure is None:
        return failure
    named = str(failure.get("type") or "") if isinstance(failure, Mapping) else ""
    return {"type": named, HIDDEN: seen.note}


def of_event(event_type: str, data: Any, seen: Visibility) -> Any:
    """An event's data without the texts of failures, where those are hidden."""
    if seen is Visibility.SHOWN or not isinstance(data, Mapping):
        return data
    kept = dict(data)
    if event_type == EventType.WORKFLOW_BLOCKED and any(key in kept for key in _OF_BLOCKS):
        kept = {**{key: value for key, value in kept.items() if key not in _OF_BLOCKS}, HIDDEN: seen.note}
    if "failure" in kept:
        kept["failure"] = readable(kept["failure"], seen)
    return kept


def named(naming: Naming | None, seen: Visibility) -> str:
    """By what a dead letter is recognised: its business key, and its error as far as it may be seen."""
    if naming is None:
        return ""
    return str(naming if seen is Visibility.SHOWN else naming.without_text())
