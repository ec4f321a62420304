"""Who did it: a user, or a text."""

from __future__ import annotations

from typing import Any


def identify(actor: Any) -> tuple[Any, str]:
    """The key of a user (None for a text or nobody), and the text that stays when the user is gone."""
    if actor is None:
        return None, ""
    if isinstance(actor, str):
        return None, actor[:300]
    return getattr(actor, "pk", None), str(actor)[:300]
