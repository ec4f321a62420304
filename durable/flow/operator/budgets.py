"""How large a full budget is."""

from __future__ import annotations

import json

from durable.conf import settings
from durable.errors import AlreadyRegistered, NotRegistered, UsageError
from durable.kernel.definitions.options import resolve
from durable.kernel.definitions.registry import registry


class Unreadable(ValueError):
    """Stored options that no worker could read; the text says what is wrong with them."""


def attempts(activity: str, options: str) -> int | None:
    """The application attempts of a full budget: the row's own choice (its options, as stored), else the definition's,
    else the settings'; None: no limit. Raises `Unreadable`.
    """
    try:
        definition = registry.activity(activity)
    except (NotRegistered, AlreadyRegistered):  # its declaration is not known here
        definition = None
    try:
        data = json.loads(options)
        if not isinstance(data, dict):
            raise Unreadable(f"its options are {type(data).__name__}, not an object")
        return resolve(data, definition, settings).attempt_budget
    except Unreadable:
        raise
    except (UsageError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise Unreadable(f"its options: {type(error).__name__}: {error}"[:200]) from error
