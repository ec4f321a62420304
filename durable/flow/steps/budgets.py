"""How large a full budget is."""

from __future__ import annotations

import json

from durable.conf import settings
from durable.errors import NotRegistered, UsageError
from durable.kernel.options import stored_retry, stored_start_to_close
from durable.kernel.registry import registry


class Unreadable(ValueError):
    """Stored options that no worker could read; the text says what is wrong with them."""


def attempts(activity: str, options: str) -> int:
    """The application attempts of a full budget: the row's own choice (its options, as stored), else the definition's,
    else the settings'. Raises `Unreadable`.
    """
    try:
        data = json.loads(options)
        if not isinstance(data, dict):
            raise Unreadable(f"its options are {type(data).__name__}, not an object")
        stored_start_to_close(data)
        chosen = stored_retry(data)
    except Unreadable:
        raise
    except (UsageError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise Unreadable(f"its options: {type(error).__name__}: {error}"[:200]) from error
    if chosen is not None:
        return chosen.max_attempts
    try:
        own = registry.activity(activity).retry
    except NotRegistered:
        own = None
    return (own or settings.default_retry).max_attempts
