"""Who did it: a user, or a text."""

from __future__ import annotations

from typing import Any

from durable.errors import OptionInvalid


def identify(actor: Any) -> tuple[Any, str]:
    """The key of a user (None for a text or nobody), and the text that stays when the user is gone. Raises
    `OptionInvalid` for text that no database takes.
    """
    if actor is None:
        return None, ""
    text = str(actor)[:300]
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise OptionInvalid("actor", text, "a user, or text without NUL characters and lone surrogates")
    return (None if isinstance(actor, str) else getattr(actor, "pk", None)), text
