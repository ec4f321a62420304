"""Why it was done: the text that becomes part of an audit and of a history."""

from __future__ import annotations

from durable.errors import OptionInvalid
from durable.kernel.definitions.options import check_storable


def check(reason: str) -> None:
    """Raises `OptionInvalid` for what is no text, or text that no database takes."""
    check_storable("reason", reason)


def demand(reason: str, *, of: str) -> None:
    """The same, and raise it for an empty one, too; `of` says what needs a reason."""
    check(reason)
    if not reason.strip():
        raise OptionInvalid("reason", reason, f"needed for {of}: it becomes part of the audit")
