"""Error messages as they are shown, or in their place the error's class, which everybody may see."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from durable.admin.words.sight import FailureSight
from durable.kernel.history.events import EventType
from durable.kernel.payloads import birthplace
from durable.kernel.payloads.birthplace import Birthplace
from durable.outcomes import Naming
from durable.store.texts import failures as stored

HIDDEN = "hidden"
"""The key that says in an event's data that something was left out, and why."""


def readable(failure: Any, seen: FailureSight, workflow_id: uuid.UUID, ordinal: int | None) -> Any:
    """A stored failure for reading; where its texts are hidden, its class and the note. `ordinal` is that of the
    activity, or None for the workflow's own; a single activity is activity 1.
    """
    return _readable(failure, seen, birthplace.failure(workflow_id, ordinal))


def _readable(failure: Any, seen: FailureSight, born: Birthplace) -> Any:
    if not isinstance(failure, Mapping):
        return failure if seen.is_shown or failure is None else {"type": "", HIDDEN: seen.placeholder}
    if not seen.is_shown:
        return {"type": str(failure.get("type") or ""), HIDDEN: seen.placeholder}
    return stored.read_born(failure, born).as_data() if stored.SEALED in failure else failure


def of_event(event_type: str, data: Any, seen: FailureSight, workflow: Any, ordinal: int | None) -> Any:
    """An event's data with the texts of failures made readable, or without them where those are hidden."""
    if not isinstance(data, Mapping):
        return data
    kept = dict(data)
    if event_type == EventType.WORKFLOW_BLOCKED:
        kept = block(kept, seen, workflow.pk)
    if "failure" in kept:
        born = birthplace.failure_within(data, workflow.pk, ordinal=ordinal, single=workflow.single)
        kept["failure"] = _readable(kept["failure"], seen, born)
    return kept


def of_message(data: Any, seen: FailureSight, workflow_id: uuid.UUID, ordinal: int | None) -> Any:
    """The data of a message that tells of a failure, likewise."""
    if not isinstance(data, Mapping) or "failure" not in data:
        return data
    born = birthplace.failure_within(data, workflow_id, ordinal=ordinal, single=False)
    return {**data, "failure": _readable(data["failure"], seen, born)}


def block(data: Mapping[str, Any], seen: FailureSight, workflow_id: uuid.UUID) -> dict[str, Any]:
    """What a *blocked* event says, likewise."""
    if seen.is_shown:
        return stored.read_block(data, workflow_id)
    left_out = stored.BLOCK_TEXTS | {stored.SEALED}
    return {**{key: value for key, value in data.items() if key not in left_out}, HIDDEN: seen.placeholder}


def named(naming: Naming | None, seen: FailureSight) -> str:
    """How a dead letter is recognised: its business key, and its error as far as it may be seen."""
    if naming is None:
        return ""
    shown = naming if seen.is_shown else naming.without_text()
    key = _("key %(key)s") % {"key": shown.key} if shown.key else ""
    return ", ".join(filter(None, [key, shown.error]))
