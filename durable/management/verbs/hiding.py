"""What the command shows of stored facts: the key of a run's digests never, and no payloads under `REDACT_PAYLOADS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from durable.conf import settings
from durable.kernel.events import DIGEST_KEY

HIDDEN = "hidden: REDACT_PAYLOADS"

_OF_PAYLOADS = frozenset({"input", "result", "payload", "digest"})


def of_payload(value: Any) -> Any:
    """A payload, or the note in its place."""
    return HIDDEN if settings.redact_payloads and value is not None else value


def of_event(data: Any) -> Any:
    """An event's data, at any depth, as it may be shown."""
    if isinstance(data, Mapping):
        return {
            key: of_payload(value) if key in _OF_PAYLOADS else of_event(value)
            for key, value in data.items()
            if key != DIGEST_KEY
        }
    return [of_event(one) for one in data] if isinstance(data, list) else data
