"""Annotations as they are at run time."""

from __future__ import annotations

import types
import typing
from typing import Any


class Unresolved:
    """An annotation that has no meaning at run time (a name imported for type checkers only)."""

    def __init__(self, text: str) -> None:
        self.text = text


def resolved(owner: Any) -> dict[str, Any]:
    """The annotations of a class or function; those that have no meaning at run time are `Unresolved`."""
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations are the user's code: looking at one may raise anything
        hints: dict[str, Any] = {}
        for ancestor in reversed(getattr(owner, "__mro__", [owner])):
            for name, hint in getattr(ancestor, "__annotations__", {}).items():
                hints[name] = _alone(ancestor, name, hint)
        return hints


def _alone(owner: Any, name: str, hint: Any) -> Any:
    single: Any = types.SimpleNamespace(__annotations__={name: hint})
    if isinstance(owner, type):
        single = types.new_class("Single")
        single.__annotations__ = {name: hint}
        single.__module__ = owner.__module__
    try:
        space = getattr(owner, "__globals__", None)
        return typing.get_type_hints(single, globalns=space, include_extras=True)[name]
    except Exception:  # noqa: BLE001 - as above
        return Unresolved(hint if isinstance(hint, str) else repr(hint))


def label(hint: Any) -> str:
    """An annotation in words: the name of a class, else as it is written."""
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__qualname__.rpartition(".")[2]
    return str(hint).replace("typing.", "")
