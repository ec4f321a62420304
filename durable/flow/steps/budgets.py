"""How large a full budget is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from durable.conf import settings
from durable.errors import NotRegistered
from durable.kernel.registry import registry
from durable.kernel.retry import Retry


def attempts(activity: str, options: Mapping[str, Any]) -> int:
    """The application attempts of a full budget: the row's own choice, else the definition's, else the settings'."""
    if "retry" in options:
        return Retry.from_data(options["retry"]).max_attempts
    try:
        own = registry.activity(activity).retry
    except NotRegistered:
        own = None
    return (own or settings.default_retry).max_attempts
