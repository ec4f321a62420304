"""What the command shows of stored data. The key of a run's digests: never. Payloads and error messages, which may
quote them: not under `REDACT_PAYLOADS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from durable.client import hidden as fields
from durable.conf import settings
from durable.kernel.history.events import DIGEST_KEY, Event, EventType
from durable.kernel.payloads.birthplace import NOWHERE, PAYLOAD_KEYS, PayloadKind, failure_within
from durable.outcomes import Failure, Naming, Snapshot
from durable.store.texts import failures

HIDDEN = "hidden: REDACT_PAYLOADS"

_PAYLOADS = frozenset({"input", "result", "payload", "digest"})
_OF_FAILURES = frozenset({"message", "traceback"})


def of_payload(value: Any) -> Any:
    """A payload, or the note in its place."""
    return HIDDEN if settings.redact_payloads and value is not None else value


def of_text(text: str) -> str:
    """A text that may quote an error, or the note in its place."""
    return HIDDEN if settings.redact_payloads and text else text


def of_failure(failure: Failure) -> Failure:
    """A failure as it may be shown: its class always."""
    return Failure(failure.type, HIDDEN) if settings.redact_payloads else failure


def of_naming(naming: Naming) -> Naming:
    """By what a dead letter is recognised, likewise."""
    return naming.without_text() if settings.redact_payloads else naming


def of_event(event: Event, workflow: Snapshot) -> Any:
    """An event's data as it may be shown."""
    data = dict(event.data)
    hidden = _PAYLOADS
    if event.type is EventType.WORKFLOW_BLOCKED:
        data, hidden = failures.read_block(data, workflow.id), _PAYLOADS | failures.BLOCK_TEXTS
    if isinstance(data.get("failure"), Mapping):
        born = failure_within(data, workflow.id, ordinal=event.ordinal, single=workflow.single)
        data["failure"] = failures.read_born(data["failure"], born).as_data()
    return _of(data, hidden)


def of_message(data: Any) -> Any:
    """The same of what was sent, and not read."""
    return _of(data, _PAYLOADS)


def _of(data: Any, hidden: frozenset[str]) -> Any:
    if isinstance(data, Mapping):
        return {key: _of_value(key, value, hidden) for key, value in data.items() if key != DIGEST_KEY}
    return [_of(item, hidden) for item in data] if isinstance(data, list) else data


def _of_value(key: str, value: Any, hidden: frozenset[str]) -> Any:
    if key in hidden:
        return of_payload(_without_secrets(key, value))
    return _of(value, _OF_FAILURES if key == "failure" else hidden)


def _without_secrets(key: str, value: Any) -> Any:
    """A payload as it is stored, with its secret fields hidden. Nothing in an encrypted one is seen."""
    if key not in PAYLOAD_KEYS or not isinstance(value, str):
        return value
    kind = PayloadKind.RESULT if key == "result" else PayloadKind.VALUE
    return fields.of_text(value, NOWHERE._replace(kind=kind))
